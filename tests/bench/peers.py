"""Other public clients: what is installed, how each is told the same load, and where it writes what it measured."""

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.scratch import REPOSITORY

FOLDER = Path(os.environ.get("LQW_BENCH_PEERS", REPOSITORY / "runs" / "bench" / "peers"))
PINS = {"httpx": "httpx==0.29.0", "guidellm": "guidellm==0.8.1", "aiperf": "aiperf==0.13.0", "llama-benchy": "llama-benchy==0.4.0"}  # fmt: skip
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {"[UNK]": 0, "x": 1, "[EOS]": 2, **{f"w{i}": i + 3 for i in range(500)}}
made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", eos_token="[EOS]", bos_token="[EOS]").save_pretrained(sys.argv[1])
"""
PROMPT_TOKENS = 64


@dataclass(frozen=True)
class Load:
    """*rounds* times *streams* requests of *tokens* tokens, *gap_ms* apart, *streams* of them at a time."""

    streams: int
    gap_ms: float
    tokens: int
    rounds: int
    ttft_ms: float = 50.0

    @property
    def requests(self):
        """Return how many requests are timed."""
        return self.streams * self.rounds

    @property
    def events_s(self):
        """Return tokens a second, all streams together."""
        return self.streams * 1e3 / self.gap_ms


def program(name, script=None):
    """Return a program of a peer's environment, which is made where it is not there."""
    folder = FOLDER / name
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", PINS[name]], check=True)
    return str(folder / "bin" / (script or name))


def tokenizer():
    """Return the folder of a tokenizer of whole words, so that no peer fetches one."""
    folder = FOLDER / "tokenizer"
    if not (folder / "tokenizer.json").is_file():
        subprocess.run([program("llama-benchy", "python"), "-c", TOKENIZER, str(folder)], check=True)
    return str(folder)


def _own(url, load, place):
    words = [url, str(load.streams), str(load.rounds), str(load.tokens), str(place / "out.json")]
    return [sys.executable, "-m", "tests.bench.clients.own", *words], {}


def _httpx(url, load, place):
    script = str(Path(__file__).parent / "clients" / "plain_httpx.py")
    words = [url, str(load.streams), str(load.rounds), str(load.tokens), str(place / "out.json")]
    return [program("httpx", "python"), script, *words], {}


def _guidellm(url, load, place):
    options = {
        "--backend": f"kind=openai_http,target={url},model=nullmodel",
        "--profile": f"kind=concurrent,streams={load.streams}",
        "--constraint": f"kind=max_requests,count={load.requests}",
        "--tokenizer": f"kind=huggingface_auto,model={tokenizer()}",
        "--data": f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}",
        "--output": f"kind=json,path={place / 'out.json'}",
    }
    words = [word for pair in options.items() for word in pair]
    return [program("guidellm"), "run", *words, "--disable-console"], {"HF_HUB_OFFLINE": "1"}


def _aiperf(url, load, place):
    options = {
        "--model-names": "nullmodel",
        "--url": url,
        "--endpoint-type": "completions",
        "--tokenizer": tokenizer(),
        "--prompt-input-tokens-mean": PROMPT_TOKENS,
        "--prompt-output-tokens-mean": load.tokens,
        "--prompt-output-tokens-stddev": 0,
        "--concurrency": load.streams,
        "--request-count": load.requests,
        "--warmup-request-count": load.streams,
        "--ui-type": "none",
        "--output-artifact-dir": place,
    }
    words = [str(word) for pair in options.items() for word in pair]
    flags = ["--streaming", "--use-legacy-max-tokens", "--use-server-token-count"]
    return [program("aiperf"), "profile", *words, *flags, "--no-gpu-telemetry", "--no-server-metrics"], {}


def _llama_benchy(url, load, place):
    options = {
        "--base-url": f"{url}/v1",
        "--model": "nullmodel",
        "--tokenizer": tokenizer(),
        "--pp": PROMPT_TOKENS,
        "--tg": load.tokens,
        "--runs": load.rounds,
        "--concurrency": load.streams,
        "--latency-mode": "none",
        "--book-url": f"{url}/book.txt",
        "--format": "json",
        "--save-result": place / "out.json",
    }
    words = [str(word) for pair in options.items() for word in pair]
    env = {"HF_HUB_OFFLINE": "1", "HOME": str(place)}  # it keeps the book in its home
    return [program("llama-benchy"), *words, "--skip-coherence", "--no-adapt-prompt"], env


def _read_plain(place):
    return [(one["ttft_ms"], one["itl_ms"]) for one in json.loads((place / "out.json").read_text())]


def _read_guidellm(place):
    found = json.loads((place / "out.json").read_text())["benchmarks"][0]["requests"]["successful"]
    return [(one["time_to_first_token_ms"], one["inter_token_latency_ms"]) for one in found]


def _read_aiperf(place):
    lines = [json.loads(line) for line in (place / "profile_export.jsonl").read_text().splitlines()]
    found = [one["metrics"] for one in lines if one["metadata"]["benchmark_phase"] == "profiling"]
    return [(one["time_to_first_token"]["value"], one["inter_token_latency"]["value"]) for one in found]


def _read_llama_benchy(place):
    found = json.loads((place / "out.json").read_text())["benchmarks"][0]
    rates = found["tg_req_throughput"]["values"]
    return [(ttft, 1e3 / rate) for ttft, rate in zip(found["e2e_ttft"]["values"], rates, strict=True)]


CLIENTS = {
    "lqw": (_own, _read_plain),
    "httpx": (_httpx, _read_plain),
    "guidellm": (_guidellm, _read_guidellm),
    "aiperf": (_aiperf, _read_aiperf),
    "llama-benchy": (_llama_benchy, _read_llama_benchy),
}
"""How each is started, and how its own figures are read: a list of (TTFT ms, mean time between tokens ms)."""

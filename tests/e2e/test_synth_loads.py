"""A synthetic model in real engines: llama-server and apr load it, count its prompts alike and say the same tokens.

Binaries are found through ``LQW_LLAMA_SERVER`` and ``LQW_APR``, or as ``shared/engines/*.xz`` beside the checkout; the
real tokenizer through ``LQW_VOCAB`` or ``shared/gpu/ggml-vocab-qwen35.gguf.xz``. What is absent is skipped, with what
to supply in the reason.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from lqw.errors import UsageError
from lqw.synth import Recipe, made_up_vocabulary, read_vocabulary, synthesise
from lqw.synth.words import words_of
from lqw.testing.real_engines import program, vocabulary

pytestmark = pytest.mark.engine

TOKENS = 96
PROMPTS = (
    " bade kilo zute",
    "Once upon a time the quick brown fox",
    "1234 + é ünï 漢字 <|im_end|>",
    "def f(x):\n    return x",
)


@pytest.fixture
def embedded():
    return [sys.executable, "-m", "lqw.engines.embedded_server"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    try:
        yield {name: program(name, folder) for name in ("llama-server", "apr")}
    except UsageError as err:
        pytest.skip(str(err))
    shutil.rmtree(folder)  # 90 MB


def _vocabulary(kind):
    if kind == "made-up":
        return made_up_vocabulary()
    try:
        return read_vocabulary(vocabulary())
    except UsageError as err:
        pytest.skip(str(err))


@contextmanager
def _serving(command, log):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "RAYON_NUM_THREADS": "2", "HOME": str(log.parent)}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", str(port)],
            stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                _wait_ready(client, process, log)
                yield client
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0, log.read_text(errors="replace")[-2000:]
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _wait_ready(client, process, log):
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, "not ready within 60 s"
        try:
            if client.get("/health").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:  # the port is not open yet
            pass
        time.sleep(0.05)


def _asked(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()


def _chat_prompt_tokens(client):
    body = {"model": "m", "messages": [{"role": "user", "content": "Say something"}], "max_tokens": 4, "temperature": 0}
    return _asked(client, "/v1/chat/completions", body)["usage"]["prompt_tokens"]


def _llama(program, model, log):
    line = [*program, "-m", model, "-t", 2, "-np", 1, "-c", 2048, "--cache-ram", 0, "--offline"]
    with _serving(line, log) as client:
        out = []
        for prompt in PROMPTS:
            body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "top_k": 1, "cache_prompt": False}
            answer = _asked(client, "/completion", body | {"return_tokens": True})
            assert answer["stop_type"] == "limit"  # never an end token
            out.append((answer["timings"]["prompt_n"], answer["tokens"], answer["content"]))
        return out, _chat_prompt_tokens(client)


def _apr(program, model, log):
    with _serving([program, "serve", "run", model, "--no-gpu"], log) as client:
        out = []
        for prompt in PROMPTS:
            answer = _asked(client, "/generate", {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0})
            count = answer["num_generated"]
            assert count == TOKENS
            out.append((len(answer["token_ids"]) - count, answer["token_ids"][-count:]))
        return out, _chat_prompt_tokens(client)


def test_the_embedded_llama_cpp_says_the_cycle(embedded, tmp_path):
    """Without a second engine: the answer is known beforehand, for the words follow each other in one cycle."""
    recipe = Recipe("qwen3.5-tiny", "q4_k_m", made_up_vocabulary())
    synthesise(recipe, tmp_path / "tiny.gguf")
    answers, _ = _llama(embedded, tmp_path / "tiny.gguf", tmp_path / "embedded.log")
    words = words_of(recipe)
    following = {int(place): token for token, place in enumerate(words.led_from) if place >= 0}
    token, wanted = recipe.vocabulary.tokens.index("Ġzute".encode()), []
    for _ in range(TOKENS):
        token = following[int(words.acts_as[token])]
        wanted.append(token)
    assert answers[0][1] == wanted


@pytest.mark.parametrize(
    ("vocabulary", "mix"),
    [("qwen3.5", "q4_k_m"), ("made-up", "q4_k_m"), ("made-up", "q5_k_m"), ("made-up", "q8_0"), ("made-up", "f16")],
)
def test_both_engines_say_the_same_tokens(programs, tmp_path, vocabulary, mix):
    model = tmp_path / "tiny.gguf"
    synthesise(Recipe("qwen3.5-tiny", mix, _vocabulary(vocabulary)), model)
    llama, llama_chat = _llama([programs["llama-server"]], model, tmp_path / "llama.log")
    apr, apr_chat = _apr(programs["apr"], model, tmp_path / "apr.log")
    assert [(prompt, ids) for prompt, ids, _ in llama] == apr
    assert llama_chat == apr_chat > 4
    for _, ids, text in llama:
        assert len(set(ids)) == TOKENS  # no word twice: the cycle is long
        assert all(word.isalpha() and word.islower() for word in text.split())

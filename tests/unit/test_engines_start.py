"""Starting, proving and stopping an engine; every way it can go wrong is a Failure and leaves nothing behind."""

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from lqw.engines.base import Prompt
from lqw.engines.running import RunningEngine
from lqw.engines.starting import start_engine
from lqw.host.ports import free_port
from lqw.host.supervise import leftovers
from lqw.outcomes import Reason
from lqw.samples import EngineFacts, Failure
from lqw.testing.fake_adapter import Fake
from tests.support.engines import RUN_ID, request, started

HELLO = Prompt((2, 114, 111))


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_a_started_engine_is_proven_and_described(tmp_path):
    with started(tmp_path, threads=3, ubatch=64) as engine:
        assert isinstance(engine.facts, EngineFacts)
        assert engine.facts.settings["slots"] == 2
        assert engine.facts.settings["n_ubatch"] == 64
        assert engine.facts.settings["n_threads_batch"] == 3
        assert len(engine.facts.binary_sha256) == 64
        assert engine.stream_format == "llama"
        assert 0 < engine.ready_s < 10
        assert engine.died() is None
        words = engine.facts.command
        assert not any("/" in word for word in words), "no folder of this machine in a receipt"
        assert words[words.index("-m", 3) + 1] == "model.gguf"
    assert gone(engine.pid)
    assert leftovers(RUN_ID) == []


def test_tokens_go_there_and_back(tmp_path):
    with started(tmp_path) as engine:
        ids = engine.tokenize("häß 春")
        assert len(ids) == 6
        assert engine.detokenize(ids[1:]) == "häß 春"


def test_an_answer_has_ids_text_and_finish(tmp_path):
    with started(tmp_path) as engine:
        answer = engine.answer(HELLO, 5, name="hello", repeat=1)
        again = engine.answer(HELLO, 5, name="hello", repeat=1)
    assert len(answer.ids) == 5
    assert (answer.prompt, answer.repeat, answer.prompt_tokens, answer.finish) == ("hello", 1, 3, "limit")
    assert answer.text.count(" ") == 5
    assert answer == again


def test_memory_is_sampled_over_the_tree(tmp_path):
    with started(tmp_path, rss_mib=32) as engine, engine.memory() as memory:
        pass
    assert memory.peaks().rss_anon_bytes > 32 * 2**20


@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        (
            "exit_at_once",
            Reason.FAILED_START,
            "exited with status 6 before it was ready: fake_engine: error loading model",
        ),
        ("hang_before_ready", Reason.FAILED_START, "not ready 1 s after its start"),
        ("never_listens", Reason.FAILED_START, "not ready 1 s after its start"),
        ("wrong_slots", Reason.WRONG_SETTINGS, "1 slots, 2 listed, planned 2"),
        ("small_context", Reason.WRONG_SETTINGS, "256 tokens of context per slot, planned 300"),
        ("wrong_model", Reason.WRONG_SETTINGS, "serves other.gguf, planned model.gguf"),
    ],
)
def test_a_bad_start_is_named_and_leaves_nothing(tmp_path, fault, reason, said):
    timeout_s = 1.0 if "not ready" in said else 20.0
    outcome = start_engine(Fake(), request(tmp_path, fault=fault, timeout_s=timeout_s))
    assert isinstance(outcome, Failure)
    assert outcome.reason is reason
    assert said in outcome.detail
    assert leftovers(RUN_ID) == []


def test_the_last_log_lines_come_with_the_failure(tmp_path):
    outcome = start_engine(Fake(), request(tmp_path, fault="exit_at_once"))
    assert outcome.log_tail[-1] == "fake_engine: error loading model: a fault, on demand"


def test_death_before_readiness_is_seen_at_once_not_at_the_deadline(tmp_path):
    began = time.monotonic()
    start_engine(Fake(), request(tmp_path, fault="exit_at_once", timeout_s=300.0))
    assert time.monotonic() - began < 10


def test_other_settings_than_planned_are_refused(tmp_path):
    class Handicapped(Fake):
        def command(self, asked, port):
            return [*super().command(asked, port), "-ub", "16"]

    outcome = start_engine(Handicapped(), request(tmp_path, ubatch=512))
    assert (outcome.reason, outcome.detail) == (Reason.WRONG_SETTINGS, "n_ubatch = 16, planned ubatch 512")


def test_other_bytes_than_pinned_are_refused(tmp_path):
    outcome = start_engine(Fake(), request(tmp_path, sha256="0" * 64))
    assert outcome.reason is Reason.WRONG_PROCESS
    assert "the params pin 0000" in outcome.detail


def test_a_program_that_cannot_be_executed_is_a_failed_start(tmp_path):
    class Missing(Fake):
        def program(self, spec):
            return ["/no/such/program"]

    outcome = start_engine(Missing(), request(tmp_path))
    assert outcome.reason is Reason.FAILED_START
    assert "exited with status 126" in outcome.detail
    assert "No such file" in outcome.log_tail[-1]


def test_a_stale_server_on_the_port_is_named_and_nothing_is_started(tmp_path):
    with started(tmp_path, run_id="stale") as stale:
        outcome = start_engine(Fake(), request(tmp_path), port=stale.port)
        assert outcome.reason is Reason.WRONG_PROCESS
        assert f"port {stale.port} is already served by pid {stale.pid} " in outcome.detail
        assert leftovers(RUN_ID) == []
        assert stale.died() is None


def test_an_answer_from_another_process_than_the_one_started_is_refused(tmp_path):
    """The stale server comes up after the port was looked at: only the socket's owner tells."""

    class Shy(Fake):
        def command(self, asked, port):
            self.other = subprocess.Popen([*super().command(asked, port)], env={}, stderr=subprocess.DEVNULL)
            return ["sleep", "60"]

    engine = Shy()
    try:
        outcome = start_engine(engine, request(tmp_path, timeout_s=10.0), port=free_port())
        assert outcome.reason is Reason.WRONG_PROCESS
        assert f"served by pid {engine.other.pid} " in outcome.detail
    finally:
        engine.other.kill()
        engine.other.wait()


def test_a_server_of_another_kind_is_not_taken_for_ready(tmp_path):
    class Web(Fake):
        def command(self, asked, port):
            code = (
                "import http.server as h, sys\n"
                "class H(h.BaseHTTPRequestHandler):\n"
                "  def do_GET(self):\n"
                "    self.send_response(200); self.end_headers(); self.wfile.write(b'{}')\n"
                "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
            )
            return [sys.executable, "-I", "-c", code, str(port)]

    outcome = start_engine(Web(), request(tmp_path))
    assert outcome.reason is Reason.WRONG_PROCESS
    assert "/props or /slots is not llama-server's" in outcome.detail


def test_an_engine_that_dies_while_it_serves_is_noticed(tmp_path):
    with started(tmp_path, fault="die_in_stream") as engine:
        answer = engine.answer(HELLO, 8, name="hello")
        assert answer.failure.reason is Reason.ENGINE_DIED
        assert answer.failure.detail == "fake killed by SIGKILL while it served"
        assert answer.failure.log_tail
        assert engine.died() == answer.failure
        assert engine.tokenize("x").reason is Reason.ENGINE_DIED
        assert engine.detokenize([11]).reason is Reason.ENGINE_DIED


@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        ("stall", Reason.TIMEOUT, "no answer in time"),
        ("error_in_200", Reason.HTTP_ERROR, "error in a 200"),
        ("http_500", Reason.HTTP_ERROR, "500"),
    ],
)
def test_an_answer_that_fails_is_a_failure_on_the_answer(tmp_path, fault, reason, said):
    with started(tmp_path, fault=fault) as engine:
        answer = engine.answer(HELLO, 8, name="hello", timeout_s=0.5)
    assert answer.failure.reason is reason
    assert said in answer.failure.detail


def test_stop_ends_one_that_ignores_sigterm_and_what_it_left_in_other_sessions(tmp_path):
    for fault in ("ignores_term", "grandchild"):
        engine = started(tmp_path, fault=fault, run_id=f"stop-{fault}")
        assert engine.stop(2.0) is None
        assert engine.stop(2.0) is None, "a second stop does nothing"
        assert leftovers(f"stop-{fault}") == []
        assert gone(engine.pid)


def test_an_exception_while_it_serves_stops_it(tmp_path):
    with pytest.raises(KeyboardInterrupt), started(tmp_path) as engine:
        raise KeyboardInterrupt
    assert gone(engine.pid)


def test_an_interrupt_while_it_loads_leaves_nothing(tmp_path):
    class Impatient(Fake):
        def is_ready(self, control):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_engine(Impatient(), request(tmp_path, run_id="impatient"))
    assert leftovers("impatient") == []


def test_memory_of_a_gpu_that_does_not_come_back_is_contended(tmp_path):
    class Meter:
        def returned(self):
            return False

    engine = started(tmp_path)
    stuck = RunningEngine(engine.engine, engine.child, engine.host, engine.port, 0.1, engine.facts, Meter())
    assert stuck.stop(0.3).reason is Reason.CONTENDED


@pytest.mark.parametrize("fault", ["none", "grandchild"])
def test_kill_9_of_the_measuring_process_takes_the_engine_with_it(tmp_path, fault):
    """And what the engine itself had started, in a session of its own and deaf to SIGTERM: ollama's runner lived on."""
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from tests.support.engines import started
        engine = started(Path({str(tmp_path)!r}), fault={fault!r}, run_id={RUN_ID!r})
        print(engine.pid, engine.port, flush=True)
        time.sleep(60)
    """)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env)
    try:
        pid, port = map(int, parent.stdout.readline().split())
        socket.create_connection(("127.0.0.1", port)).close()
        parent.kill()
        parent.wait()
        end = time.monotonic() + 5
        while leftovers(RUN_ID) and time.monotonic() < end:
            time.sleep(0.01)
        assert leftovers(RUN_ID) == []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        assert pid
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()

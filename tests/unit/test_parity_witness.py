"""Taking a witness: the batch comes from the server's telemetry, the verdict from its tokens. No engine is started."""

import json
import mmap
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lqw.canonical import sha256_file
from lqw.cli.parity import app
from lqw.engines.base import HttpRequest, Prompt
from lqw.engines.control import ControlError
from lqw.errors import LqwError, UsageError
from lqw.outcomes import Reason
from lqw.parity import judge_serving, start
from lqw.parity.bands import common_prefix
from lqw.parity.telemetry import Formed, LlamaTelemetry, LogTelemetry, formed_of, parse_counters, parse_log
from lqw.parity.witness import Target, judge_band, take_witness
from lqw.samples import Answer, EngineFacts, Failure

FIXTURES = Path(__file__).parents[1] / "fixtures/parity"
REFERENCE = list(range(100, 164))
GARBAGE = [*REFERENCE[:3], *[7] * 61]
MODEL = "tiny-1b"


class FakeEngine:
    """Answers from a script: ``answers(shape, slot)`` gives ids; a log line a band, as apr writes them."""

    name = "fake"
    stream_format = "openai"

    def __init__(self, log, answers, batch):
        self.log, self.answers, self.batch = log, answers, batch

    def request_body(self, kind, prompt, n_predict, *, cache, stream, slot=None):
        assert (kind, cache, stream) == ("witness", False, False)
        return HttpRequest("/batched", b'{"temperature": 0.0}')

    def answer(self, control, request, blank):
        if blank.shape.startswith("agg@") and blank.repeat == 0:
            with self.log.open("a") as log:
                log.write(f"[PMAT-044] Batch m={self.batch(int(blank.shape[4:]))} done\n")
        ids = self.answers(blank.shape, blank.repeat)
        if ids is None:
            raise ControlError(Reason.HTTP_ERROR, "POST /x: 503: Batch queue full")
        return blank.model_copy(update={"ids": ids, "text": "words", "finish": "length"})


def take(tmp_path, answers, batch=lambda c: c, *, c=(1, 4), log=True):
    facts = EngineFacts(
        engine="fake", version="apr 0.72.3 (9c34b9a91)", build="0.72.3", binary_sha256="ab" * 32, command=[], env={},
        settings={}, compute="cpu",
    )  # fmt: skip
    path = tmp_path / "engine.log"
    path.write_text("[PMAT-044] Batch m=16 done\n")  # of an earlier band: must not count
    target = Target(FakeEngine(path, answers, batch), "127.0.0.1", 9, facts, path if log else None)
    model = {"path": "tiny-1b-q4.gguf", "sha256": "cd" * 32}
    return take_witness(target, Prompt((1, 2, 3)), c, tokens=64, host="box", model=model)


def judged(witness):
    return judge_serving(json.loads(json.dumps(witness)), model=MODEL)


def test_equal_tokens_at_a_formed_batch_pass_and_the_commit_is_named(tmp_path):
    witness = take(tmp_path, lambda shape, slot: REFERENCE, c=(1, 4, 16))
    assert [(b["c"], b["m_formed"], b["result"]) for b in witness["bands"]] == [
        (1, 1, "PASS"),
        (4, 4, "PASS"),
        (16, 16, "PASS"),
    ]
    assert (witness["exit"], witness["commit"]) == (0, "9c34b9a91")
    assert (witness["route"], witness["sampler"]) == ("/batched", {"temperature": 0.0})
    assert str(judged(witness).word) == "PASS"


def test_garbage_only_at_c_above_one_fails_at_its_slot_and_token(tmp_path):
    """PITFALLS 1: single-stream gates see nothing of it."""
    witness = take(tmp_path, lambda shape, slot: GARBAGE if (shape, slot) == ("agg@4", 2) else REFERENCE)
    assert witness["bands"][0]["result"] == "PASS"
    band = witness["bands"][1]
    assert (band["result"], band["divergence_at"], band["max_constant_run"]) == ("FAIL", 3, 61)
    assert [slot["agree_to"] for slot in band["slots"]] == [64, 64, 3, 64]
    assert "slot 2: one token repeated 61 times" in judged(witness).line
    assert str(judged(witness).word) == "FAIL"


def test_coherent_but_other_text_at_a_batch_fails(tmp_path):
    other = [*REFERENCE[:20], *range(900, 944)]
    witness = take(tmp_path, lambda shape, slot: other if shape == "agg@4" else REFERENCE)
    band = witness["bands"][1]
    assert (band["result"], band["divergence_at"], band["reason"]) == (
        "FAIL",
        20,
        "0 of 4 answers equal the single stream's",
    )
    assert [slot["intra_agree_to"] for slot in band["slots"]] == [64] * 4, "they agree with each other"


def test_a_batch_the_client_asked_for_and_the_server_did_not_form_is_not_measured(tmp_path):
    """PITFALLS 3: shape by intent."""
    witness = take(tmp_path, lambda shape, slot: REFERENCE, batch=lambda c: 1)
    assert (witness["bands"][1]["result"], witness["exit"]) == ("UNMEASURABLE", 3)
    assert str(judged(witness).word) == "UNMEASURED"


def test_a_batch_line_that_is_not_of_these_requests_measures_nothing(tmp_path):
    """A log may hold the model's own words, or another client's batches."""
    forged = "[PMAT-044] Batch m=4 done in 1.0ms\n"
    witness = take(
        tmp_path, lambda shape, slot: REFERENCE, batch=lambda c: f"1 done\n{forged}[PMAT-044] Batch m={c - 1}"
    )
    band = witness["bands"][1]
    assert (band["result"], witness["exit"]) == ("UNMEASURABLE", 3)
    assert "8 requests in them, 4 were sent" in band["reason"]
    assert str(judged(witness).word) == "UNMEASURED"


def test_an_engine_whose_batches_nobody_can_see_is_not_measured(tmp_path):
    witness = take(tmp_path, lambda shape, slot: REFERENCE, log=False)
    assert witness["bands"][1]["reason"] == "no telemetry to read"
    assert str(judged(witness).word) == "UNMEASURED"


def test_refused_requests_are_named_and_not_measured(tmp_path):
    witness = take(tmp_path, lambda shape, slot: None if (shape, slot) == ("agg@4", 3) else REFERENCE)
    band = witness["bands"][1]
    assert band["slots"][3]["refused"] is True
    assert band["reason"] == "1 of 4 requests were refused: POST /x: 503: Batch queue full"
    assert str(judged(witness).word) == "UNMEASURED"


def test_an_unstable_single_stream_is_no_reference(tmp_path):
    witness = take(tmp_path, lambda shape, slot: [slot, *REFERENCE])
    assert (witness["reference"]["stable"], witness["bands"], witness["exit"]) == (False, [], 3)
    assert "reference is not stable (two answers part at token 0)" in judged(witness).line


@pytest.mark.parametrize(
    ("ids", "why"), [(None, "POST /x: 503: Batch queue full"), ([], "the engine gives no token ids")]
)
def test_an_engine_that_does_not_answer_alone_is_not_measured_and_says_why(tmp_path, ids, why):
    witness = take(tmp_path, lambda _shape, _slot: ids)
    assert (witness["bands"], witness["exit"]) == ([], 3)
    assert (judged(witness).word, f"not stable ({why})" in judged(witness).line) == ("UNMEASURED", True)


def test_without_ids_nothing_is_compared():
    answers = [Answer(prompt="w", shape="agg@2", repeat=i, text="words") for i in range(2)]
    band = judge_band(2, answers, REFERENCE, Formed(2, ""))
    assert (band["result"], band["reason"]) == ("UNMEASURABLE", "the engine gives no token ids to compare")


def test_a_short_answer_is_not_the_reference():
    answers = [Answer(prompt="w", shape="agg@2", repeat=i, text="w", ids=REFERENCE[: 64 - i]) for i in range(2)]
    band = judge_band(2, answers, REFERENCE, Formed(2, ""))
    assert (band["result"], band["divergence_at"]) == ("FAIL", 63)


def test_common_prefix():
    assert [common_prefix(*pair) for pair in (([], [1]), ([1, 2], [1, 3]), ([1, 2], [1, 2, 3]))] == [0, 1, 2]


# telemetry


METRICS = "# TYPE llamacpp:n_decode_total counter\nllamacpp:n_decode_total {}\nllamacpp:n_busy_slots_per_decode {}\n"


def test_the_batch_is_what_slots_and_counters_both_vouch_for():
    before, after = parse_counters(METRICS.format(65, 1)), parse_counters(METRICS.format(131, 2.48092))
    assert formed_of(4, before, after) == Formed(4, "4 slots at work at once, 3.94 per decode over 66 decodes")
    assert formed_of(3, before, after).batch == 3
    one_by_one = parse_counters(METRICS.format(325, 1))
    assert formed_of(4, before, one_by_one).batch == 1, "four slots busy, but each decode served one"


def test_silent_counters_are_a_reason_not_a_batch():
    assert parse_counters("llamacpp:n_decode_total 5\n") is None
    assert formed_of(4, None, (1, 1)) == Formed(None, "/metrics has no decode counters")
    assert formed_of(4, (5, 5), (5, 5)).batch is None


def test_aprs_log_tells_its_batches(tmp_path):
    assert parse_log("x\n[PMAT-044] Batch m=3 done\n[PMAT-044] Batch m=11 done in 3 ms\n").batch == 11
    assert parse_log("[#5293] Qwen3.5 batch: m=4 prefilled").batch is None
    assert parse_log("it said: [PMAT-044] Batch m=9 done in 3 ms").batch is None, "words of an answer"
    missing = LogTelemetry(tmp_path / "none.log")
    missing.begin()
    assert missing.end().batch is None


class Pages(BaseHTTPRequestHandler):
    """A server whose /slots shows three at work and whose /metrics rises from page to page."""

    pages = (METRICS.format(10, 1), METRICS.format(20, 2))

    def do_GET(self):
        if self.path == "/slots":
            body = json.dumps([{"is_processing": i < 3} for i in range(4)])
        else:
            self.server.count += 1
            body = self.pages[min(self.server.count, 2) - 1]
        self.send_response(200 if self.server.serving or self.path == "/metrics" else 501)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        """Say nothing."""


@pytest.mark.parametrize(("serving", "batch"), [(True, 3), (False, None)])
def test_llama_servers_pages_are_read_around_and_during_a_band(serving, batch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.count, server.serving = 0, serving
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        telemetry = LlamaTelemetry("127.0.0.1", server.server_address[1])
        telemetry.begin()
        threading.Event().wait(0.15)
        formed = telemetry.end()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert formed.batch == batch, formed.detail
    if not serving:
        assert "501" in formed.detail


# real witnesses of llama.cpp, and the command line


def test_the_real_witnesses_of_the_demo_model_are_judged_as_they_were_seen():
    """Greedy text without ties is the same at 1, 4, 8 and 16 streams; with a tie of 0.03 nats no answer is."""
    good = json.loads((FIXTURES / "gemma3-270m.serving.json").read_text())
    tied = json.loads((FIXTURES / "gemma3-270m-tie.serving.json").read_text())
    served = json.loads((FIXTURES / "gemma3-270m-llama-server.serving.json").read_text())
    for one in (good, served):
        assert str(judge_serving(one, model="gemma3-270m").word) == "PASS"
        assert [band["m_formed"] for band in one["bands"]] == [1, 4, 8, 16]
    assert [sum(s["agree_to"] == 64 for s in band["slots"]) for band in tied["bands"]] == [1, 0, 0, 0]
    verdict = judge_serving(tied, model="gemma3-270m")
    assert str(verdict.word) == "FAIL"
    assert "c=16 m_formed=16: diverged at token 5" in verdict.line


def test_a_recorded_band_is_judged_again_from_its_ids_alone():
    for name in ("gemma3-270m.serving.json", "gemma3-270m-llama-server.serving.json", "gemma3-270m-tie.serving.json"):
        witness = json.loads((FIXTURES / name).read_text())
        for band in witness["bands"]:
            answers = [
                Answer(prompt="w", shape="x", repeat=s["i"], ids=s["ids"], text="", finish=s["finish_reason"])
                for s in band["slots"]
            ]
            formed = Formed(band["m_formed"], band["telemetry"])
            assert judge_band(band["c"], answers, witness["reference"]["ids"], formed) == band


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--c", "1,x"], "--c '1,x'"),
        (["--c", "0"], "--c '0'"),
        (["--prompt", "poem"], "one of code, prose"),
        (["--compute", "tpu"], "cpu or cuda"),
        (["--gguf", "no-such.gguf"], "no such file"),
        (["--gguf", "package:no_such_wheel"], "not installed"),
        (["--port", "1"], "0 processes"),
        (["--host", " "], "no name of a host"),
        (["--model", "n"], "m.gguf is not called so"),
        (["--host", "../lambda"], "no name of a host"),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_starts_nothing(tmp_path, words, message):
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    args = [
        "witness",
        "--model",
        "m",
        "--host",
        "box",
        "--out",
        str(tmp_path / "out/w.json"),
        "--gguf",
        str(gguf),
        *words,
    ]
    error = CliRunner().invoke(app, args).exception
    assert isinstance(error, LqwError), error
    assert int(error.exit_status) == 2
    assert message in str(error)
    assert not (tmp_path / "out/w.json").exists()


class Props(BaseHTTPRequestHandler):
    """A llama-server by its pages, of this very process."""

    def do_GET(self):
        """Answer /props and /slots."""
        page = (
            {"build_info": "b1", "model_path": "/m/m.gguf", "total_slots": 1}
            if self.path == "/props"
            else [{"n_ctx": 1}]
        )
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


def test_a_server_found_running_must_serve_the_models_own_bytes(tmp_path):
    """A receipt that names other bytes than were served is worse than none."""
    ours, copy, other = (tmp_path / name for name in ("m.gguf", "again.gguf", "other.gguf"))
    for path, data in ((ours, b"GGUF" * 1024), (copy, b"GGUF" * 1024), (other, b"FUGG" * 1024)):
        path.write_bytes(data)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Props)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        take_from = partial(start.attached, "llama_server", server.server_port, "cpu", None)
        with pytest.raises(UsageError, match="has mapped no GGUF and names none"):
            take_from((ours, sha256_file(ours)))
        with mapped(copy):
            assert take_from((ours, sha256_file(ours))).facts.settings["model"] == "m.gguf"
            with (
                mapped(other),
                pytest.raises(UsageError, match=r"serves other\.gguf, whose bytes are not those of m\."),
            ):
                take_from((ours, sha256_file(ours)))
            copy.unlink()
            copy.write_bytes(ours.read_bytes())
            with pytest.raises(UsageError, match=r"serves again\.gguf \(deleted\), whose bytes"):
                take_from((ours, sha256_file(ours)))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def mapped(path):
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ):
        yield


def test_an_engine_that_does_not_start_is_exit_2_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "start_engine", lambda *a, **k: Failure(reason=Reason.FAILED_START, detail="exit 1"))
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    args = ["witness", "--model", "m", "--host", "box", "--out", str(tmp_path / "w.json"), "--gguf", str(gguf)]
    error = CliRunner().invoke(app, args).exception
    assert isinstance(error, start.EngineFailed)
    assert "FAILED_START: exit 1" in str(error)
    assert not isinstance(error, UsageError)

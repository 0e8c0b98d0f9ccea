"""apr's adapter: command line, checks, generations, what is read from its log; recorded exchanges of a real one."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lqw.collect.streams import understand
from lqw.collect.wire import read_response
from lqw.engines import apr, apr_log
from lqw.engines.apr import Apr
from lqw.engines.apr_generations import GENERATIONS, UNSEEN, generation_of
from lqw.engines.base import Prompt, StartRequest, Where
from lqw.engines.binaries import version_words
from lqw.engines.control import ControlError
from lqw.engines.registry import get_engine
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.params import EngineSpec
from lqw.samples import Answer

FIXTURES = Path(__file__).parents[1] / "fixtures"
WHERE = Where("params/releases/0.72.3.yaml", "subject")
LOG = (FIXTURES / "engines" / "apr-0.72.3.log").read_text()
REJECTED = (FIXTURES / "engines" / "apr-0.72.3-f2-rejected.log").read_text()
HEALTH = {"version": "0.72.3", "compute_mode": "cpu", "model_loaded": True}
TEXT = Prompt((785, 3974), "The quick")


class Answers:
    """A control connection that answers from a table."""

    def __init__(self, **by_path):
        self.by_path = {"/" + path.replace("_", "/"): value for path, value in by_path.items()}

    def get(self, path):
        return self.by_path[path]

    def post(self, path, body):
        self.sent = json.loads(body)
        return self.by_path[path]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "apr"
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def asked(compute="cuda", **settings):
    spec = EngineSpec(engine="apr", binary="/opt/apr", settings=settings)
    return StartRequest(spec, Path("/models/m.gguf"), 4, 700, compute, "run", Path("/logs/x"), 60.0)


def test_the_command_line():
    line = ["/opt/apr", "serve", "run", "/models/m.gguf", "--host", "127.0.0.1", "--port", "8123"]
    assert Apr().command(asked(), 8123) == [*line, "--gpu-layers", "all"]
    assert Apr().command(asked(gpu_layers=12), 8123) == [*line, "--gpu-layers", "12"]
    assert Apr().command(asked("cpu"), 8123) == [*line, "--no-gpu"]


def test_the_environment_is_scrubbed_and_recorded():
    own = {"APR_QWEN35_SESSION_PREFILL": "per-token"}
    spec = EngineSpec(engine="apr", settings={"threads": 2}, env=own)
    base = {"PATH": "/bin", "APR_API_KEY": "secret", "RAYON_NUM_THREADS": "16"}
    env = Apr().environment(base, replace(asked(), spec=spec), 8123)
    assert env.variables == {"PATH": "/bin", "RAYON_NUM_THREADS": "2", **own}
    assert env.recorded == {"RAYON_NUM_THREADS": "2", **own}
    assert env.dropped == ("APR_API_KEY",)  # it would have answered 401 to everything


@pytest.mark.parametrize(
    ("compute", "settings", "env", "field"),
    [
        ("cuda", {"gpu_layers": 0}, {}, "subject.settings.gpu_layers"),
        ("cpu", {"gpu_layers": "all"}, {}, "subject.settings.gpu_layers"),
        ("cuda", {"slots": 4}, {}, "subject.settings.slots"),
        ("cuda", {"threads": 0}, {}, "subject.settings.threads"),
        ("cuda", {"threads": "2"}, {}, "subject.settings.threads"),
        ("cuda", {}, {"SKIP_PARITY_GATE": "1"}, "subject.env.SKIP_PARITY_GATE"),
        ("cuda", {}, {"APR_API_KEY": "secret"}, "subject.env.APR_API_KEY"),
        ("cpu", {}, {"APR_API_KEY_HASH": "secret"}, "subject.env.APR_API_KEY_HASH"),
    ],
)
def test_what_is_refused_before_anything_starts(program, compute, settings, env, field):
    spec = EngineSpec(engine="apr", binary=program, settings=settings, env=env)
    with pytest.raises(ParamsError) as caught:
        Apr().check(spec, compute=compute, where=WHERE)
    assert caught.value.field == field
    assert caught.value.remedy


def test_a_right_spec_is_accepted(program):
    Apr().check(EngineSpec(engine="apr", binary=program, settings={"threads": 2}), compute="cpu", where=WHERE)
    assert get_engine("apr").name == "apr"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("0.69.1", "no completions"),
        ("0.69.2", "completions"),
        ("0.70.3+no-git", "completions"),
        ("apr 0.72.3 (9c34b9a91)", "live completions"),
        ("1.0.0", "live completions"),
        ("unknown", "no completions"),
    ],
)
def test_generations(version, name):
    assert generation_of(version).name == name


def test_the_table_says_what_each_can_and_what_nobody_has_seen():
    table = {one.name: one.capabilities() for one in GENERATIONS}
    assert table["no completions"]["stream"] == "none: 503"
    assert "NOT_STREAMED" in table["completions"]["stream"]
    assert UNSEEN not in table["live completions"].values()
    assert {table[name]["timings"] for name in ("no completions", "completions")} == {UNSEEN}


def test_the_newest_can_what_was_recorded_of_it():
    """Chat carries timings, but for the three that were served in one batch; completions never do; its stop is SIGINT."""
    folder = Path(__file__).parents[1] / "fixtures" / "exchanges" / "apr-cuda"
    timed = {path.name for path in folder.glob("*.txt") if '"timings":{' in path.read_text()}
    assert {"chat_whole.txt", "chat_stream.txt"} <= timed
    assert not any(name.startswith("completion_") for name in timed)
    assert len([name for name in timed if name.startswith("chat_together_")]) == 1
    assert Apr.stop_signals[0] is signal.SIGINT


def test_the_table_rises():
    assert [one.first for one in GENERATIONS] == sorted(one.first for one in GENERATIONS)


def test_settings_are_read_back(tmp_path):
    log = tmp_path / "log"
    log.write_text(LOG)
    config = {"compute_class": "gpu", "scheduler": {"max_batch": 16}, "model": {"path": "/secret/m.gguf"}}
    control = Answers(health={**HEALTH, "compute_mode": "GPU"})
    control.by_path["/v1/effective-config"] = config
    settings = Apr().read_back(control, log)
    assert settings["layers_offloaded"] == "24/24"
    assert settings["generation"] == "live completions"
    assert settings["route"] == "/v1/completions"
    assert settings["effective"] == {"compute_class": "gpu", "scheduler": {"max_batch": 16}}
    assert Apr().mismatch(settings, asked()) is None


@pytest.mark.parametrize(
    ("change", "compute", "reason"),
    [
        ({"compute_mode": "cpu"}, "cuda", Reason.NO_OFFLOAD),
        ({"compute_mode": "cuda", "layers_offloaded": "12/24"}, "cuda", Reason.NO_OFFLOAD),
        ({"compute_mode": "cuda"}, "cuda", Reason.NO_OFFLOAD),
        ({"compute_mode": "cuda", "layers_offloaded": "24/24"}, "cuda", None),
        ({"compute_mode": "cuda"}, "cpu", Reason.NO_OFFLOAD),
        ({"model_loaded": False}, "cpu", Reason.WRONG_SETTINGS),
        ({"version": "0.69.1"}, "cpu", Reason.UNSUPPORTED),
        ({}, "cpu", None),
    ],
)
def test_what_in_force_is_not_the_plan(change, compute, reason):
    found = Apr().mismatch(HEALTH | change, asked(compute))
    assert (found and found.reason) == reason


def test_a_health_that_is_not_aprs(tmp_path):
    with pytest.raises(ControlError) as caught:
        Apr().read_back(Answers(health={"status": "ok"}), tmp_path / "log")
    assert caught.value.failure.reason is Reason.WRONG_PROCESS


def test_a_timed_request_is_a_raw_completion():
    request = Apr().request_body("cold", TEXT, 1, cache=False, stream=True, slot=0)
    assert request.path == "/v1/completions"
    body = json.loads(request.body)
    assert body == {"model": "m", "prompt": "The quick", "max_tokens": 1, "temperature": 0.0, "stream": True}
    with pytest.raises(ValueError, match="text"):
        Apr().request_body("cold", Prompt((1, 2)), 1, cache=False, stream=True)


def test_an_answer_has_exact_ids():
    recorded = json.loads((FIXTURES / "exchanges" / "apr_generate.json").read_text())
    control = Answers(generate=recorded)
    request = Apr().request_body("identity", TEXT, 12, cache=False, stream=False)
    got = Apr().answer(control, request, Answer(prompt="x", shape="single", repeat=0, text=""))
    assert (got.prompt_tokens, len(got.ids), got.finish) == (4, 12, "limit")
    assert got.text.split()[0] == "thigh"
    assert Apr().tokenize(control, "The quick brown fox") == recorded["token_ids"][:4]
    assert control.sent["max_tokens"] == 1


CHAT = json.loads((FIXTURES / "exchanges" / "apr_chat.json").read_text())


def test_a_witness_goes_by_the_route_that_forms_batches_and_has_ids():
    """PITFALLS 68: completions queue for a lock, chat batches."""
    request = Apr().request_body("witness", TEXT, 24, cache=False, stream=False)
    body = json.loads(request.body)
    assert request.path == "/v1/chat/completions"
    assert (body["messages"], body["max_tokens"]) == ([{"role": "user", "content": "The quick"}], 24)
    assert (body["temperature"], body["ignore_eos"], body["logprobs"], body["stream"]) == (0.0, True, True, False)
    got = Apr().answer(Answers(v1_chat_completions=CHAT), request, Answer(prompt="w", shape="s", repeat=3, text=""))
    assert (got.repeat, got.prompt_tokens, len(got.ids), got.ids[0], got.finish) == (3, 21, 24, 68397, "length")


@pytest.mark.parametrize(
    "change",
    [
        {"usage": {"prompt_tokens": 21, "completion_tokens": 23}},
        {"usage": {}},
        {"choices": []},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]},
    ],
)
def test_a_chat_whose_ids_are_missing_or_miscounted(change):
    request = Apr().request_body("witness", TEXT, 24, cache=False, stream=False)
    with pytest.raises(ControlError, match="/v1/chat/completions"):
        Apr().answer(
            Answers(v1_chat_completions={**CHAT, **change}), request, Answer(prompt="w", shape="s", repeat=0, text="")
        )


def test_the_commit_comes_from_the_running_program_since_health_names_none(monkeypatch):
    words = {"said": "apr 0.72.3 (9c34b9a91)"}
    monkeypatch.setattr(apr, "version_words", lambda program, sha256: words["said"])
    assert Apr().identity(os.getpid(), HEALTH).version == "apr 0.72.3 (9c34b9a91)"
    words["said"] = "Python 3.11"
    assert Apr().identity(os.getpid(), HEALTH).version == "apr 0.72.3"
    with pytest.raises(ControlError, match="/health says binary 00"):
        Apr().identity(os.getpid(), {**HEALTH, "binary_sha256": "00"})


def test_version_words_are_asked_once_for_the_same_bytes(tmp_path):
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\necho run >> $0.log\necho engine 1\necho more\n")
    program.chmod(0o755)
    assert [version_words(str(program), "a"), version_words(str(program), "a")] == ["engine 1"] * 2
    assert (tmp_path / "engine.log").read_text() == "run\n"
    assert version_words(str(tmp_path / "none"), "b") == ""


@pytest.mark.parametrize(
    "answer", [{}, {"token_ids": [1, 2], "num_generated": 3}, {"token_ids": ["a"], "num_generated": 1}]
)
def test_ids_that_cannot_be(answer):
    with pytest.raises(ControlError):
        Apr().tokenize(Answers(generate=answer), "x")


@pytest.mark.parametrize("name", ["apr_completion_stream.txt", "apr_per_token_stream.txt"])
def test_a_recorded_stream(name):
    raw = (FIXTURES / "exchanges" / name).read_bytes()
    told = understand(read_response([1], [raw]).events, "openai")
    assert (sum(told.tokens), told.counts, told.prompt_tokens) == (24, {"usage": 24}, {"usage": 40})
    assert told.finished


def test_what_the_log_tells():
    assert apr_log.gpu_layers(LOG) == "24/24"
    assert apr_log.gpu_layers("nothing") == ""
    assert apr_log.reused_tokens("nothing") is None
    line = "[qwen35] batched prefill: 64 tokens in 12 ms (244 tok/s, chunk 64 rows, attention cuBLAS f32, from position 849)"
    assert apr_log.reused_tokens(f"{LOG}\n{line}\n") == 849
    assert apr_log.fallback(LOG) == ""
    assert "F2 CPU-parity guard" in apr_log.fallback(REJECTED)


def test_a_server_that_moved_itself_to_the_processor_is_found_out():
    assert "F2 CPU-parity guard" in Apr().moved_off(Answers(health={"compute_mode": "gpu"}), REJECTED)
    assert "compute_mode cpu" in Apr().moved_off(Answers(health={"compute_mode": "cpu"}), LOG)
    assert Apr().moved_off(Answers(health={"compute_mode": "gpu"}), LOG) == ""

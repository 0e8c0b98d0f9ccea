"""Engines beside: measured as they are, never able to fail a gate; stand-ins speak their documented HTTP."""

import shlex
import sys
import time
from pathlib import Path

import pytest

from lqw.collect.arms import Site
from lqw.collect.beside import measure_beside
from lqw.collect.pace import Pace
from lqw.collect.preflight import preflight
from lqw.collect.prompts import PromptStore, make_prompts
from lqw.collect.texts import with_texts
from lqw.engines.base import Where
from lqw.engines.control import Control
from lqw.engines.openai_url import OpenAiUrl
from lqw.errors import ParamsError
from lqw.host.ports import free_port
from lqw.host.supervise import start
from lqw.journal import JournalWriter
from lqw.metrics.values import start_values
from lqw.outcomes import Purpose, Reason
from lqw.params import BesideSpec, load_params
from lqw.plan import build_plan
from lqw.testing import fake_model
from tests.support.fake_params import ENVIRONMENT, REPOSITORY, write_params

BOTH = ("ollama", "vllm")
STAND_IN = REPOSITORY / "tests" / "support" / "stand_in.py"


class _Tokenizer:
    def detokenize(self, ids):
        return fake_model.detokenize(list(ids))


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    path = tmp_path_factory.mktemp("bin") / "stand-in"
    words = shlex.join([sys.executable, str(STAND_IN)])
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))} exec {words} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def params(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return load_params(write_params(tmp_path, releases={"1.0.0": {}}) / "1.0.0.yaml")


def _with(params, *besides):
    specs = [BesideSpec(**{"name": one["engine"], **one}) for one in besides]
    return params.model_copy(update={"release": params.release.model_copy(update={"beside": specs})})


def _measure(params, run_dir, *, deadline_s=60.0, known=(), notes=None):
    """Return the records of engines beside after arms that are imagined."""
    store = PromptStore(run_dir / "prompts.json")
    ids = fake_model.tokenize((REPOSITORY / "params" / "prompts" / "corpus.txt").read_text())[1:]
    store.put("tiny", with_texts(make_prompts(params, ids), _Tokenizer()))
    site = Site(
        params=params,
        run_dir=run_dir,
        run_id="beside-test",
        models={"tiny": params.folder / "model.gguf"},
        prompts=store,
        corpus="",
        base_ns=time.perf_counter_ns(),
        gpu=None,
        progress=([] if notes is None else notes).append,
    )
    with JournalWriter(run_dir / "samples.jsonl") as writer:
        return measure_beside(site, writer, known, position=7, pace=Pace(deadline_s))


@pytest.fixture
def faulty(params, binary, tmp_path):
    def measured(engine, fault):
        asked = _with(params, {"engine": engine, "binary": binary, "env": {"STAND_IN": fault}})
        (record,) = _measure(asked, tmp_path)
        return record

    return measured


def _values(params, record):
    rows = build_plan(params, Purpose.GATE).rows
    return {row.short: value for row, value in start_values(record, rows, min_window_s=0.01).items()}


def test_ollama_and_vllm_are_measured_with_the_arms_own_prompts(params, binary, tmp_path):
    asked = _with(params, {"engine": "ollama", "binary": binary}, {"engine": "vllm", "binary": binary})
    ollama, vllm = _measure(asked, tmp_path)
    assert [(one.name, one.position, one.failure) for one in (ollama, vllm)] == [("ollama", 7, None), ("vllm", 8, None)]
    for record in (ollama, vllm):
        values = _values(params, record)
        assert {name: value.failure for name, value in values.items()} == dict.fromkeys(values)
        assert values["decode"].value > 0
        assert record.memory.rss_anon_bytes > 0
    hashes = [[one.prompt_sha256 for one in record.requests] for record in (ollama, vllm)]
    assert hashes[0] == hashes[1]
    assert ollama.engine.settings["blobs"] == [params.release.models[0].sha256]
    assert ollama.engine.env["OLLAMA_NUM_PARALLEL"] == "1"
    assert ollama.requests[0].timings.prompt_ms == 2.0
    assert vllm.engine.command[:2] == ["stand-in", "serve"]
    assert all(one.ids_sha256 for one in vllm.requests)
    assert _measure(asked, tmp_path, known=(ollama, vllm)) == [ollama, vllm]  # a resumed run measures none again


def test_a_row_by_chat_is_unsupported_by_name_where_an_engine_has_no_chat(params, binary, tmp_path):
    launch = params.protocol.launches[0]
    steps = [one.model_copy(update={"route": "chat"} if one.kind == "decode" else {}) for one in launch.steps]
    protocol = params.protocol.model_copy(update={"launches": [launch.model_copy(update={"steps": steps})]})
    asked = _with(
        params.model_copy(update={"protocol": protocol}), *({"engine": one, "binary": binary} for one in BOTH)
    )
    for record in _measure(asked, tmp_path):
        values = _values(params, record)
        lacking = values.pop("decode").failure
        assert (lacking.reason, lacking.detail) == (
            Reason.UNSUPPORTED, f"{record.name} has no chat route, which the row goes by",
        )  # fmt: skip
        assert {name: value.failure for name, value in values.items()} == dict.fromkeys(values)
        assert record.failure is None


@pytest.mark.parametrize(
    ("engine", "fault", "reason", "words"),
    [
        ("ollama", "unknown_architecture", Reason.UNSUPPORTED, "unknown model architecture: 'qwen35'"),
        ("ollama", "other_blob", Reason.WRONG_PROCESS, "the GGUF is"),
        ("vllm", "cannot_load", Reason.UNSUPPORTED, "architecture qwen35 is not supported yet"),
    ],
)
def test_what_it_cannot_load_is_named_in_its_own_words(faulty, engine, fault, reason, words):
    record = faulty(engine, fault)
    assert record.failure.reason is reason
    assert words in record.failure.detail


@pytest.mark.parametrize(
    ("engine", "fault"),
    [("ollama", "error_line"), ("vllm", "unauthorized")],
)
def test_a_failed_request_fails_its_own_rows(params, faulty, engine, fault):
    record = faulty(engine, fault)
    assert {value.failure.reason for value in _values(params, record).values()} == {Reason.HTTP_ERROR}


def test_a_hang_ends_with_the_time_the_arms_left(params, binary, tmp_path):
    notes = []
    asked = _with(
        params,
        {"engine": "ollama", "binary": binary, "env": {"STAND_IN": "stall"}},
        {"engine": "ollama", "name": "late", "binary": binary},
    )
    began = time.monotonic()
    records = _measure(asked, tmp_path, deadline_s=33.0, notes=notes)  # 30 s are reserved for the later stages
    assert time.monotonic() - began < 30.0
    assert {one.failure.reason for one in records[0].requests} == {Reason.TIMEOUT}
    assert [one.name for one in records] == ["ollama"]
    assert "no time is left" in notes[-1]["text"]


def test_a_missing_binary_and_a_fault_in_an_adapter_are_failed_rows(params, tmp_path, monkeypatch):
    monkeypatch.setattr("lqw.engines.vllm.Vllm.check", lambda *_, **__: 1 / 0)
    asked = _with(params, {"engine": "ollama", "binary": "/nowhere/ollama"}, {"engine": "vllm"})
    preflight(asked, Purpose.GATE)  # the gate begins all the same
    ollama, vllm = _measure(asked, tmp_path)
    assert ollama.failure.reason is vllm.failure.reason is Reason.FAILED_START
    assert "beside.ollama.binary = '/nowhere/ollama': no such file" in ollama.failure.detail
    assert "ZeroDivisionError" in vllm.failure.detail


def test_an_unknown_engine_beside_is_refused_before_anything_starts(params):
    with pytest.raises(ParamsError, match="no such engine") as caught:
        preflight(_with(params, {"engine": "tgi"}), Purpose.GATE)
    assert caught.value.field == "beside.tgi.engine"


def test_a_server_that_runs_already_is_asked_and_left_running(params, binary, tmp_path):
    port = free_port()
    server = start([binary, "serve", "m", "--port", str(port)], env={}, log_path=tmp_path / "log", run_id="other")
    try:
        _wait_for(port)
        url = f"http://127.0.0.1:{port}"
        asked = _with(
            params,
            {"engine": "openai_url", "settings": {"url": url}},
            {"engine": "openai_url", "name": "other", "settings": {"url": url, "model": "gemma"}},
        )
        record, other = _measure(asked, tmp_path)
        assert server.returncode() is None
        assert {name: v.failure for name, v in _values(params, record).items()} == dict.fromkeys(
            _values(params, record)
        )
        assert record.engine.version == "server of served"
        assert record.memory.rss_anon_bytes > 0  # it runs here, so it can be looked at
        assert other.failure.reason is Reason.UNSUPPORTED
        assert "it lists served; asked for gemma" in other.failure.detail
    finally:
        server.stop(signals=())
    (gone,) = _measure(_with(params, {"engine": "openai_url", "settings": {"url": url}}), tmp_path)
    assert gone.failure.detail == f"no server answers at 127.0.0.1:{port}"


def _wait_for(port):
    with Control("127.0.0.1", port) as control:
        for _ in range(1000):
            if control.status("/health") == 200:
                return
            time.sleep(0.02)
    raise AssertionError("the stand-in did not come up")


@pytest.mark.parametrize("url", [None, "127.0.0.1:8000", "https://host:1", "http://host:1/v1", "http://me@host:1"])
def test_a_url_that_cannot_be_asked_is_refused(url):
    settings = {} if url is None else {"url": url}
    spec = BesideSpec(name="x", engine="openai_url", settings=settings)
    with pytest.raises(ParamsError, match="not http://HOST:PORT") as caught:
        OpenAiUrl().check(spec, compute="cpu", where=Where(str(Path("p.yaml")), "beside.x"))
    assert caught.value.field == "beside.x.settings.url"

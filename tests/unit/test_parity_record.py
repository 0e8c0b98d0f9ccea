"""Taking the record of one stream: by apr's own tool, or by two llama.cpp's log-probabilities. No real engine runs."""

import json
import math
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lqw.cli.parity import app
from lqw.engines.base import HttpRequest
from lqw.engines.control import ControlError
from lqw.engines.logprobs import head_of
from lqw.errors import LqwError
from lqw.outcomes import Reason
from lqw.parity import judge_record, judge_serving, logprobs, tool
from lqw.parity.envelope import Taken, envelope
from lqw.parity.files import load_thresholds, read_receipt
from lqw.parity.heads import METHOD, compare_heads, record_of
from lqw.samples import Answer, EngineFacts

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/parity"
FLOORS = load_thresholds(ROOT / "params/parity/thresholds.yaml")
METRICS = json.loads((FIXTURES / "qwen2.5-coder-7b.lambda.json").read_text())["metrics"]
RAW = json.dumps({"model": "/secret/m-q4_k_m.gguf", "tokens": 64, "passed": 64, "metrics": METRICS})


@pytest.fixture
def apr(tmp_path, monkeypatch):
    """Return a function that makes a program which says what it is given, and a function that records with it."""
    monkeypatch.setattr(tool, "hardware", lambda model, cuda: {"gpu": "NVIDIA H200", "sm": "sm_90", "arch": "qwen35"})
    monkeypatch.setenv("SKIP_PARITY_GATE", "1")
    (tmp_path / "m-q4_k_m.gguf").write_bytes(b"GGUF")
    (tmp_path / "said.json").write_text(RAW)

    def record(script, *more):
        program = tmp_path / "apr"
        program.write_text(
            f'#!/bin/sh\ncd "{tmp_path}"\n[ "$1" = --version ] && {{ echo "apr 9.9.9 (abcdef123)"; exit; }}\n'
            f'printf "%s\\n" "$@" "gate=$SKIP_PARITY_GATE" > asked\n{script}\n'
        )
        program.chmod(0o755)
        args = ["record", "--model", "m", "--host", "box", "--gguf", str(tmp_path / "m-q4_k_m.gguf")]
        args += ["--out", str(tmp_path / "out/m.m1.json"), "--binary", str(program), *more]
        return CliRunner().invoke(app, args)

    return record


def test_aprs_own_record_is_wrapped_with_its_provenance_and_judged(apr, tmp_path):
    result = apr("echo 'a banner'; cat said.json; echo noise >&2")
    assert result.exit_code == 0, result.output
    assert "PASS m m1 shape batch=1 concurrency=1: 64 positions, least cosine 0.998607" in result.output
    form = json.loads((tmp_path / "out/m.m1.json").read_bytes())
    assert form["schema"] == "apr-parity-receipt/v2"
    assert form["cell"] == {"model": "m", "file": "m-q4_k_m.gguf", "quant": "Q4_K_M"}
    assert (form["apr_version"], form["shape"]) == ("9.9.9 (abcdef123)", {"batch": 1, "concurrency": 1})
    assert form["result"]["min_cosine"] == 0.998607
    provenance = form["provenance"]
    assert (provenance["gpu"], provenance["sm"], provenance["arch"]) == ("NVIDIA H200", "sm_90", "qwen35")
    assert len(provenance["binary_sha256"]) == len(provenance["model_sha256"]) == 64
    assert provenance["command"][:4] == ["apr", "parity", "m-q4_k_m.gguf", "--json"]
    assert "secret" not in json.dumps(form)
    assert not {"threshold", "thresholds", "min_cosine"} & set(form), "a receipt brings no floor"
    asked = (tmp_path / "asked").read_text()
    assert "The lamp keeper" in asked
    assert asked.endswith("gate=\n"), "a variable of this shell reaches no engine"


def test_a_disproven_parity_is_a_measurement_and_red(apr, tmp_path):
    bad = json.loads(RAW)
    bad["metrics"][7]["cosine_similarity"] = 0.5
    (tmp_path / "said.json").write_text(json.dumps(bad))
    result = apr("cat said.json; exit 5", "--json")
    assert (result.exit_code, json.loads(result.output)["verdict"]) == (1, "FAIL")
    assert json.loads((tmp_path / "out/m.m1.json").read_bytes())["result"]["min_cosine_position"] == 7


def test_a_cosine_that_is_no_number_is_written_and_fails(apr, tmp_path):
    bad = json.loads(RAW)
    bad["metrics"][7]["cosine_similarity"] = None
    (tmp_path / "said.json").write_text(json.dumps(bad))
    result = apr("cat said.json; exit 5")
    assert (result.exit_code, "position 7: cosine_similarity = None" in result.output) == (1, True)
    result = json.loads((tmp_path / "out/m.m1.json").read_bytes())["result"]
    assert result == {"positions": 64, "min_cosine": None, "min_cosine_position": None}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'parity: REFUSED architecture=gemma3 - no (#1)' >&2; exit 12", "REFUSED architecture=gemma3"),
        ("echo \"error: unrecognized subcommand 'parity'\" >&2; exit 2", "this binary has no `parity`"),
        ("echo 'error: CUDA driver not found' >&2; exit 5", "status 5 and no record: error: CUDA driver not found"),
        ("echo '{\"metrics\": ['", "status 0 and no record"),
        ("echo '{\"refused\": {}}'", "status 0 and no record"),
        ("cat said.json; exit 8", "status 8 and no record"),
        ("kill -9 $$", "status -9 and no record: it said nothing"),
    ],
)
def test_what_the_tool_cannot_measure_is_exit_2_with_its_words_and_leaves_no_receipt(apr, tmp_path, script, words):
    error = apr(script).exception
    assert isinstance(error, LqwError), error
    assert int(error.exit_status) == 2
    assert words in str(error)
    assert not (tmp_path / "out/m.m1.json").exists()


def test_a_tool_that_does_not_end_is_stopped_and_named(apr, monkeypatch):
    monkeypatch.setattr(tool.record_by_tool, "__kwdefaults__", {"limit_s": 0.3})
    assert "stopped at its time limit" in str(apr("echo begun; sleep 60").exception)


# by log-probabilities


HEADS = st.dictionaries(st.integers(0, 50), st.floats(-20, -0.01), min_size=2, max_size=20)


@given(HEADS, HEADS)
def test_a_cosine_is_one_and_a_divergence_is_never_negative(left, right):
    metric = compare_heads(3, left, right)
    assert -1 <= metric["cosine_similarity"] <= 1
    assert metric["kl_divergence"] >= 0
    assert metric["max_abs_diff"] >= metric["mean_abs_diff"] - 1e-6
    same = compare_heads(3, left, left)
    assert (same["cosine_similarity"], same["max_abs_diff"], same["verdict"]) == (1.0, 0.0, "OK")


def test_a_shift_of_all_logits_is_no_difference_and_another_order_is():
    head = {1: -0.1, 2: -3.0, 3: -5.0}
    shifted = {token: value - 0.5 for token, value in head.items()}
    assert compare_heads(0, head, shifted)["cosine_similarity"] == 1.0
    turned = compare_heads(0, head, {1: -5.0, 2: -3.0, 3: -0.1})
    assert (turned["verdict"], turned["cpu_argmax"], turned["gpu_argmax"]) == ("ARGMAX", 1, 3)
    assert turned["cosine_similarity"] < 0


def test_a_token_outside_a_head_counts_as_that_heads_last():
    metric = compare_heads(0, {1: -0.1, 2: -4.0}, {1: -0.1, 3: -6.0})
    assert (metric["max_abs_diff"], metric["mean_abs_diff"]) == (2.0, round(4 / 3, 6))


def test_a_head_is_read_as_llama_server_writes_it():
    top = [{"id": 5, "logprob": -0.5}, {"id": 6, "logprob": -1}, {"id": 7, "logprob": -3.4028234663852886e38}]
    assert head_of({"completion_probabilities": [{"top_logprobs": top}]}) == {5: -0.5, 6: -1.0}
    assert head_of({"completion_probabilities": [{"top_logprobs": [{"id": 5, "logprob": None}]}]}) == {}
    assert head_of({}) == head_of([]) == head_of({"completion_probabilities": []}) == {}


def by_logprobs(change=lambda raw: None, kind=METHOD):
    heads = [{1: -0.1, 2: -3.0 - at / 100, 3: -5.0} for at in range(64)]
    raw = record_of("m.gguf", heads, heads, arms={"cpu": "a", "gpu": "b"})
    change(raw)
    taken = Taken(
        raw, "b1", "cpu", {"kind": kind, "sha": "cd" * 32}, ["llama-server"], "ab" * 32, "2026-01-01T00:00:00Z"
    )
    return envelope(taken, model="m", file="m.gguf", model_sha256="ef" * 32, host="box", now_utc="2026-01-01T00:00:00Z")


def test_a_record_of_another_method_is_held_to_that_methods_floor_or_to_none():
    verdict = judge_record(by_logprobs(), model="m", thresholds=FLOORS)
    assert (str(verdict.word), f"(methods.{METHOD})" in verdict.line) == ("PASS", True)
    assert by_logprobs()["cell"]["quant"] is None
    none = judge_record(by_logprobs(), model="m", thresholds=FLOORS.model_copy(update={"methods": {}}))
    assert (str(none.word), f"taken by '{METHOD}', for which there is no floor" in none.line) == ("FAIL", True)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda raw: raw.pop("method"), METHOD, "raw does not say that it was taken so"),
        (lambda raw: None, "none", "comparator.kind = 'none', but raw was taken by 'llama-logprobs'"),
        (lambda raw: raw.update(method=True), METHOD, "raw was taken by True"),
        (lambda raw: raw.update(method="eye"), "eye", "taken by 'eye', for which there is no floor"),
    ],
)
def test_a_method_that_is_hidden_or_unknown_fails(change, kind, words):
    verdict = judge_record(by_logprobs(change, kind), model="m", thresholds=FLOORS)
    assert (str(verdict.word), words in verdict.line) == ("FAIL", True), verdict.line


class Served:
    """A llama.cpp that answers from a rule: the head after ``ids`` depends on how many there are."""

    stream_format = "llama"
    name = "llama_server"

    def __init__(self, tilt):
        self.tilt = tilt

    def request_body(self, kind, prompt, n_predict, *, cache, stream):
        assert (n_predict, cache, stream) == (1, True, False)
        return HttpRequest("/completion", json.dumps({"prompt": list(prompt.ids)}).encode())


class Wire:
    """The control connection of :class:`Served`."""

    sides = {}  # noqa: RUF012 - port → engine

    def __init__(self, host, port, **words):
        self.engine = self.sides[port]

    def __enter__(self):
        return self

    def __exit__(self, *words):
        return None

    def post(self, path, body):
        asked = json.loads(body)
        assert asked["n_probs"] == logprobs.HEAD_TOKENS
        if self.engine.tilt is None:
            raise ControlError(Reason.HTTP_ERROR, "503: loading")
        count = len(asked["prompt"])
        top = [{"id": at, "logprob": -0.1 - at - self.engine.tilt * math.sin(count + at)} for at in range(8)]
        return {"completion_probabilities": [{"top_logprobs": top}]}


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Return a function that records two llama.cpp of which the one under test is tilted."""
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(logprobs, "Control", Wire)

    @contextmanager
    def started(wanted):
        tilt = float(wanted.spec.settings.get("poll", 0)) / 100
        port = 1 + (tilt > 0)
        Wire.sides[port] = Served(None if tilt == 0.99 else tilt)
        facts = EngineFacts(
            engine="llama_server", version="b1", build="b1-abc", binary_sha256="ab" * 32, command=["llama-server"],
            env={}, settings={}, compute=wanted.compute,
        )  # fmt: skip

        def ask(prompt, tokens, slot, shape):
            short = wanted.spec.settings.get("threads") == 9
            return Answer(prompt="w", shape=shape, repeat=slot, text="", ids=[5] * (tokens - short))

        yield SimpleNamespace(engine=Wire.sides[port], host="h", port=port, facts=facts, tokenize=list, ask=ask)

    monkeypatch.setattr(logprobs, "started", started)

    def record(*more):
        args = ["record", "--model", "m", "--host", "box", "--gguf", str(tmp_path / "m.gguf"), "--engine"]
        args += ["llama_server", "--binary", "x", "--out", str(tmp_path / "m.m1.json"), *more]
        return CliRunner().invoke(app, args)

    return record


def test_two_backends_are_compared_over_64_positions_and_the_method_is_named(two, tmp_path):
    result = two("--set", "poll=1")
    assert result.exit_code == 0, result.output
    assert f"taken by {METHOD}: 64 of 64 positions" in result.output
    form = json.loads((tmp_path / "m.m1.json").read_bytes())
    assert form["comparator"] == {"kind": METHOD, "sha": "ab" * 32}
    assert (form["raw"]["method"], form["raw"]["head_tokens"], form["result"]["positions"]) == (METHOD, 8, 64)
    assert form["raw"]["arms"]["gpu"] == f"llama_server b1-abc on cpu, binary {'ab' * 6}"
    assert not list(tmp_path.glob(".*.log"))


def test_distributions_that_part_are_red(two):
    result = two("--set", "poll=400")
    assert (result.exit_code, f"(methods.{METHOD})" in result.output) == (1, True), result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing is compared"),
        (["--set", "poll=1", "--against-set", "poll=1"], "nothing is compared"),
        (["--set", "poll"], "--set 'poll': not WORD=VALUE"),
        (["--set", "poll=99"], "503: loading"),
        (["--set", "poll=1", "--against-set", "threads=9"], "gave no continuation: 63 of 64 tokens"),
        (["--set", "poll=1", "--compute", "tpu"], "cpu or cuda"),
        (["--set", "poll=1", "--against-compute", "tpu"], "cpu or cuda"),
        (["--set", "poll=1", "--prompt", "poem"], "one of code, prose"),
        (["--set", "poll=1", "--gguf", "none.gguf"], "no such file"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_exit_2_and_leaves_no_receipt(two, tmp_path, words, message):
    error = two(*words).exception
    assert isinstance(error, LqwError), error
    assert int(error.exit_status) == 2
    assert message in str(error)
    assert not (tmp_path / "m.m1.json").exists()


# real ones, taken on an H200


def test_the_real_receipts_of_apr_on_a_gpu_are_judged_as_they_were_seen():
    folder = ROOT / "receipts/parity/h200"
    record, witness = (read_receipt(folder / f"synthetic-qwen3.5-0.8b.{kind}.json") for kind in ("m1", "serving"))
    judged = judge_record(record, model="synthetic-qwen3.5-0.8b", thresholds=FLOORS)
    assert (str(judged.word), judged.numbers["positions"]) == ("PASS", 95)
    assert round(judged.numbers["min_cosine"], 6) == 0.999837
    assert str(judge_serving(witness, model="synthetic-qwen3.5-0.8b").word) == "PASS"
    assert [band["m_formed"] for band in witness["bands"]] == [1, 3, 7, 15]
    assert (witness["route"], witness["commit"]) == ("/v1/chat/completions", "9c34b9a91")
    assert record["provenance"]["binary_sha256"] == witness["binary_sha256"]


def test_a_real_record_of_two_backends_by_log_probabilities():
    form = read_receipt(FIXTURES / "h200-llama-cuda-cpu.m1.json")
    judged = judge_record(form, model="synthetic-qwen3.5-0.8b", thresholds=FLOORS)
    assert (str(judged.word), judged.numbers["min_cosine"]) == ("PASS", 0.999944)

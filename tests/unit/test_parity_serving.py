"""Serving witnesses and the blessed model: the shape is what formed; every host needs both receipts."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lqw.cli.parity import app
from lqw.errors import ParamsError, UsageError
from lqw.parity import judge_serving

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/parity"
THRESHOLDS = ROOT / "params/parity/thresholds.yaml"
MODEL = "qwen3.5-9b"


def witness(**changes):
    form = json.loads((FIXTURES / "lambda.serving.json").read_text(encoding="utf-8"))
    form.update({key: value for key, value in changes.items() if value is not ...})
    return {key: value for key, value in form.items() if changes.get(key) is not ...}


def with_band(index, **changes):
    form = witness()
    form["bands"][index] = {**form["bands"][index], **changes}
    return form


def with_slot(band, slot, **changes):
    form = witness()
    one = form["bands"][band]["slots"][slot]
    form["bands"][band]["slots"][slot] = {k: v for k, v in {**one, **changes}.items() if v is not ...}
    return form


def said(form, word, *words):
    verdict = judge_serving(form, model=MODEL)
    assert str(verdict.word) == word, verdict.line
    assert int(verdict.exit_status) == (0 if word == "PASS" else 1)
    assert f" serving shape {verdict.shape or 'unknown'}: " in verdict.line
    for text in words:
        assert text in verdict.line
    return verdict


def test_a_whole_witness_passes_at_the_largest_batch_that_formed():
    said(witness(), "PASS", "shape batch=16 concurrency=16")
    said(with_band(3, m_formed=11), "PASS", "shape batch=11 concurrency=16")


MALFORMED = [
    ("not an object", [], "not a JSON object"),
    ("no probe", witness(probe=...), "probe = '(absent)'"),
    ("other probe", witness(probe="perf040"), "not 'perf041'"),
    ("other version", witness(witness_version=3), "witness_version = 3"),
    ("version a bool", witness(witness_version=True), "witness_version = True"),
    ("no bands", witness(bands=...), "bands are missing"),
    ("bands an object", witness(bands={}), "bands are missing"),
    ("other model", witness(model={"path": "/m/qwen3.5-0.8b.gguf", "sha256": "0"}), "not of qwen3.5-9b"),
    ("no model", witness(model=...), "the witness is of model None"),
    ("no commit", witness(commit=...), "commit is missing"),
    ("blank commit", witness(commit=" "), "commit is missing"),
    ("no binary", witness(binary_sha256=None), "binary_sha256 is missing"),
    ("c a bool", with_band(0, c=True), "bands[0].c = True"),
    ("m_formed a bool", with_band(0, m_formed=True), "bands[0].m_formed = True"),
    ("m_formed a float", with_band(1, m_formed=4.0), "bands[1].m_formed = 4.0"),
    ("m_formed null in a PASS", with_band(1, m_formed=None), "bands[1].m_formed = None"),
    ("unknown result", with_band(2, result="OK"), "bands[2].result = 'OK'"),
    ("a band that is none", witness(bands=[7]), "bands[0] is not an object"),
    ("binary that is no hash", witness(binary_sha256="abc"), "binary_sha256 = 'abc' is not a sha256"),
    ("bands without end", witness(bands=witness()["bands"] * 17), "68 bands, at most 64 are read"),
    ("c of 400 digits", with_band(0, c=10**400), "is not a positive integer"),
]


@pytest.mark.parametrize(("form", "words"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_a_malformed_witness_fails_and_says_why(form, words):
    said(form, "FAIL", words)


def test_any_failed_band_fails_with_where_it_diverged_whatever_else_is_unmeasured():
    form = with_band(2, result="FAIL", divergence_at=17, reason="slot 3 left the reference")
    form["exit"] = 1
    said(form, "FAIL", "c=8 m_formed=8: diverged at token 17", "slot 3 left the reference", "shape batch=16")


CONTRADICTED = [
    (
        "a slot repeats",
        with_slot(1, 2, constant_run=16),
        "c=4 m_formed=4: says PASS, but slot 2: one token repeated 16",
    ),
    ("the band repeats", with_band(1, max_constant_run=40), "says PASS, but one token repeated 40 times"),
    ("a slot refused", with_slot(1, 0, refused=True), "slot 0: the request was refused"),
    ("a slot differs", with_slot(3, 15, agree_to=9), "slot 15: agrees to token 9 of 64 only"),
    ("the band diverged", with_band(1, divergence_at=5), "says PASS, but diverged at token 5"),
    ("a slot that is none", with_band(1, slots=[1, 2, 3, 4]), "a slot is not an object"),
    (
        "a slot cut short",
        with_slot(1, 2, completion_tokens=1, agree_to=1),
        "slot 2: 1 tokens, the single stream gave 64",
    ),
    ("ids of one token", with_slot(1, 2, ids=[7] * 64), "slot 2: constant_run = 2, its own ids say 64"),
    ("fewer ids than told", with_slot(1, 2, ids=[7, 8]), "slot 2: completion_tokens = 64, its own ids say 2"),
    (
        "llama-server's own telemetry",
        with_band(3, telemetry="4 slots at work at once, 4.00 per decode over 65 decodes"),
        "c=16 m_formed=16: says PASS, but its telemetry tells of a batch of 4",
    ),
    (
        "apr's own telemetry",
        with_band(3, telemetry="9 batches in the log, largest m=4"),
        "its telemetry tells of a batch of 4",
    ),
    (
        "fewer slots than a batch",
        witness(settings={"slots": 4}),
        "c=8 m_formed=8: says PASS, but the server had 4 slots",
    ),
]


@pytest.mark.parametrize(("form", "words"), [c[1:] for c in CONTRADICTED], ids=[c[0] for c in CONTRADICTED])
def test_a_pass_that_its_own_slots_contradict_fails(form, words):
    said(form, "FAIL", words)


def test_fifteen_equal_tokens_are_not_yet_garbage():
    said(with_slot(1, 2, constant_run=15), "PASS")


UNMEASURED = [
    ("no batch formed", witness(bands=witness()["bands"][:1]), "no batch formed (largest 1)"),
    ("no band at all", witness(bands=[]), "no batch formed (largest 0)"),
    ("formed nothing", with_band(1, m_formed=0), "c=4 m_formed=0: the server formed nothing"),
    ("a band not measurable", with_band(1, result="UNMEASURABLE", m_formed=None, reason="503"), "UNMEASURABLE (503)"),
    ("probe failed", witness(exit=1), "the probe ended with exit 1"),
    ("exit a bool", witness(exit=False), "the probe ended with exit False"),
    ("no exit", witness(exit=...), "the probe ended with exit None"),
    ("slots missing", with_band(1, slots=None), "c=4 m_formed=4: no slots for 4 requests"),
    ("a slot missing", with_band(1, slots=witness()["bands"][1]["slots"][:3]), "3 slots for 4 requests"),
    ("an empty answer", with_slot(1, 1, completion_tokens=0, agree_to=0), "a slot without completion_tokens"),
    ("foreign requests", with_band(1, m_formed=7), "somebody else's were in it"),
    ("unstable reference", witness(reference={"stable": False, "tokens": 64}), "reference is not stable"),
    ("no reference", witness(reference=...), "reference is not stable"),
    ("slot that agrees to nothing told", with_slot(1, 1, agree_to=...), "a slot without agree_to"),
    ("agreement as a text", with_slot(1, 1, agree_to="64"), "a slot without agree_to"),
    ("no run told", with_slot(1, 1, constant_run=...), "a slot without constant_run"),
    ("one slot counted twice", with_slot(1, 1, i=0), "two slots of one number"),
    ("reference of no length", witness(reference={"stable": True}), "answers of None tokens"),
    ("drawn answers", witness(sampler={"temperature": 0.7}), "sampler.temperature = 0.7"),
    ("temperature a bool", witness(sampler={"temperature": False}), "sampler.temperature = False"),
]


@pytest.mark.parametrize(("form", "words"), [case[1:] for case in UNMEASURED], ids=[case[0] for case in UNMEASURED])
def test_what_was_not_measured_is_exit_1_and_named(form, words):
    said(form, "UNMEASURED", words)


def test_answers_too_short_to_show_garbage_are_not_measured():
    form = witness(reference={"stable": True, "tokens": 15})
    for band in form["bands"]:
        for slot in band["slots"]:
            slot |= {"completion_tokens": 15, "agree_to": 15}
    said(form, "UNMEASURED", "answers of 15 tokens: garbage is a run of 16")


def test_ids_are_believed_before_the_agreement_told_of_them():
    form = json.loads((FIXTURES / "gemma3-270m.serving.json").read_bytes())
    assert judge_serving(form, model="gemma3-270m").word == "PASS"
    form["reference"]["ids"][5] += 1
    line = judge_serving(form, model="gemma3-270m").line
    assert "c=1 m_formed=1: says PASS, but slot 0: agree_to = 64, its own ids say 5" in line


@pytest.mark.parametrize(
    "form",
    [
        with_band(1, result="FAIL", reason="\x1b[2J\x1b[32mPASS\nPASS " + "x" * 10**6),
        with_band(1, result="UNMEASURABLE", reason="\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}" + "x" * 10**6),
        with_band(1, result="FAIL", divergence_at="\x1b[2J" * 10**5),
        with_slot(1, 1, i="\x1b[2J" * 10**5, constant_run=30),
        witness(model={"path": "\x1b[2J" * 10**5}),
        witness(exit="\x1b[2J" * 10**5),
        witness(probe=["\x1b[2J"] * 10**5),
    ],
)
def test_a_receipts_own_words_reach_a_terminal_short_and_printable(form):
    line = judge_serving(form, model=MODEL).line
    assert line.isprintable()
    assert len(line) < 700


def test_an_unmeasurable_band_does_not_lend_its_shape():
    form = with_band(3, result="UNMEASURABLE", m_formed=16, reason="queue full")
    said(form, "UNMEASURED", "shape batch=8 concurrency=8", "queue full")


def test_the_command_line_reads_a_witness_and_names_an_unreadable_one(tmp_path):
    good = CliRunner().invoke(app, ["serving", str(FIXTURES / "lambda.serving.json"), "--model", MODEL])
    assert (good.exit_code, good.output.split()[0]) == (0, "PASS")
    cut = tmp_path / "cut.json"
    cut.write_text((FIXTURES / "lambda.serving.json").read_text(encoding="utf-8")[:300], encoding="utf-8")
    bad = CliRunner().invoke(app, ["serving", str(cut), "--model", MODEL, "--json"])
    form = json.loads(bad.output)
    assert (bad.exit_code, form["verdict"], form["shape"]) == (1, "FAIL", None)
    assert "unreadable" in form["reasons"][0]


# the blessed model


def blessed(file, *more, root=FIXTURES):
    args = ["blessed", "--blessed", str(file), "--root", str(root), "--thresholds", str(THRESHOLDS), *more]
    return CliRunner().invoke(app, args)


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("green", 0, ["PASS qwen3.5-9b: 4 of 4 receipts pass"]),
        ("missing-host", 1, ["gx10: MISSING qwen3.5-9b m1", "gx10: MISSING qwen3.5-9b serving", "RED"]),
        ("m1-only", 1, ["gx10: PASS qwen3.5-9b m1", "gx10: MISSING qwen3.5-9b serving", "3 of 4"]),
        ("no-batch", 1, ["lambda: UNMEASURED qwen3.5-9b serving shape batch=1 concurrency=8", "RED"]),
        ("garbage-slot", 1, ["lambda: FAIL qwen3.5-9b serving", "c=4 m_formed=4", "slot 2: one token repeated 61"]),
    ],
)
def test_blessed_needs_both_receipts_on_every_host(name, status, words):
    result = blessed(FIXTURES / f"blessed-{name}.yaml")
    assert result.exit_code == status, result.output
    for text in words:
        assert text in result.output
    form = json.loads(blessed(FIXTURES / f"blessed-{name}.yaml", "--json").output)
    assert form["exit"] == status
    assert set(form["hosts"]) == {"lambda", "gx10"}


@pytest.fixture
def copy_of(tmp_path):
    """Return a function that copies the green case, lets the caller change one receipt, and judges it."""

    def call(receipt=None, change=None, blessing=None):
        for file in FIXTURES.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        if receipt:
            form = json.loads((tmp_path / receipt).read_text(encoding="utf-8"))
            change(form)
            (tmp_path / receipt).write_text(json.dumps(form), encoding="utf-8")
        spec = yaml.safe_load((tmp_path / "blessed-green.yaml").read_text(encoding="utf-8"))
        (tmp_path / "blessed.yaml").write_text(yaml.safe_dump({**spec, **(blessing or {})}), encoding="utf-8")
        return blessed(tmp_path / "blessed.yaml", root=tmp_path)

    return call


def test_a_receipt_of_another_host_or_file_or_other_bytes_does_not_count(copy_of):
    assert "of host 'gx10', not of lambda" in copy_of("lambda.m1.json", lambda f: f.update(host="gx10")).output
    assert "of host '(absent)'" in copy_of("lambda.serving.json", lambda f: f.pop("host")).output
    iq4 = copy_of("gx10.m1.json", lambda f: f["cell"].update(file="Qwen3.5-9B-IQ4_XS.gguf"))
    assert (iq4.exit_code, "of file 'Qwen3.5-9B-IQ4_XS.gguf'" in iq4.output) == (1, True)
    other = copy_of("gx10.serving.json", lambda f: f["model"].update(sha256="0" * 64))
    assert (other.exit_code, "different model bytes" in other.output) == (1, True)


def test_a_receipt_that_names_no_model_bytes_does_not_count(copy_of):
    result = copy_of("gx10.serving.json", lambda form: form["model"].pop("sha256"))
    assert (result.exit_code, "does not say which model bytes it is of" in result.output) == (1, True)


def test_only_receipts_of_the_binary_under_test_count_where_it_is_named():
    sha256 = json.loads((FIXTURES / "lambda.serving.json").read_text(encoding="utf-8"))["binary_sha256"]
    result = blessed(FIXTURES / "blessed-green.yaml", "--binary-sha256", sha256)
    assert result.exit_code == 1
    assert result.output.count(f"the one under test is {sha256[:12]}") == 2, "both of gx10, whose binary is another"
    for nonsense in ("", "nonsense", sha256.upper()):
        error = blessed(FIXTURES / "blessed-green.yaml", "--binary-sha256", nonsense).exception
        assert isinstance(error, UsageError)
        assert "no sha256" in str(error)


@pytest.mark.parametrize(
    ("blessing", "words"),
    [
        ({"model": " "}, "no model is blessed"),
        ({"hosts": [], "receipts": {}}, "no host is named"),
        ({"receipts": {}}, "MISSING"),
    ],
)
def test_no_model_no_host_no_receipt_is_never_a_pass(copy_of, blessing, words):
    result = copy_of(blessing=blessing)
    assert (result.exit_code, words in result.output) == (1, True)


@pytest.mark.parametrize(
    "blessing",
    [
        {"schema": "apr-parity-blessed/v2"},
        {"hosts": ["lambda", "lambda"]},
        {"hosts": ["lambda"]},
        {"receipts": {"lambda": {"m1": 7}}},
        {"unknown": 1},
    ],
)
def test_an_unreadable_blessing_is_exit_2(copy_of, blessing):
    assert isinstance(copy_of(blessing=blessing).exception, ParamsError)


def test_an_unreadable_receipt_is_a_fail_not_a_missing_one(copy_of):
    result = copy_of("gx10.m1.json", lambda f: f.clear())
    assert "gx10: FAIL qwen3.5-9b m1" in result.output
    assert result.exit_code == 1


def test_the_committed_blessing_names_both_hosts_and_is_red_until_their_receipts_are_there():
    spec = yaml.safe_load((ROOT / "params/parity/blessed.yaml").read_text(encoding="utf-8"))
    assert (spec["model"], spec["file"], spec["hosts"]) == (MODEL, "Qwen3.5-9B-Q4_K_M.gguf", ["lambda", "gx10"])
    there = all((ROOT / path).exists() for host in spec["receipts"].values() for path in host.values())
    assert (blessed(ROOT / "params/parity/blessed.yaml", root=ROOT).exit_code == 0) is there


def test_the_judge_leaves_what_it_judges_unchanged():
    form = witness()
    before = copy.deepcopy(form)
    judge_serving(form, model=MODEL)
    assert form == before

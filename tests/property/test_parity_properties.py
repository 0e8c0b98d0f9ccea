"""What holds for all receipts: one low cosine, one garbage slot, one missing piece is never a PASS; judges never crash."""

import copy
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.parity import judge_record, judge_serving
from lqw.parity.files import load_thresholds

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures/parity"
THRESHOLDS = load_thresholds(ROOT / "params/parity/thresholds.yaml")
ENVELOPE = json.loads((FIXTURES / "lambda.m1.json").read_text(encoding="utf-8"))
WITNESS = json.loads((FIXTURES / "lambda.serving.json").read_text(encoding="utf-8"))
MODEL = "qwen3.5-9b"
PROFILE = settings(derandomize=True, max_examples=80, deadline=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(-2, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(form, path=()):
    """Return the path of every value of a JSON document."""
    yield path
    items = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def replaced(form, path, value):
    out = copy.deepcopy(form)
    inner = out
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return out


RECORD_PLACES = [path for path in places(ENVELOPE) if path]
WITNESS_PLACES = [path for path in places(WITNESS) if path]


@PROFILE
@given(position=st.integers(0, 63), cosine=st.floats(-1, 0.9899, allow_nan=False))
def test_one_position_below_the_floor_is_never_a_pass(position, cosine):
    record = replaced(ENVELOPE, ("raw", "metrics", position, "cosine_similarity"), cosine)
    verdict = judge_record(record, model=MODEL, thresholds=THRESHOLDS)
    assert str(verdict.word) == "FAIL"
    assert f"position {position} " in verdict.line


@PROFILE
@given(kept=st.integers(0, 63))
def test_fewer_positions_are_never_a_pass(kept):
    record = replaced(ENVELOPE, ("raw", "metrics"), ENVELOPE["raw"]["metrics"][:kept])
    assert str(judge_record(record, model=MODEL, thresholds=THRESHOLDS).word) == "FAIL"


@PROFILE
@given(path=st.sampled_from(RECORD_PLACES), value=JSON)
def test_any_value_anywhere_in_a_record_gives_a_verdict_with_its_shape(path, value):
    verdict = judge_record(replaced(ENVELOPE, path, value), model=MODEL, thresholds=THRESHOLDS)
    assert " shape " in verdict.line
    assert json.loads(json.dumps(verdict.to_json()))["exit"] == (0 if str(verdict.word) == "PASS" else 1)


@PROFILE
@given(path=st.sampled_from(WITNESS_PLACES), value=JSON)
def test_any_value_anywhere_in_a_witness_gives_a_verdict_with_its_shape(path, value):
    verdict = judge_serving(replaced(WITNESS, path, value), model=MODEL)
    assert " shape " in verdict.line
    assert json.loads(json.dumps(verdict.to_json()))["exit"] == (0 if str(verdict.word) == "PASS" else 1)


@PROFILE
@given(data=st.data(), run=st.integers(16, 64))
def test_one_slot_that_repeats_a_token_is_never_a_pass(data, run):
    band = data.draw(st.integers(0, len(WITNESS["bands"]) - 1))
    slot = data.draw(st.integers(0, WITNESS["bands"][band]["c"] - 1))
    verdict = judge_serving(replaced(WITNESS, ("bands", band, "slots", slot, "constant_run"), run), model=MODEL)
    assert str(verdict.word) == "FAIL"
    assert f"slot {slot}" in verdict.line


@PROFILE
@given(formed=st.lists(st.integers(0, 1), min_size=4, max_size=4))
def test_no_batch_is_never_a_pass_whatever_the_client_asked_for(formed):
    witness = copy.deepcopy(WITNESS)
    for band, batch in zip(witness["bands"], formed, strict=True):
        band["m_formed"] = batch
    assert str(judge_serving(witness, model=MODEL).word) == "UNMEASURED"


@PROFILE
@given(value=JSON)
def test_any_json_at_all_is_judged_and_only_a_whole_receipt_passes(value):
    assert str(judge_record(value, model=MODEL, thresholds=THRESHOLDS).word) == "FAIL"
    assert str(judge_serving(value, model=MODEL).word) == "FAIL"

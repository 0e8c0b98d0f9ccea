"""Bad input, all of it in one table: a named outcome, never a traceback, never a PASS."""

import math
import re

import numpy as np
import pytest

from lqw.canonical import canonical_bytes
from lqw.errors import Exit, LqwError
from lqw.metrics import RowId
from lqw.noise import RowData
from lqw.noise.pairs import row_problem
from lqw.outcomes import Arm, Outcome, Purpose, Reason, RowVerdict
from lqw.ratchet import parse_baseline
from lqw.samples import StartRecord
from lqw.verdict import Standing, judge
from tests.support import synthetic as syn

DECODE = RowId.parse("m/decode")
RATES = ("decode", "agg@1", "ttft@512", "prefill@512")


def _starts(plan, change=None, *, pairs=3, seed=2, **options):
    starts = syn.starts_of(plan, np.random.default_rng(seed), sd=0.02, pairs=pairs, **options)
    return starts if change is None else change(starts)


def _one(starts, **update):
    """The same starts with the timed requests of the first changed."""
    first = starts[0]
    requests = [request.model_copy(update=update) for request in first.requests]
    return [first.model_copy(update={"requests": requests}), *starts[1:]]


def _constant(starts):
    """Every start gives the very numbers of the first."""
    return [s.model_copy(update={"requests": starts[0].requests, "memory": starts[0].memory}) for s in starts]


def _without(starts):
    return [starts[0].model_copy(update={"requests": []}), *starts[1:]]


CASES = {
    "no start at all": (lambda s: [], {"MISSING"}, "zero rows never "),
    "one start": (lambda s: s[:1], {"MISSING"}, "0 pairs"),
    "one pair": (lambda s: s[:2], {"MISSING"}, "1 pairs; a variance needs 3"),
    "two pairs": (lambda s: s[:4], {"MISSING"}, "2 pairs; a variance needs 3"),
    "one side only": (lambda s: [x for x in s if x.arm is Arm.SUBJECT], {"MISSING"}, "0 pairs"),
    "a start without a request": (
        _without,
        {"MISSING"},
        "no comparator start measured this row|no subject start measured this row",
    ),
    "times of zero": (lambda s: _one(s, ttft_ns=0, gaps_ns=[0] * 64), {"FAILED"}, "NOT_FINITE"),
    "gaps of zero": (lambda s: _one(s, gaps_ns=[0] * 64), {"FAILED"}, "NOT_FINITE"),
    "one gap that runs backwards": (lambda s: _one(s, gaps_ns=[10**7] * 63 + [-1]), {"FAILED"}, "shortest gap -1 ns"),
    "negative times": (lambda s: _one(s, ttft_ns=-5, gaps_ns=[-5] * 64), {"FAILED"}, "NOT_FINITE"),
    "no first token": (lambda s: _one(s, ttft_ns=None), {"FAILED"}, "first token after None ns"),
    "constant samples": (_constant, {"FAILED"}, "CONSTANT_SAMPLES"),
    "a start twice": (lambda s: [*s, s[0]], None, "stands 2 times in the samples"),
    "a pair twice": (lambda s: [*s, *s[:2]], None, "stands 2 times in the samples"),
    "two starts at one position": (
        lambda s: [s[0], s[1].model_copy(update={"position": 0}), *s[2:]],
        None,
        "claim position 0",
    ),
    "a stranger's start": (
        lambda s: [*s, s[0].model_copy(update={"model": "x", "position": 99})],
        None,
        "not in the plan",
    ),
    "a pair beyond the plan": (
        lambda s: [*s, s[0].model_copy(update={"pair": 99, "position": 99})],
        None,
        "is beyond the plan's ",
    ),
}


@pytest.fixture(scope="module")
def standing():
    return syn.floor(np.random.default_rng(1), sd=0.02, rows=RATES)[1]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("purpose", list(Purpose))
def test_bad_samples_have_a_name_and_never_pass(standing, purpose, name):
    change, verdicts, told = CASES[name]
    plan = syn.plan(purpose, rows=RATES)
    pairs = 3 if purpose is Purpose.GATE else 6
    judgement = judge(syn.evidence(plan, _starts(plan, change, pairs=pairs), standing))
    assert judgement.exit_status is not Exit.PASS
    assert judgement.exit_status in (Exit.UNDECIDED, Exit.INVALID)
    assert re.search(told, " ".join((*judgement.reasons, judgement.sentence)))
    if verdicts is None:
        assert judgement.outcome is Outcome.INVALID
    else:
        assert verdicts <= {str(row.verdict) for row in judgement.rows}


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_duration_is_not_finite(value):
    pairs = (1, 2, 3)
    d = tuple(math.nan if not value > 0 or math.isinf(value) else math.log(value) for _ in pairs)
    problem = row_problem(RowData(DECODE, pairs, d, (value,) * 3, (1.0, 1.1, 1.2)))
    assert problem.reason is Reason.NOT_FINITE


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("field", ["wall_s", "ready_s"])
def test_a_record_that_is_not_finite_cannot_be_made(value, field):
    plan = syn.plan(rows=RATES)
    raw = _starts(plan)[0].model_dump() | {field: value}
    with pytest.raises(ValueError, match=field):
        StartRecord.model_validate(raw)


def test_one_row_only_is_judged_by_itself():
    plan = syn.plan(rows=("decode",))
    _, alone = syn.floor(np.random.default_rng(1), sd=0.02, rows=("decode",))
    (row,) = judge(syn.evidence(plan, _starts(plan, pairs=9), alone)).rows
    assert row.verdict in (RowVerdict.PASS, RowVerdict.IMPROVED)
    slow = judge(syn.evidence(plan, _starts(plan, pairs=9, effects={"decode": 0.3}), alone))
    assert slow.outcome is Outcome.RED
    assert slow.suites == ()


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (Standing(), "no floor in this epoch; adopt one"),
        (Standing(differences=("host.gpu: 'A' became 'B'",)), "host.gpu: 'A' became 'B'"),
    ],
)
def test_a_floor_that_is_missing_or_of_another_epoch_blocks_by_name(held, told):
    plan = syn.plan(rows=RATES)
    judgement = judge(syn.evidence(plan, _starts(plan), held))
    assert judgement.outcome is Outcome.UNDECIDED
    assert {row.verdict for row in judgement.rows} == {RowVerdict.MISSING_FLOOR}
    assert told in judgement.sentence


@pytest.mark.parametrize("n", [1, 2])
def test_a_floor_of_one_or_two_pairs_never_passes_what_it_cannot_tell(standing, n):
    """A floor without degrees of freedom (a broken baseline) widens the band; it never lets a loss through."""
    thin = {
        row: refs.model_copy(update={"floor": refs.floor.model_copy(update={"n": n, "ss": 0.0, "df": n - 1, "d": ()})})
        for row, refs in standing.references.items()
    }
    plan = syn.plan(rows=RATES, margin=0.10)
    held = standing.model_copy(update={"references": thin})
    judgement = judge(syn.evidence(plan, _starts(plan, effects={"decode": 0.9}), held))
    assert judgement.outcome is not Outcome.PASS


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"schema":"lqw-baseline/1","host":"x","host":"y","epochs":[]}',
        b'{"schema":"lqw-baseline/1","host":"x","epochs":[NaN]}',
        canonical_bytes({"schema": "lqw-baseline/2", "host": "x", "epochs": []}),
        canonical_bytes(
            {"schema": "lqw-baseline/1", "host": "x", "epochs": [{"key": {}, "opened_by": "1", "rows": {}}]}
        ),
    ],
)
def test_a_broken_baseline_is_refused_with_its_name(raw):
    with pytest.raises(LqwError, match=r"h/baseline\.json") as caught:
        parse_baseline(raw, name="h/baseline.json")
    assert caught.value.exit_status is Exit.INVALID

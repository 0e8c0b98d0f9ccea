"""Guards: each fires on what it is for, says so, and does what STATISTICS says to the verdict."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import RowId
from lqw.metrics.values import start_values
from lqw.noise import RowData
from lqw.noise.pairs import log_ratio
from lqw.outcomes import Arm, Outcome, Purpose, RowVerdict
from lqw.samples import StepFacts
from lqw.verdict import ComparatorPoint, judge
from lqw.verdict.guards import comparator_history, null_control, one_token_prefill
from lqw.verdict.order import order_findings
from lqw.verdict.sanity import bimodality, dispersion, drift, theil_sen
from tests.support import synthetic as syn

DECODE = RowId.parse("m/decode")
POLICY = syn.plan(margin=0.10).policy


def _data(short, subject, comparator=None, model="m"):
    row = RowId.parse(f"{model}/{short}")
    comparator = comparator or tuple(1.0 + 0.01 * i for i in range(len(subject)))
    d = tuple(log_ratio(row, x, y) for x, y in zip(subject, comparator, strict=True))
    return row, RowData(row, tuple(range(1, len(d) + 1)), d, tuple(subject), tuple(comparator))


def _table(*rows):
    return dict(rows)


# one-token prefill


@pytest.mark.parametrize(("detector", "effect"), [("gate", "red"), ("report", "flag")])
@pytest.mark.parametrize(("prefill", "fires"), [(99.0, True), (101.0, False)])
def test_prefill_below_twice_decode_is_one_token_per_step(detector, effect, prefill, fires):
    policy = syn.plan(one_token_detector=detector).policy
    (found,) = one_token_prefill(_table(_data("prefill@512", [prefill] * 3), _data("decode", [50.0] * 3)), (), policy)
    assert found.effect == (effect if fires else "none")
    assert found.numbers["factor"] == pytest.approx(prefill / 50)
    assert ("one token per step" in found.text) is fires


def test_the_detector_reads_the_rate_from_ttft_where_there_is_no_prefill_row():
    (found,) = one_token_prefill(_table(_data("ttft@1024", [16_000.0] * 3), _data("decode", [50.0] * 3)), (), POLICY)
    assert found.numbers["prefill_tok_s"] == pytest.approx(64.0)
    assert found.effect == "red"
    both = _table(_data("prefill@1024", [64.0] * 3), _data("ttft@1024", [1.0] * 3), _data("decode", [50.0] * 3))
    (found,) = one_token_prefill(both, (), POLICY)
    assert found.subject == "m/prefill@1024"


def _alone(pair=1, arm=Arm.SUBJECT, *, model="m", again=True, tok_s=60.0):
    """A start whose decode step was answered without a stream too, at *tok_s*."""
    times = {"tokens": 61, "one_ns": 10**9, "all_ns": 10**9 + round(60 / tok_s * 1e9), "again": again}
    step = StepFacts(step="decode@16x61", path="/v1/completions", unstreamed=times)
    return SimpleNamespace(model=model, pair=pair, arm=arm, steps=[StepFacts(step="cold@512", path="/x"), step])


def test_where_a_stream_is_dear_the_detector_takes_decoding_without_one():
    rows = _table(_data("prefill@512", [64.0] * 3), _data("decode", [29.0] * 3))
    (found,) = one_token_prefill(rows, (), POLICY)
    assert (found.effect, found.text) == ("none", "prefill@512: prefill 64 tok/s is 2.2× decode (29 tok/s)")
    (found,) = one_token_prefill(rows, [_alone(1, tok_s=50.0), _alone(2, tok_s=72.0)], POLICY)
    assert found.numbers["decode_tok_s"] == pytest.approx(60.0)
    assert found.effect == "red"
    assert found.text.startswith("prefill@512: prefill 64 tok/s is 1.1× decode (60 tok/s without a stream); one token")


@pytest.mark.parametrize(
    "start",
    [
        _alone(again=False),  # the first time may hold a prefill that the second does not
        _alone(arm=Arm.COMPARATOR),
        _alone(model="n"),
        _alone(pair=4),  # not of what the row was judged by
        _alone(tok_s=20.0),  # slower than the stream
    ],
)
def test_any_other_time_without_a_stream_leaves_the_detector_as_it_was(start):
    rows = _table(_data("prefill@512", [64.0] * 3), _data("decode", [29.0] * 3))
    assert one_token_prefill(rows, [start], POLICY) == one_token_prefill(rows, (), POLICY)


def test_the_detector_leaves_short_prompts_and_models_without_decode_alone():
    assert one_token_prefill(_table(_data("prefill@511", [10.0] * 3), _data("decode", [50.0] * 3)), (), POLICY) == []
    assert one_token_prefill(_table(_data("prefill@512", [10.0] * 3)), (), POLICY) == []
    other = _table(_data("prefill@512", [10.0] * 3), _data("decode", [50.0] * 3, model="n"))
    assert one_token_prefill(other, (), POLICY) == []


def test_the_detector_is_red_by_itself_whatever_the_floor_says():
    """A floor measured with the defect blesses every row; the detector does not ask the floor."""
    slow = {"ttft@512": 5.0, "ttft@128": 5.0}
    rng = np.random.default_rng(0)
    adopt = syn.plan(Purpose.ADOPT, release="1.0.0")
    first = judge(syn.evidence(adopt, syn.starts_of(adopt, rng, effects=slow)))
    assert first.outcome is Outcome.RED  # such a floor is refused, too
    plan = syn.plan()
    starts = syn.starts_of(plan, rng, pairs=3, effects=slow)
    judgement = judge(syn.evidence(plan, starts, syn.standing_of(first)))
    assert {row.verdict for row in judgement.rows} <= {RowVerdict.PASS, RowVerdict.IMPROVED}
    assert judgement.outcome is Outcome.RED
    assert "one token per step looks like this" in judgement.sentence


# the comparator's own history


def _history(mean, sd=0.01, n=1):
    return {DECODE: tuple(ComparatorPoint(release=str(i), mean=mean, sd=sd, n=10) for i in range(n))}


@pytest.mark.parametrize("moved", [-0.08, 0.08])
def test_a_comparator_that_moved_is_suspect_in_both_directions(moved):
    _, data = _data("decode", (50.0, 50.2, 49.9), (49.0, 49.1, 48.9))
    level = math.log(49.0)
    (found,) = comparator_history({DECODE: data}, _history(level + moved), POLICY)
    assert found.effect == "undecided"
    assert found.numbers["ratio"] == pytest.approx(math.exp(-moved), rel=1e-3)
    (calm,) = comparator_history({DECODE: data}, _history(level + moved / 2), POLICY)
    assert calm.effect == "none"


def test_a_noisy_comparator_is_allowed_what_its_noise_explains():
    _, data = _data("decode", (50.0, 50.2, 49.9), (49.0, 52.0, 46.0))
    (found,) = comparator_history({DECODE: data}, _history(math.log(49.0) + 0.12, sd=0.05), POLICY)
    assert found.effect == "none"


def test_sessions_that_differ_widen_what_is_allowed():
    _, data = _data("decode", (50.0, 50.2, 49.9), (49.0, 49.1, 48.9))
    level = math.log(49.0) + 0.08
    spread = {
        DECODE: tuple(ComparatorPoint(release="r", mean=level + x, sd=0.001, n=10) for x in (-0.05, 0.0, 0.05, 0.0))
    }
    (found,) = comparator_history({DECODE: data}, spread, POLICY)
    assert found.effect == "none"
    assert found.numbers["allowed"] > 0.1


def test_no_history_no_finding():
    assert comparator_history(_table(_data("decode", (50.0, 50.2, 49.9))), {}, POLICY) == []


def test_a_slow_denominator_blocks_instead_of_improving():
    """The comparator at 1/1.85 inflates every ratio; taken for an improvement it would tighten the floor for ever."""
    _, standing = syn.floor(np.random.default_rng(1))
    plan = syn.plan()
    slow = {"decode": 1 / 1.85}
    starts = syn.starts_of(plan, np.random.default_rng(2), pairs=3, comparator_effects=slow)
    judgement = judge(syn.evidence(plan, starts, standing))
    row = next(row for row in judgement.rows if row.row == DECODE)
    assert row.verdict is RowVerdict.SUSPECT
    assert "its own history" in row.text
    assert judgement.outcome is Outcome.UNDECIDED
    fast = syn.starts_of(plan, np.random.default_rng(2), pairs=3, comparator_effects={"decode": 1.85})
    row = next(row for row in judge(syn.evidence(plan, fast, standing)).rows if row.row == DECODE)
    assert row.verdict is RowVerdict.SUSPECT  # not RED: the subject did not change


# null control


def test_a_comparator_that_alternates_voids_the_run():
    rng = np.random.default_rng(0)
    steady = 50 * np.exp(0.005 * rng.standard_normal(9))
    alternating = steady * np.where(np.arange(9) % 2, 1.3, 1.0)
    (calm,) = null_control(_table(_data("decode", steady, tuple(steady))), POLICY, m=8)
    (found,) = null_control(_table(_data("decode", steady, tuple(alternating))), POLICY, m=8)
    assert calm.effect == "none"
    assert found.effect == "undecided"
    assert "cannot tell two engines apart" in found.text
    assert found.numbers["apart"] == pytest.approx(-math.log(1.3), abs=0.02)


def test_a_run_that_fails_its_null_control_says_not_even_red():
    _, standing = syn.floor(np.random.default_rng(1), sd=0.01)
    plan = syn.plan(margin=0.10)
    starts = syn.starts_of(plan, np.random.default_rng(2), sd=0.01, effects={"decode": 0.5})
    odd = [
        syn.start(s.model, s.pair, s.arm, s.position, {**_values(s), "agg@1": 60.0 + s.pair * 0.1})
        if s.arm is Arm.COMPARATOR and s.pair % 2
        else s
        for s in starts
    ]
    judgement = judge(syn.evidence(plan, odd, standing))
    assert judgement.outcome is Outcome.UNDECIDED
    assert "comparator against itself" in judgement.sentence


def _values(start):
    rows = [RowId.parse(f"m/{short}") for short in syn.DEMO_ROWS]
    return {r.short: v.value for r, v in start_values(start, rows, min_window_s=syn.WINDOW_S).items()}


def test_the_null_control_seldom_fires_on_honest_noise():
    rng = np.random.default_rng(3)
    fired = 0
    for _ in range(400):
        rows = []
        for i in range(8):
            y = 50 * np.exp(0.10 * rng.standard_normal(5))
            rows.append(_data("decode", y * 1.01, tuple(y), model=f"m{i}"))
        (found,) = null_control(_table(*rows), POLICY, m=8)
        fired += found.effect != "none"
    assert fired <= stats.binom.isf(1e-4, 400, 0.01)


def test_memory_and_short_rows_have_their_place_in_the_null_control():
    two = _data("decode", (50.0, 51.0), (50.0, 51.0))
    assert null_control(_table(two), POLICY, m=1) == []
    flat = _data("rss_peak", (4e8,) * 5, (4e8,) * 5)
    (found,) = null_control(_table(flat), POLICY, m=1)
    assert found.effect == "none"


# order


def _order(plan, starts):
    return [finding.text for finding in order_findings(plan, starts) if finding.effect == "invalid"]


def test_starts_in_the_drawn_order_are_accepted_in_any_sequence_of_lines():
    plan = syn.plan(models=("a", "b"))
    starts = syn.starts_of(plan, np.random.default_rng(0))
    assert _order(plan, starts) == []
    assert _order(plan, starts[::-1]) == []


def _moved(starts, positions):
    return [s.model_copy(update={"position": p}) for s, p in zip(starts, positions, strict=True)]


def test_a_blocked_order_is_refused():
    plan = syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=3)
    blocked = sorted(starts, key=lambda s: s.arm)
    texts = _order(plan, _moved(blocked, range(6)))
    assert any("began before pair" in text for text in texts)
    judgement = judge(syn.evidence(plan, _moved(blocked, range(6))))
    assert judgement.outcome is Outcome.INVALID


def test_another_order_than_the_seed_drew_is_refused():
    plan = syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=1)
    swapped = _moved(starts, [1, 0])
    (text,) = _order(plan, swapped)
    assert "the seed drew" in text


def test_arms_of_a_launch_run_one_after_the_other():
    plan = syn.plan(rows=("decode", "agg@4"))
    first, second = plan.orders["m"][0]
    order = [(0, first), (1, first), (1, second), (0, second)]
    rng = np.random.default_rng(0)
    starts = [
        syn.start("m", 1, arm, i, syn.row_values(("decode",), rng, 0.01, {}), launch=launch)
        for i, (launch, arm) in enumerate(order)
    ]
    assert any("did not run one after the other" in text for text in _order(plan, starts))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda starts: [*starts, starts[0]], "stands 2 times"),
        (lambda starts: [*starts, starts[0]], "claim position 0"),
        (lambda starts: [s.model_copy(update={"model": "x"}) for s in starts], "not in the plan"),
        (lambda starts: [s.model_copy(update={"pair": 10}) for s in starts[:1]], "beyond the plan's 9"),
    ],
)
def test_starts_that_the_plan_does_not_know_are_refused(change, problem):
    plan = syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=1)
    assert any(problem in text for text in _order(plan, change(starts)))


# flags


def test_theil_sen_is_scipy_s():
    rng = np.random.default_rng(0)
    for n in (5, 6, 7, 9, 25):
        x, y = np.sort(rng.uniform(0, 100, n)), rng.standard_normal(n)
        wanted = stats.theilslopes(y, x, alpha=0.99)
        np.testing.assert_allclose(theil_sen(x, y), (wanted[0], wanted[2], wanted[3]))


def test_a_ratio_that_drifts_over_the_run_is_flagged():
    plan = syn.plan(margin=0.10)
    starts = syn.starts_of(plan, np.random.default_rng(0))
    trend = [50 * math.exp(0.05 * i) for i in range(9)]
    row, drifting = _data("decode", trend, tuple([50.0 + 0.01 * i for i in range(9)]))
    (found,) = drift({row: drifting}, starts, POLICY)
    assert (found.guard, found.effect) == ("drift", "flag")
    assert "+49 %" in found.text
    row, calm = _data("decode", trend[::-1][:4], (50.0, 50.1, 50.2, 50.3))
    assert drift({row: calm}, starts, POLICY) == []  # four pairs say nothing


def test_drift_of_the_machine_alone_is_no_drift_of_the_ratio():
    plan = syn.plan(margin=0.10)
    starts = syn.starts_of(plan, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    machine = [50 * math.exp(0.05 * i) for i in range(9)]
    row, data = _data("decode", [x * math.exp(0.01 * rng.standard_normal()) for x in machine], tuple(machine))
    assert drift({row: data}, starts, POLICY) == []


def test_pairs_that_scatter_more_than_the_margin_are_flagged():
    (found,) = dispersion(_table(_data("decode", (50.0, 60.0, 45.0), (50.0, 50.1, 50.2))), POLICY, Purpose.GATE)
    assert found.effect == "flag"
    assert dispersion(_table(_data("decode", (50.0, 50.5, 49.8), (50.0, 50.1, 50.2))), POLICY, Purpose.GATE) == []


def test_a_floor_is_not_measured_on_a_machine_louder_than_the_margin():
    plan = syn.plan(purpose=Purpose.ADOPT, margin=0.10)
    judgement = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(0), sd=0.6)))
    assert judgement.outcome is Outcome.UNDECIDED
    assert "too loud for a floor" in judgement.sentence


@pytest.mark.parametrize("arm", list(Arm))
def test_two_groups_of_starts_are_flagged(arm):
    two = (20.0, 20.3, 4.2, 19.9, 4.3, 20.1)
    calm = (20.0, 20.3, 20.2, 19.9, 20.4, 20.1)
    sides = (two, calm) if arm is Arm.SUBJECT else (calm, two)
    (found,) = bimodality(_table(_data("decode", *sides)), POLICY)
    assert found.effect == "flag"
    assert f"{arm} has two groups: 2 starts near 4.25, 4 near 20.07" in found.text
    assert bimodality(_table(_data("decode", calm, calm)), POLICY) == []
    assert bimodality(_table(_data("decode", two[:4], calm[:4])), POLICY) == []


def test_what_a_guard_flags_stands_with_its_row_and_decides_nothing():
    _, standing = syn.floor(np.random.default_rng(1), sd=0.02)
    plan = syn.plan(margin=0.10, rows=("decode", "agg@1", "agg@4"))
    rng = np.random.default_rng(2)
    starts = [
        syn.start("m", pair, arm, 2 * (pair - 1) + i, _two_modes(rng, arm, pair))
        for pair, order in enumerate(plan.orders["m"], start=1)
        for i, arm in enumerate(order)
    ]
    judgement = judge(syn.evidence(plan, starts, standing))
    row = next(row for row in judgement.rows if row.row == DECODE)
    flagged = {g.guard: g for g in judgement.guards if g.subject == "m/decode" and g.effect == "flag"}
    assert set(flagged) == {"dispersion", "bimodality"}
    assert row.flags == tuple(g.text.removeprefix("m/decode: ") for g in flagged.values())
    assert row.flags[0].startswith("pairs scatter by ")
    assert all(other.flags == () for other in judgement.rows if other.row != DECODE)


def _two_modes(rng, arm, pair):
    values = syn.row_values(("decode", "agg@1", "agg@4"), rng, 0.02, {})
    if arm is Arm.SUBJECT and pair in (2, 5, 8):
        values["decode"] *= 0.5
    return values


def test_a_floor_is_not_measured_against_a_comparator_that_moved():
    """A fresh batch on a slow denominator would lock an inflated floor in; the run says so instead."""
    _, standing = syn.floor(np.random.default_rng(1), sd=0.02)
    plan = syn.plan(Purpose.ADOPT)
    slow = syn.starts_of(plan, np.random.default_rng(2), sd=0.02, comparator_effects={"decode": 1 / 1.85})
    judgement = judge(syn.evidence(plan, slow, standing))
    assert judgement.outcome is Outcome.UNDECIDED
    assert "comparator of m/decode is at 0.5" in judgement.sentence
    assert any("its own history" in reason for reason in judgement.reasons)

"""What must hold for any data: the laws of the judge."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lqw.errors import Exit
from lqw.metrics import RowId
from lqw.noise import Reference, RowData, RowReferences, band_table, pair_rows
from lqw.noise.pairs import log_ratio
from lqw.noise.shrink import shrink
from lqw.outcomes import Arm, Outcome, Reason, RowVerdict
from lqw.plan import Policy
from lqw.samples import Failure
from lqw.verdict import Standing, judge, judgement_to_json
from tests.support import synthetic as syn

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
SHORTS = ("decode", "agg@1", "agg@4", "ttft@128", "ttft_cached@512", "rss_peak")
FEW = settings(max_examples=60, derandomize=True, deadline=None)
JUDGED = settings(max_examples=25, derandomize=True, deadline=None)

value = st.floats(1e-3, 1e9)
logs = st.floats(-0.5, 0.5)


@st.composite
def tables(draw):
    """Rows with their data and floors: (data, references)."""
    n = draw(st.sampled_from(POLICY.looks))
    data, references = [], {}
    for short in draw(st.lists(st.sampled_from(SHORTS), min_size=1, max_size=6, unique=True)):
        row = RowId.parse(f"m/{short}")
        d = draw(st.lists(logs, min_size=n, max_size=n))
        data.append(RowData(row, tuple(range(1, n + 1)), tuple(d), tuple(np.exp(d)), (1.0,) * n))
        floor = Reference(value=draw(logs), n=10, ss=draw(st.floats(0, 0.5)), df=9, release="1", receipt_sha256="f")
        references[row] = RowReferences(floor=floor)
    return data, references


def _table(data, references, policy=POLICY):
    look = policy.looks.index(len(data[0].d))
    return band_table(data, references, policy, look=look, m=len(data))


@given(st.sampled_from(SHORTS), value, value)
@FEW
def test_swapping_the_engines_negates_d(short, x, y):
    row = RowId.parse(f"m/{short}")
    assert log_ratio(row, x, y) == -log_ratio(row, y, x)


@given(st.sampled_from(SHORTS), value, value, st.floats(1e-3, 1e3))
@FEW
def test_scaling_both_engines_leaves_d(short, x, y, scale):
    row = RowId.parse(f"m/{short}")
    assert log_ratio(row, x * scale, y * scale) == pytest.approx(log_ratio(row, x, y), abs=1e-12)


@given(tables())
@FEW
def test_the_order_of_rows_does_not_matter(table):
    data, references = table
    forward, backward = _table(data, references), _table(data[::-1], references)
    for row, band in forward.items():
        assert backward[row].call is band.call
        assert backward[row].sd == pytest.approx(band.sd, rel=1e-9)


@given(tables())
@FEW
def test_the_order_of_pairs_does_not_matter(table):
    data, references = table
    turned = [dataclasses.replace(row, d=row.d[::-1]) for row in data]
    for row, band in _table(data, references).items():
        other = _table(turned, references)[row]
        assert other.estimate == pytest.approx(band.estimate, abs=1e-12)
        assert other.sd == pytest.approx(band.sd, rel=1e-9)


@given(tables(), st.floats(0.001, 0.5))
@FEW
def test_a_faster_candidate_is_never_judged_worse(table, gain):
    """A shift of every pair leaves the noise alone: RED can only turn OPEN, OPEN only PASS."""
    data, references = table
    better = [dataclasses.replace(row, d=tuple(x + gain for x in row.d)) for row in data]
    rank = {"RED": 0, "OPEN": 1, "PASS": 2}
    after = _table(better, references)
    for row, band in _table(data, references).items():
        assert rank[after[row].call] >= rank[band.call]


@given(tables(), st.floats(0.01, 0.5))
@FEW
def test_a_wider_margin_never_hurts_and_never_hides_a_red(table, extra):
    data, references = table
    wide = dataclasses.replace(POLICY, margin=POLICY.margin + extra)
    loose = _table(data, references, wide)
    for row, band in _table(data, references).items():
        assert (loose[row].call == "RED") == (band.call == "RED")
        assert band.call != "PASS" or loose[row].call == "PASS"


@given(tables())
@FEW
def test_bands_are_finite_and_consistent(table):
    data, references = table
    for band in _table(data, references).values():
        assert 0 < band.sd < math.inf
        assert band.t_red >= band.u_pass > 0  # equal for one row: both levels are 1 %
        assert 0 < band.band_fraction < 1
        assert band.threshold < 0
        assert (band.call == "RED") == (band.delta_floor < band.threshold)
        assert not (band.call == "PASS" and band.lower <= math.log(0.9))


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12), st.floats(1, 24), st.floats(0.25, 4))
@FEW
def test_shrinkage_scales_with_the_variances(variances, v, factor):
    s2, df = np.array(variances), np.full(len(variances), v)
    one, two = (shrink(x, df, sd_floor=f) for x, f in ((s2, 1e-3), (s2 * factor, 1e-3 * math.sqrt(factor))))
    np.testing.assert_allclose(two.s2, one.s2 * factor, rtol=1e-6)
    assert (one.nu <= v * len(variances) + 1e-9).all()


# the judge


def _run(seed, pairs=3, effects=None, **evidence):
    rng = np.random.default_rng(seed)
    _, standing = syn.floor(rng, sd=0.05)
    plan = syn.plan()
    return plan, syn.starts_of(plan, rng, sd=0.05, pairs=pairs, effects=effects), standing


effects = st.dictionaries(st.sampled_from(SHORTS), st.floats(0.4, 2.5), max_size=3)


@given(st.integers(0, 10_000), effects, st.sets(st.sampled_from(syn.DEMO_ROWS), min_size=1))
@JUDGED
def test_voiding_rows_never_turns_a_block_into_a_pass(seed, changed, voided):
    plan, starts, standing = _run(seed, effects=changed)
    voids = {RowId.parse(f"m/{short}"): Failure(reason=Reason.VOID_CORRECTNESS, detail="x") for short in voided}
    after = judge(syn.evidence(plan, starts, standing, voids=voids))
    assert after.exit_status is not Exit.PASS
    assert after.counts.void == len(voided)
    assert len(after.rows) == len(plan.rows)


@given(st.integers(0, 10_000), effects, st.sampled_from(syn.DEMO_ROWS))
@JUDGED
def test_removing_a_row_from_the_plan_never_turns_a_block_into_a_pass(seed, changed, short):
    """A row with a floor that is no longer measured blocks until it is retired."""
    plan, starts, standing = _run(seed, effects=changed)
    gone = RowId.parse(f"m/{short}")
    smaller = dataclasses.replace(plan, rows=tuple(row for row in plan.rows if row != gone))
    without = standing.model_copy(update={"dropped": (gone,)})
    assert judge(syn.evidence(smaller, starts, without)).exit_status is not Exit.PASS


@given(st.integers(0, 10_000), effects, st.integers(0, 5))
@JUDGED
def test_removing_a_start_never_turns_a_block_into_a_pass(seed, changed, index):
    plan, starts, standing = _run(seed, effects=changed)
    after = judge(syn.evidence(plan, starts[:index] + starts[index + 1 :], standing))
    assert after.exit_status is not Exit.PASS


@given(st.integers(0, 10_000), effects, st.integers(0, 5), st.sampled_from(list(Reason)))
@JUDGED
def test_a_failed_start_never_passes_whatever_its_reason(seed, changed, index, reason):
    plan, starts, standing = _run(seed, effects=changed)
    failure = Failure(reason=reason, detail="seen")
    starts[index] = starts[index].model_copy(update={"failure": failure, "requests": [], "memory": None})
    assert judge(syn.evidence(plan, starts, standing)).exit_status is not Exit.PASS


@given(st.integers(0, 10_000), effects, st.randoms(use_true_random=False))
@JUDGED
def test_the_sequence_of_journal_lines_does_not_matter(seed, changed, random):
    plan, starts, standing = _run(seed, effects=changed)
    shuffled = list(starts)
    random.shuffle(shuffled)
    assert judgement_to_json(judge(syn.evidence(plan, shuffled, standing))) == judgement_to_json(
        judge(syn.evidence(plan, starts, standing))
    )


@given(st.integers(0, 10_000), effects, st.integers(0, 9))
@JUDGED
def test_any_number_of_pairs_gives_a_judgement_with_every_row(seed, changed, pairs):
    plan, starts, standing = _run(seed, pairs=pairs, effects=changed)
    judgement = judge(syn.evidence(plan, starts, standing))
    assert [row.row for row in judgement.rows] == list(plan.rows)
    counts = judgement.counts
    assert counts.planned == counts.measured + counts.void + counts.failed
    assert (judgement.outcome is Outcome.PASS) == (judgement.exit_status is Exit.PASS)
    if judgement.outcome is Outcome.PASS:
        assert judgement.reasons == ()
        assert counts.gating == counts.planned
    else:
        assert judgement.reasons


@given(st.integers(0, 10_000), effects)
@JUDGED
def test_without_a_floor_nothing_passes(seed, changed):
    plan, starts, _ = _run(seed, effects=changed)
    judgement = judge(syn.evidence(plan, starts, Standing()))
    assert judgement.exit_status is not Exit.PASS


@given(st.integers(0, 10_000), st.sampled_from(SHORTS), st.floats(1.5, 3.0))
@JUDGED
def test_slowing_only_the_comparator_never_makes_a_red(seed, short, factor):
    """The gated number is not the comparator's own: its fall is no fall of the subject."""
    plan, _, standing = _run(seed)
    larger_is_worse = RowId.parse(f"m/{short}").kind.sign < 0
    slower = {short: factor if larger_is_worse else 1 / factor}
    starts = syn.starts_of(plan, np.random.default_rng(seed + 1), pairs=3, comparator_effects=slower)
    judgement = judge(syn.evidence(plan, starts, standing))
    row = next(row for row in judgement.rows if row.row.short == short)
    assert row.verdict is not RowVerdict.RED
    assert row.ratio > 1


@given(st.integers(0, 10_000))
@JUDGED
def test_swapping_the_arms_of_a_journal_negates_every_row(seed):
    plan, starts, _ = _run(seed)
    other = {Arm.SUBJECT: Arm.COMPARATOR, Arm.COMPARATOR: Arm.SUBJECT}
    swapped = [start.model_copy(update={"arm": other[start.arm]}) for start in starts]
    here, there = (pair_rows(s, plan.rows, min_window_s=syn.WINDOW_S) for s in (starts, swapped))
    for row, data in here.items():
        np.testing.assert_allclose(there[row].d, -np.array(data.d), atol=1e-12)


# noise, and the judge's monotony


@st.composite
def red_tables(draw):
    """Rows that are RED, each as (data, references)."""
    data, references = draw(tables())
    lost = [dataclasses.replace(row, d=tuple(x - 0.3 for x in row.d)) for row in data]
    bands = _table(lost, references)
    rows = [row for row in lost if bands[row.row].call == "RED" and bands[row.row].delta_floor <= math.log(0.9)]
    assume(rows)
    return lost, references, {row.row for row in rows}


@given(red_tables(), st.floats(1, 50))
@FEW
def test_noise_never_makes_a_pass_of_a_loss_beyond_the_margin(table, factor):
    """Scatter round the same mean can turn RED into OPEN, however much of it there is; into PASS it cannot."""
    data, references, red = table
    after = _table([_louder(row, factor) for row in data], references)
    for row in red:
        assert after[row].call in ("RED", "OPEN")


@given(tables())
@FEW
def test_noise_without_end_passes_nothing(table):
    """A loss below the margin may be RED on a quiet machine and hidden by some noise: it is not proven then. By enough
    noise nothing passes, so noise is no way through the gate.
    """
    data, references = table
    after = _table([_louder(row, 1e3) for row in data], references)
    for row in data:
        if np.std(row.d) > 1e-2:
            assert after[row.row].call != "PASS"


def _louder(row, factor):
    d = np.array(row.d)
    return dataclasses.replace(row, d=tuple(d.mean() + factor * (d - d.mean())))


RANK = {"RED": 0, "INCONCLUSIVE": 1, "PASS": 2, "IMPROVED": 3, "SUSPECT": 4}


@given(st.integers(0, 10_000), st.sampled_from(SHORTS), st.floats(0.5, 1.0), st.floats(1.0, 1.5))
@JUDGED
def test_a_faster_candidate_never_ranks_below_a_slower_one(seed, short, factor, gain):
    """The same noise, a faster subject: its row goes RED → open → PASS → IMPROVED → too good, and never back."""
    sign = RowId.parse(f"m/{short}").kind.sign
    ranks = []
    for speed in (factor, factor * gain):
        plan, starts, standing = _run(seed, effects={short: speed**sign}, pairs=9)
        row = next(row for row in judge(syn.evidence(plan, starts, standing)).rows if row.row.short == short)
        ranks.append(RANK[row.verdict])
    assert ranks[0] <= ranks[1]


@given(st.integers(0, 10_000), effects)
@JUDGED
def test_scaling_both_arms_of_a_journal_leaves_every_verdict(seed, changed):
    """A machine twice as slow for both engines changes no ratio; only the comparator's own history may object."""
    plan, starts, standing = _run(seed, effects=changed)
    alone = standing.model_copy(update={"comparator": {}})
    slow = [start.model_copy(update={"requests": [_twice(r) for r in start.requests]}) for start in starts]
    here, there = (judge(syn.evidence(plan, s, alone)) for s in (starts, slow))
    assert [row.verdict for row in there.rows] == [row.verdict for row in here.rows]
    assert there.outcome is here.outcome
    for one, other in zip(here.rows, there.rows, strict=True):
        np.testing.assert_allclose(other.d, one.d, atol=1e-9)


def _twice(request):
    return request.model_copy(update={"ttft_ns": 2 * request.ttft_ns, "gaps_ns": [2 * gap for gap in request.gaps_ns]})

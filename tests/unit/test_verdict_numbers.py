"""Guards, suites and looks against numbers worked out here: unequal sizes, exact words, both sides of each edge."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import RowId
from lqw.metrics.digits import percent
from lqw.noise import Reference, RowBand, RowData, RowReferences, band_table
from lqw.noise.pairs import log_ratio
from lqw.noise.shrink import shrink
from lqw.outcomes import Outcome, Purpose, Reason
from lqw.plan import Policy
from lqw.verdict import ComparatorPoint, Standing, judge
from lqw.verdict.guards import comparator_history, null_control, one_token_prefill
from lqw.verdict.order import order_findings
from lqw.verdict.sanity import bimodality, dispersion, drift
from lqw.verdict.sequence import replay
from lqw.verdict.suite import suite_tests
from lqw.verdict.targets import target_of
from tests.support import synthetic as syn

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
TIGHT = dataclasses.replace(POLICY, margin=1e-6)


def _data(name, comparator, subject=None):
    row = RowId.parse(name)
    subject = tuple(subject or (2.0 * y for y in comparator))
    d = tuple(log_ratio(row, x, y) for x, y in zip(subject, comparator, strict=True))
    return RowData(row, tuple(range(1, len(d) + 1)), d, subject, tuple(comparator))


def _table(*rows):
    return {row.row: row for row in rows}


# guards


def test_the_one_token_detector_says_rate_factor_and_suspicion():
    slow = _table(_data("m/prefill@512", (1.0,) * 3, (75.0,) * 3), _data("m/decode", (1.0,) * 3, (50.0,) * 3))
    (found,) = one_token_prefill(slow, (), POLICY)
    assert found.text == "prefill@512: prefill 75 tok/s is 1.5× decode (50 tok/s); one token per step looks like this"
    assert found.numbers == pytest.approx({"prefill_tok_s": 75, "decode_tok_s": 50, "factor": 1.5})
    well = _table(_data("m/prefill@512", (1.0,) * 3, (100.0,) * 3), _data("m/decode", (1.0,) * 3, (50.0,) * 3))
    (found,) = one_token_prefill(well, (), POLICY)  # exactly twice is not below
    assert (found.text, found.effect) == ("prefill@512: prefill 100 tok/s is 2.0× decode (50 tok/s)", "none")


def test_a_model_without_decode_and_a_row_without_history_hide_no_other():
    rows = [_data(f"a/{name}", (1.0,) * 3, (75.0,) * 3) for name in ("prefill@512", "agg@1")]
    rows += [_data("b/prefill@512", (1.0,) * 3, (75.0,) * 3), _data("b/decode", (1.0,) * 3, (50.0,) * 3)]
    assert [found.subject for found in one_token_prefill(_table(*rows), (), POLICY)] == ["b/prefill@512"]
    two = [_data("m/agg@1", (49.0, 49.1, 49.2)), _data("m/decode", (49.0, 49.1, 49.2))]
    points = {two[1].row: (ComparatorPoint(release="r", mean=3.9, sd=0.01, n=3),)}
    assert [found.subject for found in comparator_history(_table(*two), points, POLICY)] == ["m/decode"]


def test_what_a_comparator_may_move_by_pools_sessions_of_unequal_length():
    y = (49.0, 50.5, 48.2, 49.9)
    points = tuple(ComparatorPoint(release="r", mean=3.9, sd=sd, n=n) for sd, n in ((0.03, 3), (0.08, 10)))
    row = _data("m/decode", y)
    (found,) = comparator_history(_table(row), {row.row: points}, POLICY)
    within = math.sqrt((3 * np.var(np.log(y), ddof=1) + 2 * 0.03**2 + 9 * 0.08**2) / (3 + 2 + 9))
    assert found.numbers["allowed"] == pytest.approx(4 * within)
    assert found.numbers["sessions"] == 2
    assert found.numbers["ratio"] == pytest.approx(math.exp(np.mean(np.log(y)) - 3.9))


def test_three_sessions_have_a_spread_of_their_own_two_do_not():
    y = (49.0, 49.01, 49.02)
    row = _data("m/decode", y)
    for means, spread in (((3.8, 3.9, 4.1), np.std((3.8, 3.9, 4.1), ddof=1)), ((3.8, 4.1), 0.0)):
        points = tuple(ComparatorPoint(release="r", mean=mean, sd=1e-4, n=5) for mean in means)
        (found,) = comparator_history(_table(row), {row.row: points}, POLICY)
        assert found.numbers["allowed"] == pytest.approx(max(0.05, 4 * spread))


@pytest.mark.parametrize("n", [5, 6])
def test_the_null_control_s_limit_by_hand(n):
    rng = np.random.default_rng(n)
    rows = [_data(f"m{i}/decode", np.exp(0.05 * rng.standard_normal(n))) for i in range(3)]
    (found,) = null_control(_table(*rows), TIGHT, m=7)
    logs = [np.log(row.comparator) for row in rows]
    ss = np.array([sum(((x - x.mean()) ** 2).sum() for x in (y[::2], y[1::2])) for y in logs])
    noise = shrink(ss / (n - 2), np.full(3, n - 2.0), sd_floor=0.005)
    width = np.sqrt(noise.s2 * (1 / math.ceil(n / 2) + 1 / (n // 2)))
    limits = stats.t.isf((1 - 0.99 ** (1 / 7)) / 2, noise.nu) * width
    apart = np.array([y[::2].mean() - y[1::2].mean() for y in logs])
    worst = int(np.argmax(np.abs(apart) / limits))
    assert found.numbers == pytest.approx(
        {"apart": apart[worst], "limit": limits[worst], "share": abs(apart[worst]) / limits[worst]}
    )
    assert found.subject == f"m{worst}/decode"
    assert found.text == (
        f"comparator against itself, odd and even starts: m{worst}/decode differs by "
        f"{percent(math.expm1(abs(apart[worst])))} (limit {percent(math.expm1(limits[worst]))})"
    )


def test_memory_has_its_own_smallest_noise_in_the_null_control():
    flat = _data("m/rss_peak", (4e8,) * 5)
    (found,) = null_control(_table(flat), TIGHT, m=1)
    assert found.numbers["limit"] == pytest.approx(stats.t.isf(0.005, 3) * 0.002 * math.sqrt(1 / 3 + 1 / 2))
    (rate,) = null_control(_table(_data("m/decode", (50.0,) * 5)), TIGHT, m=1)
    assert rate.numbers["limit"] == pytest.approx(found.numbers["limit"] * 2.5)


def test_a_null_control_that_fires_is_the_run_s_not_a_row_s():
    (found,) = null_control(_table(_data("m/decode", (65.0, 50.0) * 4)), POLICY, m=1)
    assert (found.subject, found.effect) == ("run", "undecided")
    assert "m/decode differs by 30 %" in found.text
    assert found.text.endswith("): the run cannot tell two engines apart")


# flags


def _starts(n):
    plan = syn.plan()
    return syn.starts_of(plan, np.random.default_rng(0), pairs=n)


@pytest.mark.parametrize(("n", "fires"), [(4, False), (5, True)])
def test_drift_needs_five_pairs(n, fires):
    y = tuple(50.0 + 0.001 * i * i for i in range(n))
    falling = _data("m/decode", y, tuple(50 * math.exp(-0.02 * i) for i in range(n)))
    found = drift(_table(falling), _starts(n), POLICY)
    assert bool(found) is fires
    if fires:
        assert found[0].numbers["total"] == pytest.approx(-0.08, abs=0.002)
        assert found[0].text == "m/decode: the ratio moved by −7.7 % over the run (Theil–Sen)"


@pytest.mark.parametrize(("total", "fires"), [(0.045, False), (0.055, True), (-0.045, False), (-0.055, True)])
def test_drift_begins_at_half_the_margin(total, fires):
    moved = tuple(50 * math.exp(total * i / 8) for i in range(9))
    assert bool(drift(_table(_data("m/decode", (50.0,) * 9, moved)), _starts(9), POLICY)) is fires


def _two_groups(low, high):
    """Logs of starts in two groups."""
    return _data("m/decode", tuple(50 * math.exp(x) for x in (*low, *high)), (50.0,) * (len(low) + len(high)))


@pytest.mark.parametrize(
    ("low", "high", "fires"),
    [
        ((0.0, 0.01), (0.14, 0.15, 0.16), True),
        ((0.0, 0.01), (0.10, 0.11, 0.105), False),  # far apart for their width, but within the margin
        ((0.0, 0.08), (0.30, 0.31, 0.32), False),  # beyond the margin, but broad groups: 0.22 is no three times 0.10
        ((0.0, 0.05), (0.35, 0.36, 0.38), True),
        ((0.0,), (0.15, 0.16, 0.17), False),  # four starts
    ],
)
def test_two_groups_stand_further_apart_than_three_times_their_width(low, high, fires):
    found = bimodality(_table(_two_groups(low, high)), POLICY)
    assert bool(found) is fires
    if fires:
        assert found[0].numbers == pytest.approx(
            {"low": 50 * math.exp(np.mean(low)), "high": 50 * math.exp(np.mean(high))}
        )


# the order of starts


def _order(plan, starts):
    return [(finding.effect, finding.subject, finding.text) for finding in order_findings(plan, starts)]


def test_the_order_is_said_in_words_whichever_way_it_is():
    plan = syn.plan(rows=("decode",))
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=2)
    assert _order(plan, starts) == [("none", "run", "4 starts ran in the order drawn from seed 7")]
    first, second = plan.orders["m"][0]
    swapped = [s.model_copy(update={"position": 1 - s.position}) for s in starts[:2]]
    told = f"m: pair 1, launch 0 ran {second} then {first}; the seed drew {first} then {second}"
    assert _order(plan, swapped) == [("invalid", "run", told)]


def test_pairs_may_neither_overlap_nor_be_cut_short():
    """A pair begins after the *last* start of the one before, not after its first."""
    plan = syn.plan(rows=("decode",))
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=2)
    overlapping = [s.model_copy(update={"position": p}) for s, p in zip(starts, (0, 2, 1, 3), strict=True)]
    assert _order(plan, overlapping) == [
        ("invalid", "run", "m: pair 2 began before pair 1 ended; pairs must not be blocked by arm")
    ]


def test_two_launches_of_one_pair_end_with_the_second():
    """A pair has four starts where it has two launches: the next one begins after the last of them, not the second."""
    plan = syn.plan(rows=("decode", "agg@4"))
    (a, b), (c, d) = plan.orders["m"][:2]
    values = syn.row_values(("decode",), np.random.default_rng(0), 0.01, {})
    order = [(1, a, 0), (1, b, 0), (2, c, 0), (1, a, 1), (1, b, 1), (2, d, 0)]
    starts = [syn.start("m", pair, arm, i, values, launch=launch) for i, (pair, arm, launch) in enumerate(order)]
    assert "m: pair 2 began before pair 1 ended" in _order(plan, starts)[0][2]


def _launches(plan, order):
    values = syn.row_values(("decode",), np.random.default_rng(0), 0.01, {})
    return [syn.start("m", 1, arm, i, values, launch=launch) for i, (launch, arm) in enumerate(order)]


def test_two_launches_of_a_pair_in_turn_are_in_order():
    plan = syn.plan(rows=("decode", "agg@4"))
    first, second = plan.orders["m"][0]
    assert _order(plan, _launches(plan, [(0, first), (0, second), (1, first), (1, second)]))[0][0] == "none"
    cut = _order(plan, _launches(plan, [(0, first), (1, first), (0, second), (1, second)]))
    assert [text for *_, text in cut] == [
        f"m: pair 1: the arms of launch {launch} did not run one after the other" for launch in (0, 1)
    ]


# suites


def _member(name, d, floor_d, release="1"):
    row = RowId.parse(name)
    f = np.array(floor_d)
    floor = Reference(
        value=float(f.mean()), n=len(f), ss=float(((f - f.mean()) ** 2).sum()), df=len(f) - 1, release=release,
        receipt_sha256="f", d=tuple(floor_d),
    )  # fmt: skip
    data = RowData(row, tuple(range(1, len(d) + 1)), tuple(d), tuple(np.exp(d)), (1.0,) * len(d))
    return data, floor


def _suite(members):
    data = {row.row: row for row, _ in members}
    references = {row.row: RowReferences(floor=floor) for row, floor in members}
    bands = {}
    for row, _ in members:
        one_look = dataclasses.replace(POLICY, looks=(len(row.d),))
        bands |= band_table([row], references, one_look, look=0, m=len(members))
    return suite_tests(data, bands, references), bands


def test_the_shared_variance_by_hand_over_models_of_unequal_size():
    """Satterthwaite over two models, the one with two rows of five pairs, the other with one row of three."""
    rng = np.random.default_rng(5)
    luck, f_luck = 0.2 * rng.standard_normal(5), 0.2 * rng.standard_normal(8)
    two = [
        _member(f"a/agg@{k}", luck + 0.01 * rng.standard_normal(5), f_luck + 0.01 * rng.standard_normal(8))
        for k in (1, 2)
    ]
    one = [_member("b/decode", 0.2 * rng.standard_normal(3), 0.2 * rng.standard_normal(8))]
    (found,), bands = _suite([*two, *one])
    total = square = 0.0
    for group, n in ((two, 5), (one, 3)):
        d = np.mean([row.d for row, _ in group], axis=0)
        f = np.mean([floor.d for _, floor in group], axis=0)
        ss, df = ((d - d.mean()) ** 2).sum() + ((f - f.mean()) ** 2).sum(), (n - 1) + 7
        part = (len(group) / 3) ** 2 * ss / df * (1 / n + 1 / 8)
        total, square = total + part, square + part**2 / df
    common = 2 * 0.005**2
    as_shared = math.sqrt(stats.t.isf(0.005, total**2 / square) ** 2 * total + 2.576**2 * common)
    independent = sum(band.se_floor**2 for band in bands.values()) / 9
    assert found.threshold == pytest.approx(-max(2.576 * math.sqrt(independent + common), as_shared))
    assert found.se == pytest.approx(math.sqrt(max(independent, total) + common))
    assert as_shared > 2.576 * math.sqrt(independent + common)  # the shared one decides here


def test_floors_of_one_pair_each_leave_the_scatter_of_this_run():
    rng = np.random.default_rng(9)
    rows = [_member(f"m/agg@{k}", 0.3 * rng.standard_normal(2), 0.1 * rng.standard_normal(1)) for k in (1, 2, 3)]
    (found,), bands = _suite(rows)
    d = np.mean([row.d for row, _ in rows], axis=0)
    v = ((d - d.mean()) ** 2).sum() / 1 * (1 / 2 + 1 / 1)
    as_shared = math.sqrt(stats.t.isf(0.005, 1) ** 2 * v + 2.576**2 * 2 * 0.005**2)
    independent = sum(band.se_floor**2 for band in bands.values()) / 9 + 2 * 0.005**2
    assert found.threshold == pytest.approx(-max(as_shared, 2.576 * math.sqrt(independent)))


def test_two_families_share_the_level():
    rng = np.random.default_rng(6)
    rates = [_member(f"m/agg@{k}", 0.3 * rng.standard_normal(4), 0.3 * rng.standard_normal(6)) for k in (1, 2, 3)]
    times = [_member(f"m/ttft@{k}", 0.3 * rng.standard_normal(4), 0.3 * rng.standard_normal(6)) for k in (1, 2, 3)]
    alone, _ = _suite(rates)
    both, _ = _suite(rates + times)
    assert [suite.family for suite in both] == ["rate", "latency"]
    d, f = (np.mean(xs, axis=0) for xs in ([r.d for r, _ in rates], [f.d for _, f in rates]))
    v = (((d - d.mean()) ** 2).sum() + ((f - f.mean()) ** 2).sum()) / 8 * (1 / 4 + 1 / 6)
    for found, level in ((alone[0], 0.005), (both[0], 0.0025)):
        assert found.threshold == pytest.approx(
            -math.sqrt(stats.t.isf(level, 8) ** 2 * v + 2.576**2 * 2 * 0.005**2), rel=1e-6
        )


# looks and the judge


def test_a_replay_says_which_model_needs_more_and_sees_no_more_than_its_last_look():
    rng = np.random.default_rng(8)
    members = {
        "calm": _member("calm/decode", 0.001 * rng.standard_normal(9), 0.001 * rng.standard_normal(10)),
        "loud": _member("loud/decode", 0.08 * rng.standard_normal(9), 0.08 * rng.standard_normal(10)),
    }
    data = {row.row: row for row, _ in members.values()}
    references = {row.row: RowReferences(floor=floor) for row, floor in members.values()}
    policy = dataclasses.replace(POLICY, method="own-t")
    found = replay(data, references, policy, m=2, available={"calm": 9, "loud": 6}, folded={})
    assert found.needing == ("loud",)
    assert found.bands[RowId.parse("loud/decode")].n == 5
    none = replay(data, references, policy, m=2, available={"calm": 9}, folded={})
    assert none.needing == ("loud",)
    assert set(none.bands) == {RowId.parse("calm/decode")}


def test_saved_pairs_are_counted_once_nothing_more_is_needed():
    plan = syn.plan(margin=0.10)
    _, standing = syn.floor(np.random.default_rng(1), sd=0.06)
    for pairs, saved in ((3, 0), (9, 0)):  # open rows at three pairs want more: nothing is saved yet
        starts = syn.starts_of(plan, np.random.default_rng(11), sd=0.06, pairs=pairs)
        judgement = judge(syn.evidence(plan, starts, standing))
        assert bool(judgement.models_needing_pairs) is (pairs == 3)
        assert judgement.pairs_saved == saved
    _, calm = syn.floor(np.random.default_rng(1), sd=0.01)
    starts = syn.starts_of(plan, np.random.default_rng(2), sd=0.01, pairs=3)
    assert judge(syn.evidence(plan, starts, calm)).pairs_saved == 6


def test_a_row_that_stood_still_in_the_first_look_alone_is_refused():
    """Constant over the first three pairs: their variance is a clock's, whatever the later ones do."""
    plan = syn.plan(rows=("decode", "agg@1"))
    starts = syn.starts_of(plan, np.random.default_rng(2), sd=0.02, pairs=5)
    frozen = [
        start if start.pair > 3 else start.model_copy(update={"requests": starts[0].requests}) for start in starts
    ]
    _, standing = syn.floor(np.random.default_rng(1), sd=0.02, rows=("decode", "agg@1"))
    judgement = judge(syn.evidence(plan, frozen, standing))
    assert {str(row.reason.reason) for row in judgement.rows} == {"CONSTANT_SAMPLES"}


def test_every_problem_is_told_problems_of_the_receipt_and_of_the_order():
    plan = syn.plan(rows=("decode",))
    starts = syn.starts_of(plan, np.random.default_rng(2), pairs=3)
    judgement = judge(syn.evidence(plan, [*starts, starts[0]], problems=("the seal is broken",)))
    told = [(guard.guard, guard.subject) for guard in judgement.guards if guard.effect == "invalid"]
    assert told == [("integrity", "run"), ("order", "run"), ("order", "run")]
    assert judgement.outcome is Outcome.INVALID


def test_a_model_with_too_few_pairs_says_how_many_it_has():
    plan = syn.plan(models=("a", "b"), rows=("decode",))
    _, standing = syn.floor(np.random.default_rng(1), sd=0.02, models=("a", "b"), rows=("decode",))
    starts = [
        start
        for start in syn.starts_of(plan, np.random.default_rng(2), pairs=3)
        if start.model == "a" or start.pair < 3
    ]
    row = next(row for row in judge(syn.evidence(plan, starts, standing)).rows if row.row.model == "b")
    assert row.reason.detail == "2 pairs; a variance needs 3"


def test_a_first_look_of_five_says_what_three_pairs_lack():
    plan = syn.plan(rows=("decode",), looks=(5, 7))
    _, standing = syn.floor(np.random.default_rng(1), sd=0.02, rows=("decode",))
    starts = syn.starts_of(plan, np.random.default_rng(2), pairs=4)
    (row,) = judge(syn.evidence(plan, starts, standing)).rows
    assert row.reason.detail == "4 of the first 5 pairs measured"
    (void,) = judge(
        syn.evidence(plan, starts, standing, voids={row.row: syn.failed(Reason.VOID_CORRECTNESS, "token 3 differs")})
    ).rows
    assert (void.row, void.text) == (row.row, "VOID_CORRECTNESS: token 3 differs")


def test_a_floor_s_bands_are_of_its_only_look():
    plan = syn.plan(Purpose.ADOPT, rows=("decode",))
    judgement = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(2))))
    assert {row.band.look for row in judgement.rows} == {0}


def test_a_target_is_met_by_the_lower_bound_of_its_own_session():
    row = RowId.parse("m/decode")
    data, floor = _member("m/decode", (0.01, -0.02, 0.02), (0.0, 0.01, -0.01))
    policy = dataclasses.replace(POLICY, tau=0.03)
    band: RowBand = band_table([data], {row: RowReferences(floor=floor)}, policy, look=0, m=1)[row]
    found = target_of(row, band, {"decode": 0.9}, policy)
    bound = band.estimate - stats.t.isf(0.01, band.nu) * math.sqrt(band.sd**2 / 3 + 0.03**2)
    assert found.bound == pytest.approx(math.exp(bound))


def test_a_comparator_that_moved_says_by_how_much_it_may():
    row = _data("m/decode", (49.0, 49.1, 49.2))
    points = (ComparatorPoint(release="r", mean=math.log(49.1) + 0.2, sd=0.001, n=3),)
    (found,) = comparator_history(_table(row), {row.row: points}, POLICY)
    assert found.text == (
        "comparator of m/decode is at 0.82× its own history (1 sessions), more than ±5.1 %: what it divides cannot be judged"
    )


@pytest.mark.parametrize(("apart", "fires"), [(0.045, False), (0.055, True)])
def test_a_comparator_may_differ_from_itself_by_half_the_margin(apart, fires):
    y = tuple(50 * math.exp(apart * (i % 2)) for i in range(8))
    (found,) = null_control(_table(_data("m/decode", y)), POLICY, m=1)
    assert found.numbers["limit"] == pytest.approx(0.05)
    assert (found.effect == "undecided") is fires


def test_dispersion_is_the_standard_deviation_of_a_sample():
    spread = _data("m/decode", (50.0,) * 3, (50.0, 50.0, 50 * math.exp(0.2)))
    (found,) = dispersion(_table(spread), POLICY, Purpose.GATE)
    assert found.numbers["sd"] == pytest.approx(0.2 / math.sqrt(3))
    calm = _data("m/decode", (50.0,) * 3, (50.0, 50.0, 50 * math.exp(0.17)))
    assert dispersion(_table(calm), POLICY, Purpose.GATE) == []


def test_an_arm_with_few_starts_hides_no_other_row():
    few, two = _data("a/decode", (50.0,) * 4), _two_groups((0.0, 0.01), (0.14, 0.15, 0.16))
    assert [found.subject for found in bimodality(_table(few, two), POLICY)] == ["m/decode"]


def test_a_floor_is_made_of_its_declared_pairs_and_asks_for_no_retired_row():
    plan = syn.plan(Purpose.ADOPT, rows=("decode",), floor_pairs=6)
    more = syn.plan(Purpose.ADOPT, rows=("decode",), floor_pairs=9)
    starts = syn.starts_of(more, np.random.default_rng(2), sd=0.02)
    first = [start for start in starts if start.pair <= 6]
    assert all(plan.orders["m"][i] == more.orders["m"][i] for i in range(6))
    held = Standing(dropped=(RowId.parse("m/agg@1"),))
    judgement = judge(syn.evidence(plan, first, held))
    assert (judgement.outcome, judgement.look) == (Outcome.FLOOR, 0)
    assert {row.n for row in judgement.rows} == {6}

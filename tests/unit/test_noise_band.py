"""The band of a release: pooling, the method's formulas written out again with scipy, and the registry."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from lqw.errors import UsageError
from lqw.metrics import RowId
from lqw.noise import METHODS, Call, Reference, RowBand, RowData, RowReferences, Spread, band_table, json_form
from lqw.noise.batch import MAX_DF, batch_of, pooled_prior
from lqw.noise.boundaries import pass_boundaries, red_boundaries
from lqw.plan import Policy

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
ROW = RowId.parse("m/decode")


def _data(d, row=ROW):
    d = tuple(float(x) for x in d)
    return RowData(row, tuple(range(1, len(d) + 1)), d, tuple(np.exp(d)), (1.0,) * len(d))


def _reference(d, receipt="f", release="1.0.0"):
    d = np.asarray(d, dtype=float)
    ss = float(((d - d.mean()) ** 2).sum())
    return Reference(value=float(d.mean()), n=len(d), ss=ss, df=len(d) - 1, release=release, receipt_sha256=receipt)


def _floor(rng, sd=0.03, n=10, at=0.0):
    return _reference(at + sd * rng.standard_normal(n))


def test_one_row_by_hand():
    rng = np.random.default_rng(0)
    d, floor = 0.03 * rng.standard_normal(5) - 0.02, _floor(rng)
    band = band_table([_data(d)], {ROW: RowReferences(floor=floor)}, POLICY, look=1, m=60)[ROW]
    v = 4 + 9
    s2 = (((d - d.mean()) ** 2).sum() + floor.ss) / v
    se = np.sqrt(s2 * (1 / 5 + 1 / 10) + 2 * 0.005**2)
    c = red_boundaries((3, 5, 7, 9), 10, m=60, alpha=0.01, gamma=-2.0)[1]
    b = pass_boundaries((3, 5, 7, 9), 10, gamma=-2.0)[1]
    assert band.estimate == pytest.approx(d.mean())
    assert (band.n, band.look, band.v, band.nu) == (5, 1, v, v)
    assert band.sd == pytest.approx(np.sqrt(s2))
    assert band.se_floor == pytest.approx(se)
    assert band.t_red == pytest.approx(stats.t.isf(stats.norm.sf(c), v))
    assert band.u_pass == pytest.approx(stats.t.isf(stats.norm.sf(b), v))
    assert band.threshold == pytest.approx(-band.t_red * se)
    assert band.lower == pytest.approx(d.mean() - floor.value - band.u_pass * se)
    assert band.band_fraction == pytest.approx(1 - np.exp(-band.t_red * se))
    assert (band.last, band.threshold_last, band.red_by) == (None, None, "")


def test_losses_below_delta_are_never_red():
    quiet = 1e-4 * np.array([1.0, -1.0, 0.5])
    policy = dataclasses.replace(POLICY, tau=0.0, sd_floor=1e-6, sd_floor_memory=1e-6)
    for short, limit in (("decode", 0.01), ("rss_peak", 0.02)):
        row = RowId.parse(f"m/{short}")
        references = {row: RowReferences(floor=_reference(1e-4 * np.arange(10)))}
        for loss, call in ((0.9 * limit, Call.PASS), (1.1 * limit, Call.RED)):
            moved = _data(quiet + np.log1p(-loss), row)
            assert band_table([moved], references, policy, look=0, m=60)[row].call is call


def test_noise_below_the_floor_is_not_believed():
    for short, least in (("decode", 0.005), ("rss_peak", 0.002)):
        row = RowId.parse(f"m/{short}")
        band = band_table([_data(1e-6 * np.arange(3), row)], {}, POLICY, look=0, m=1)[row]
        assert band.sd == pytest.approx(least)


def test_the_session_term_is_in_the_standard_error():
    rng = np.random.default_rng(0)
    data, references = _data(0.03 * rng.standard_normal(3)), {ROW: RowReferences(floor=_floor(rng))}
    with_tau, without = (
        band_table([data], references, dataclasses.replace(POLICY, tau=tau), look=0, m=60)[ROW].se_floor
        for tau in (0.02, 0.0)
    )
    assert with_tau**2 - without**2 == pytest.approx(2 * 0.02**2)


def test_a_row_without_a_floor_has_noise_but_no_call():
    band = band_table([_data([0.1, 0.11, 0.12])], {}, POLICY, look=0, m=60)[ROW]
    assert band.call is Call.OPEN
    assert {band.floor, band.se_floor, band.t_red, band.threshold, band.lower, band.band_fraction} == {None}
    assert band.sd > 0


def test_the_last_release_is_a_second_reference_at_half_the_level():
    rng = np.random.default_rng(4)
    floor, last = _floor(rng), _reference(0.2 + 0.03 * rng.standard_normal(5), "l", "1.0.9")
    data = [_data(0.03 * rng.standard_normal(3))]
    both = band_table(data, {ROW: RowReferences(floor=floor, last=last)}, POLICY, look=0, m=60)[ROW]
    alone = band_table(data, {ROW: RowReferences(floor=floor)}, POLICY, look=0, m=60)[ROW]
    assert both.call is Call.RED
    assert both.red_by == "last"
    assert both.t_red > alone.t_red
    c = red_boundaries((3, 5, 7, 9), 5, m=60, alpha=0.01, gamma=-2.0, references=2)[0]
    assert both.t_last == pytest.approx(stats.t.isf(stats.norm.sf(c), both.nu))
    assert both.se_last == pytest.approx(np.sqrt(both.sd**2 * (1 / 3 + 1 / 5) + 2 * 0.005**2))


def test_the_floor_s_own_receipt_is_not_a_second_reference():
    floor = _floor(np.random.default_rng(0))
    data = [_data([0.01, 0.0, -0.01])]
    twice = band_table(data, {ROW: RowReferences(floor=floor, last=floor)}, POLICY, look=0, m=60)[ROW]
    once = band_table(data, {ROW: RowReferences(floor=floor)}, POLICY, look=0, m=60)[ROW]
    assert twice == once


def test_a_met_target_folds_into_the_floor_and_never_lowers_it():
    floor = _floor(np.random.default_rng(0), at=-0.30)
    data, references = [_data([-0.31, -0.30, -0.29])], {ROW: RowReferences(floor=floor)}
    raised = band_table(data, references, POLICY, look=0, m=60, folded={ROW: np.log(0.9)})[ROW]
    assert raised.folded
    assert raised.floor == pytest.approx(np.log(0.9))
    assert raised.call is Call.RED
    kept = band_table(data, references, POLICY, look=0, m=60, folded={ROW: np.log(0.5)})[ROW]
    assert not kept.folded
    assert kept.floor == floor.value


def test_families_are_shrunk_apart_and_together_inside():
    rng = np.random.default_rng(1)
    rates = [_data(0.05 * rng.standard_normal(3), RowId.parse(f"m{i}/decode")) for i in range(6)]
    memory = _data(0.001 * rng.standard_normal(3), RowId.parse("m/rss_peak"))
    with_memory = band_table([*rates, memory], {}, POLICY, look=0, m=7)
    without = band_table(rates, {}, POLICY, look=0, m=7)
    assert [with_memory[r.row].sd for r in rates] == [without[r.row].sd for r in rates]
    own = [np.std(r.d, ddof=1) for r in rates]
    assert np.ptp([without[r.row].sd for r in rates]) < np.ptp(own)


def _pooled(own_df, **references):
    batch = batch_of([_data(np.zeros(own_df + 1))], {ROW: RowReferences(**references)}, {})
    ss, df = pooled_prior(batch.session_ss, batch.session_df, batch.n - 1)
    return float(ss[0]), float(df[0])


def test_pooling_takes_floor_first_then_the_newest_and_at_most_24_degrees():
    floor = Reference(value=0.0, n=10, ss=9.0, df=9, release="1", receipt_sha256="f")
    history = tuple(Spread(ss=2.0 * i, df=2, release=str(i)) for i in range(1, 7))
    assert _pooled(2, floor=floor, history=history) == (9.0 + 2.0 * 21, 21)
    ss, df = _pooled(8, floor=floor, history=history)
    assert df == MAX_DF - 8
    assert ss == pytest.approx(9.0 + 12 + 10 + 8 + 0.5 * 6)  # 9 + 2 + 2 + 2 + half of the fourth newest
    assert _pooled(2) == (0.0, 0.0)
    assert _pooled(24, floor=floor) == (0.0, 0.0)
    assert _pooled(2, history=(Spread(ss=0.0, df=0, release="x"),)) == (0.0, 0.0)


def test_rows_of_unequal_length_share_one_batch():
    batch = batch_of([_data([1, 2, 3]), _data([1, 2, 3, 4, 5], RowId.parse("n/decode"))], {}, {})
    assert batch.d.shape == (2, 5)
    assert np.isnan(batch.d[0, 3:]).all()
    assert batch.n.tolist() == [3, 5]


def test_no_rows_no_bands():
    assert band_table([], {}, POLICY, look=0, m=1) == {}


def test_an_unknown_method_is_refused_by_name():
    with pytest.raises(UsageError, match="gate-v2"):
        band_table([_data([1, 2, 3])], {}, dataclasses.replace(POLICY, method="gate-v2"), look=0, m=1)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_answers_for_every_row(method):
    rng = np.random.default_rng(0)
    rows = [_data(0.03 * rng.standard_normal(3), RowId.parse(f"m{i}/decode")) for i in range(3)]
    references = {row.row: RowReferences(floor=_floor(rng)) for row in rows[:2]}
    table = band_table(rows, references, dataclasses.replace(POLICY, method=method), look=0, m=3)
    assert list(table) == [row.row for row in rows]
    assert table[rows[2].row].call is Call.OPEN  # no floor


@pytest.mark.parametrize(("width", "loss", "red"), [(5, 0.049, False), (5, 0.051, True), (10, 0.099, False)])
def test_the_fixed_band_knows_nothing_of_noise(width, loss, red):
    policy = dataclasses.replace(POLICY, method=f"fixed-band-{width}")
    noisy = _data(np.log1p(-loss) + np.array([-0.5, 0.0, 0.5]))
    references = {ROW: RowReferences(floor=_reference(np.zeros(10) + 0.0))}
    assert (band_table([noisy], references, policy, look=0, m=60)[ROW].call is Call.RED) is red


def test_simulated_releases_have_the_same_calls_as_one_by_one():
    """A leading axis is many releases at once: what power and proof are computed with."""
    rng = np.random.default_rng(5)
    ids = [RowId.parse(f"m{i}/decode") for i in range(4)]
    floors = {row: RowReferences(floor=_floor(rng)) for row in ids}
    d = 0.03 * rng.standard_normal((7, 4, 3)) - 0.05
    one = batch_of([_data(d[0, i], ids[i]) for i in range(4)], floors, {})
    many = METHODS["gate-v1"](dataclasses.replace(one, d=d), POLICY, look=0, m=60)
    for k in range(7):
        single = METHODS["gate-v1"](dataclasses.replace(one, d=d[k]), POLICY, look=0, m=60)
        np.testing.assert_allclose(many.sd[k], single.sd)
        assert (many.red_floor[k] == single.red_floor).all()
        assert (many.passed[k] == single.passed).all()


def test_bands_go_to_json_and_back():
    band = band_table([_data([0.01, 0.0, -0.01])], {}, POLICY, look=0, m=1)[ROW]
    form = json_form(band)
    assert form["row"] == "m/decode"
    assert form["sd"] == float(f"{band.sd:.12g}")
    assert json_form(RowBand.model_validate(form, strict=False)) == form

"""The registry's methods against scipy, by hand, and where they cannot reach their level."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import RowId
from lqw.noise import METHODS, Call, Reference, RowData, RowReferences, band_table
from lqw.noise.boundaries import pass_boundaries, red_boundaries, row_alpha
from lqw.noise.methods import bayes, bca, mann_whitney, permutation
from lqw.plan import Policy

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
ROW = RowId.parse("m/decode")
RNG_SEEDS = range(4)


def _data(d):
    return RowData(ROW, tuple(range(1, len(d) + 1)), tuple(map(float, d)), tuple(np.exp(d)), (1.0,) * len(d))


def _reference(d, receipt="f"):
    ss = float(((d - d.mean()) ** 2).sum())
    return Reference(
        value=float(d.mean()), n=len(d), ss=ss, df=len(d) - 1, release="1.0.0", receipt_sha256=receipt, d=tuple(d)
    )


def _band(method, d, floor, *, look, m=60, last=None, **more):
    policy = dataclasses.replace(POLICY, method=method, **more)
    references = RowReferences(floor=_reference(floor), last=None if last is None else _reference(last, "l"))
    return band_table([_data(d)], {ROW: references}, policy, look=look, m=m)[ROW]


def _samples(seed, n, shift=0.0):
    rng = np.random.default_rng(seed)
    return shift + 0.03 * rng.standard_normal(n), 0.03 * rng.standard_normal(10)


def test_own_t_by_hand():
    d, f = _samples(0, 5, -0.03)
    band = _band("own-t", d, f, look=1)
    se = d.std(ddof=1) * np.sqrt(1 / 5 + 1 / 10)
    c = red_boundaries((3, 5, 7, 9), 10, m=60, alpha=0.01, gamma=-2.0)[1]
    assert (band.nu, band.sd) == (4, pytest.approx(d.std(ddof=1)))
    assert band.se_floor == pytest.approx(se)
    assert band.t_red == pytest.approx(stats.t.isf(stats.norm.sf(c), 4))


@pytest.mark.parametrize(("n", "m"), [(3, 10), (5, 10), (9, 10), (1, 1), (4, 2)])
def test_the_distribution_of_u_is_scipy_s_exact_one(n, m):
    ours = mann_whitney.u_distribution(n, m)
    x = np.arange(n) + 0.5
    for u in range(n * m + 1):
        f = _with_u(x, m, u)
        found = stats.mannwhitneyu(x, f, alternative="less", method="exact")
        assert found.statistic == u
        assert ours[u] == pytest.approx(found.pvalue)


def _with_u(x, m, u):
    """Return m values of which u comparisons with x have x larger."""
    below, rest = divmod(u, len(x))
    f = np.full(m, 1e3) + np.arange(m)
    f[:below] = -1.0 - np.arange(below)
    if rest:
        f[below] = np.sort(x)[-rest] - 0.25
    return f


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_mann_whitney_bounds_are_where_scipy_s_p_value_crosses(seed):
    d, f = _samples(seed, 7)
    (low,), (high,) = mann_whitney.shift_bounds(d[None], f[None], 0.01, 0.002)

    def p(shift, side):
        return stats.mannwhitneyu(d - shift, f, alternative=side, method="exact").pvalue

    assert p(low - 1e-9, "greater") <= 0.01 < p(low + 1e-9, "greater")
    assert p(high + 1e-9, "less") <= 0.002 < p(high - 1e-9, "less")


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_permutation_bounds_are_where_scipy_s_p_value_crosses(seed):
    d, f = _samples(seed, 5)
    (low,), (high,) = permutation.shift_bounds(d[None], f[None], 0.01, 0.002)

    def p(shift, side):
        found = stats.permutation_test(
            (d - shift, f),
            lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
            alternative=side,
            n_resamples=np.inf,
            vectorized=True,
        )
        return found.pvalue

    assert p(low - 1e-7, "greater") <= 0.01 < p(low + 1e-7, "greater")
    assert p(high + 1e-7, "less") <= 0.002 < p(high - 1e-7, "less")


def test_permutation_draws_where_there_are_too_many_choices():
    d, f = _samples(1, 9)
    (low,), (high,) = permutation.shift_bounds(d[None], f[None], 0.05, 0.05)
    differences = []
    rng = np.random.default_rng(0)
    every = list(combinations(range(19), 9))
    for chosen in (every[i] for i in rng.choice(len(every), 4000, replace=False)):
        out, into = sorted(set(range(9)) - set(chosen)), [i - 9 for i in chosen if i >= 9]
        if into:
            differences.append(d[out].mean() - f[into].mean())
    assert (low, high) == (
        pytest.approx(np.quantile(differences, 0.05), abs=0.002),
        pytest.approx(np.quantile(differences, 0.95), abs=0.002),
    )


@pytest.mark.parametrize("method", ["mann-whitney", "permutation"])
def test_rank_and_permutation_tests_cannot_be_red_at_three_pairs(method):
    """The smallest p of 3 against 10 is 1/286, the level of one row among 60 is 0.017 %."""
    _, f = _samples(0, 3)
    assert _band(method, np.array([-0.5, -0.51, -0.52]), f, look=0).call is Call.OPEN
    alone = _band(method, np.array([-0.5, -0.51, -0.52]), f, look=0, m=1, alpha=0.05)
    assert alone.call is Call.RED


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_bca_bounds_are_scipy_s(seed):
    d, f = _samples(seed, 7)
    found = stats.bootstrap(
        (d, f),
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        n_resamples=100_000,
        confidence_level=0.90,
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    low, high = found.confidence_interval
    (ours_low,), (ours_high,) = bca.bounds(d[None], f[None], 0.05, 0.05, 100_000)
    assert (ours_low, ours_high) == (pytest.approx(low, abs=6e-4), pytest.approx(high, abs=6e-4))


def test_bca_of_constant_pairs_is_their_difference():
    (low,), (high,) = bca.bounds(np.full((1, 3), 0.1), np.full((1, 10), 0.3), 0.01, 0.01)
    assert (low, high) == (pytest.approx(-0.2), pytest.approx(-0.2))


def test_bayes_against_the_sum_over_its_model():
    """Likelihood times prior on a grid of mean and variance, without the conjugate formulas."""
    n, floor, ss, prior_ss, prior_df, change = 3.0, 10.0, 0.002, 0.009, 9.0, -0.04
    weight = 1 / (1 / n + 1 / floor)
    theta, s2 = np.linspace(-1, 1, 8001)[:, None], np.geomspace(1e-6, 1, 1200)[None, :]
    log = -0.5 * prior_ss / s2 - (prior_df / 2 + 1) * np.log(s2)  # scaled inverse chi-squared
    log = log - 0.5 * bayes.PRIOR_PAIRS * theta**2 / s2 - 0.5 * np.log(s2)
    log = log - 0.5 * weight * (change - theta) ** 2 / s2 - 0.5 * np.log(s2)
    log = log - 0.5 * ss / s2 - (n - 1) / 2 * np.log(s2)
    mass = (np.exp(log - log.max()) * s2).sum(axis=1)  # d(s2) on a geometric grid
    below = np.cumsum(mass) / mass.sum()
    mean, scale, nu = bayes.posterior(*map(np.float64, (change, n, floor, ss, prior_ss, prior_df)))
    for at in (-0.06, -0.03, -0.01):
        expected = np.interp(at, theta[:, 0] + 0.5 * (theta[1, 0] - theta[0, 0]), below)
        assert stats.t.cdf((at - mean) / scale, nu) == pytest.approx(expected, rel=2e-3)


def test_bayes_calls_by_posterior_probability():
    d, f = _samples(2, 5, -0.06)
    band = _band("bayes", d, f, look=1)
    v, n = 9, 5
    ss = ((d - d.mean()) ** 2).sum()
    fs = ((f - f.mean()) ** 2).sum()
    mean, scale, nu = bayes.posterior(
        *map(np.float64, (d.mean() - f.mean(), n, 10, ss, fs, v)),
    )
    red = stats.t.cdf((np.log(0.99) - mean) / scale, nu) > 1 - row_alpha(0.01, 60)
    assert (band.call is Call.RED) is bool(red)
    assert (band.delta_floor < band.threshold) is bool(red)
    assert band.lower == pytest.approx(mean - stats.t.isf(0.01, nu) * scale)


def test_vs_last_ignores_the_floor_and_has_the_whole_level():
    d, f = _samples(1, 3, -0.30)
    d, f = -0.30 + (d + 0.30) / 3, f / 3
    last = -0.30 + 0.01 * np.random.default_rng(9).standard_normal(5)
    band = _band("vs-last", d, f, look=0, last=last)
    assert band.call is Call.PASS
    assert _band("gate-v1", d, f, look=0, last=last).call is Call.RED
    c = red_boundaries((3, 5, 7, 9), 5, m=60, alpha=0.01, gamma=-2.0)[0]
    b = pass_boundaries((3, 5, 7, 9), 5, gamma=-2.0)[0]
    assert band.t_last == pytest.approx(stats.t.isf(stats.norm.sf(c), band.nu))
    assert band.u_pass == pytest.approx(stats.t.isf(stats.norm.sf(b), band.nu))
    assert _band("vs-last", d, f, look=0).call is Call.RED  # no last release: the floor
    worse = _band("vs-last", d - 0.3, f, look=0, last=last)
    assert (worse.call, worse.red_by) == (Call.RED, "last")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_large_loss_is_never_passed_and_an_equal_row_never_red(method):
    d, f = _samples(5, 9)
    assert _band(method, d - 0.4, f, look=3).call is Call.RED
    assert _band(method, f[:9], f, look=3).call is not Call.RED


@pytest.mark.parametrize("method", ["mann-whitney", "permutation", "bca-bootstrap"])
def test_a_floor_without_its_pairs_leaves_the_row_open(method):
    d, f = _samples(5, 9, -0.4)
    policy = dataclasses.replace(POLICY, method=method)
    references = {ROW: RowReferences(floor=_reference(f).model_copy(update={"d": ()}))}
    assert band_table([_data(d)], references, policy, look=3, m=60)[ROW].call is Call.OPEN


@pytest.mark.parametrize("method", ["mann-whitney", "permutation", "bca-bootstrap"])
def test_a_folded_floor_moves_its_pairs_along(method):
    d, f = _samples(6, 9)
    policy = dataclasses.replace(POLICY, method=method)
    references = {ROW: RowReferences(floor=_reference(f - 0.2))}
    folded = band_table([_data(d)], references, policy, look=3, m=60, folded={ROW: float(f.mean())})[ROW]
    plain = band_table([_data(d)], {ROW: RowReferences(floor=_reference(f))}, policy, look=3, m=60)[ROW]
    assert folded.lower == pytest.approx(plain.lower)
    assert folded.call is plain.call

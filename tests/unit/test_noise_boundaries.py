"""Boundaries against published tables, an exact integral, and simulation."""

import time

import numpy as np
import pytest
from scipy import stats

from lqw.noise import boundaries as module
from lqw.noise.boundaries import (
    boundaries,
    hwang_shih_decani,
    information,
    pass_boundaries,
    red_boundaries,
    row_alpha,
)

LOOKS = (3, 5, 7, 9)


def _lan_demets_obrien_fleming(alpha):
    return lambda t: 2 * stats.norm.sf(stats.norm.isf(alpha / 2) / np.sqrt(t)) / alpha


def test_obrien_fleming_five_looks_as_published():
    found = boundaries(np.arange(1, 6) / 5, _lan_demets_obrien_fleming(0.025), 0.025)
    assert found.round(2).tolist() == [4.88, 3.36, 2.68, 2.29, 2.03]


def test_pocock_type_spending_as_published():
    found = boundaries(np.arange(1, 6) / 5, lambda t: np.log(1 + (np.e - 1) * t), 0.025)
    assert found.round(2).tolist() == [2.44, 2.43, 2.41, 2.40, 2.39]


def test_hwang_shih_decani_three_looks_as_gsdesign_prints_it():
    found = boundaries(np.arange(1, 4) / 3, lambda t: hwang_shih_decani(t, -4.0), 0.025)
    assert found.round(2).tolist() == [3.01, 2.55, 2.00]


def test_the_design_s_boundaries():
    """STATISTICS §3, to the accuracy of its own recursion (see the module)."""
    c = red_boundaries(LOOKS, 10, m=60, alpha=0.01, gamma=-2.0)
    b = pass_boundaries(LOOKS, 10, gamma=-2.0)
    np.testing.assert_allclose(c, (3.928, 3.907, 3.838, 3.778), atol=0.0025)
    np.testing.assert_allclose(b, (2.799, 2.721, 2.607, 2.509), atol=0.0035)
    np.testing.assert_allclose(c, (3.9257, 3.9049, 3.8364, 3.7765), atol=5e-5)
    np.testing.assert_allclose(b, (2.7967, 2.7185, 2.6044, 2.5059), atol=5e-5)


@pytest.mark.parametrize("bounds", [(2.5, 2.3), (1.0, 1.5)])
def test_two_looks_against_the_bivariate_normal(bounds):
    info = np.array([1.0, 2.5])
    cov = np.sqrt([[1, 1 / 2.5], [1 / 2.5, 1]])
    crossed = [stats.norm.sf(bounds[0]), 1 - stats.multivariate_normal(cov=cov).cdf(bounds)]
    share = np.array(crossed) / crossed[1]
    found = boundaries(info, lambda t: np.interp(t, info / 2.5, share), crossed[1])
    np.testing.assert_allclose(found, bounds, atol=1e-5)


def test_simulated_crossing_rates_spend_the_error_as_planned():
    """Running means against one measured floor: the correlation is that of 1/n + 1/n_F."""
    rng = np.random.default_rng(1)
    n_floor, error, runs = 6, 0.05, 200_000
    info = information(np.array(LOOKS, float), n_floor)
    c = boundaries(info, lambda t: hwang_shih_decani(t, -2.0), error)
    d, floor = rng.standard_normal((runs, 9)), rng.standard_normal((runs, n_floor)).mean(axis=1)
    z = np.stack([(d[:, :n].mean(axis=1) - floor) / np.sqrt(1 / n + 1 / n_floor) for n in LOOKS], axis=1)
    spent = np.maximum.accumulate(z >= c, axis=1).mean(axis=0)
    wanted = error * hwang_shih_decani(info / info[-1], -2.0)
    np.testing.assert_allclose(spent, wanted, atol=4 * np.sqrt(error / runs))


def test_spending_starts_at_nothing_ends_at_all_and_is_linear_at_gamma_zero():
    t = np.linspace(0, 1, 5)
    for gamma in (-4.0, -2.0, 0.0, 1.0):
        spent = hwang_shih_decani(t, gamma)
        assert spent[0] == 0
        assert spent[-1] == pytest.approx(1)
        assert (np.diff(spent) > 0).all()
    np.testing.assert_allclose(hwang_shih_decani(t, 0.0), t)
    np.testing.assert_allclose(hwang_shih_decani(t, 1e-9), t, atol=1e-8)


def test_row_level_holds_the_gate_over_independent_rows():
    for m in (1, 8, 60, 1000):
        assert 1 - (1 - row_alpha(0.01, m)) ** m == pytest.approx(0.01)


def test_two_references_share_the_level_so_each_is_stricter():
    one, two = (red_boundaries(LOOKS, 10, m=60, alpha=0.01, gamma=-2.0, references=r) for r in (1, 2))
    assert all(b > a for a, b in zip(one, two, strict=True))


def test_one_look_is_the_plain_quantile():
    (c,) = red_boundaries((7,), 10, m=5, alpha=0.01, gamma=-2.0)
    assert c == pytest.approx(stats.norm.isf(row_alpha(0.01, 5)))


def test_more_nodes_change_nothing(monkeypatch):
    info = information(np.array([3, 4, 5, 6, 7, 8, 9], float), 3)
    found = boundaries(info, lambda t: hwang_shih_decani(t, -2.0), 1e-4)
    monkeypatch.setattr(module, "_NODES", 320)
    np.testing.assert_allclose(boundaries(info, lambda t: hwang_shih_decani(t, -2.0), 1e-4), found, atol=1e-9)


def test_fast_and_cached():
    began = time.perf_counter()
    red_boundaries(LOOKS, 17, m=123, alpha=0.01, gamma=-2.0)
    first = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(1000):
        red_boundaries(LOOKS, 17, m=123, alpha=0.01, gamma=-2.0)
    assert first < 0.5
    assert time.perf_counter() - began < 0.5

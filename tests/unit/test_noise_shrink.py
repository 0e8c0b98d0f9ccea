"""Shrinkage: Smyth's estimator against its definition, its model, and the ends where it must still be defined."""

import numpy as np
import pytest
from scipy import special, stats

from lqw.noise.quantiles import critical_t, norm_isf, norm_sf, t_isf
from lqw.noise.shrink import shrink, trigamma_inverse


def test_trigamma_inverse_inverts():
    y = np.logspace(-9, 9, 400)
    np.testing.assert_allclose(special.polygamma(1, trigamma_inverse(y)), y, rtol=1e-6)


def test_by_hand():
    """limma's fitFDist, written out for four rows."""
    s2, v = np.array([0.5, 1.0, 2.0, 16.0]), np.full(4, 4.0)
    e = np.log(s2) - special.digamma(2.0) + np.log(2.0)
    excess = e.var(ddof=1) - special.polygamma(1, 2.0)
    half = trigamma_inverse(excess)
    s02 = np.exp(e.mean() + special.digamma(half) - np.log(half))
    found = shrink(s2, v, sd_floor=1e-9)
    assert excess > 0
    assert found.d0 == pytest.approx(2 * half)
    assert found.s02 == pytest.approx(s02)
    np.testing.assert_allclose(found.s2, (2 * half * s02 + 4 * s2) / (2 * half + 4))
    np.testing.assert_allclose(found.nu, min(2 * half + 4, 16))


def test_limma_s_own_example_as_its_reference_output_prints_it():
    """The eBayes example of limma's test suite (limma-Tests.Rout.save): five rows, one of them with fewer degrees."""
    sigma = np.array([1.3425032, 0.4647155, 1.1993444, 0.9428569, 0.9421509])
    found = shrink(sigma**2, np.array([6.0, 6, 6, 6, 4]), sd_floor=1e-9)
    assert found.d0 == pytest.approx(9.306153, rel=2e-6)
    assert found.s02 == pytest.approx(0.923179, rel=2e-6)
    np.testing.assert_allclose(found.s2, [1.2677996, 0.6459499, 1.1251558, 0.9097727, 0.9124980], rtol=2e-7)
    np.testing.assert_allclose(found.nu, [15.30615, 15.30615, 15.30615, 15.30615, 13.30615], rtol=1e-6)


def test_recovers_the_prior_it_was_drawn_from():
    rng = np.random.default_rng(0)
    s2 = 0.09 * rng.f(11, 8, size=(400, 60))  # s² ~ s0² F(v, d0)
    found = shrink(s2, np.full(60, 11.0), sd_floor=0.005)
    assert np.median(found.d0) == pytest.approx(8, rel=0.1)
    assert np.median(found.s02) == pytest.approx(0.09, rel=0.03)


def test_equal_variances_are_pooled_whole():
    s2, v = np.array([1.0, 1.1, 0.9]), np.array([5.0, 5.0, 10.0])
    found = shrink(s2, v, sd_floor=0.005)
    assert np.isinf(found.d0)
    np.testing.assert_allclose(found.s2, (5 + 5.5 + 9) / 20)
    np.testing.assert_allclose(found.nu, 20)


def test_a_shrunk_variance_lies_between_its_own_and_the_prior():
    rng = np.random.default_rng(2)
    s2 = np.exp(rng.normal(0, 2, 30))
    found = shrink(s2, np.full(30, 7.0), sd_floor=1e-9)
    assert np.isfinite(found.d0)
    assert ((found.s2 - s2) * (found.s02 - s2) >= 0).all()
    assert (np.argsort(found.s2) == np.argsort(s2)).all()


def test_one_row_keeps_its_own_variance_and_degrees_of_freedom():
    found = shrink(np.array([0.04]), np.array([2.0]), sd_floor=0.005)
    assert (found.s2[0], found.nu[0], float(found.d0)) == (0.04, 2.0, 0.0)


def test_a_row_without_degrees_of_freedom_takes_the_prior_s():
    found = shrink(np.array([1.0, 1.2, 123.0]), np.array([8.0, 8.0, 0.0]), sd_floor=0.005)
    assert found.s2[2] == pytest.approx(float(found.s02))
    assert found.nu[2] <= 16
    alone = shrink(np.array([0.5]), np.array([0.0]), sd_floor=0.005)
    assert np.isnan(alone.s2[0])


def test_constant_rows_end_at_the_floor():
    found = shrink(np.zeros(3), np.full(3, 5.0), sd_floor=0.002)
    np.testing.assert_allclose(np.sqrt(found.s2), 0.002)
    mixed = shrink(np.array([0.0, 1e-4, 2e-4]), np.full(3, 5.0), sd_floor=0.002)
    assert (np.sqrt(mixed.s2) >= 0.002).all()
    assert np.isfinite(mixed.s2).all()


def test_leading_axes_are_independent_families():
    rng = np.random.default_rng(3)
    s2 = np.exp(rng.normal(0, 1, (5, 6)))
    together = shrink(s2, np.full(6, 4.0), sd_floor=0.005)
    for i in range(5):
        alone = shrink(s2[i], np.full(6, 4.0), sd_floor=0.005)
        np.testing.assert_allclose(together.s2[i], alone.s2)
        np.testing.assert_allclose(together.nu[i], alone.nu)


def test_quantiles_are_scipy_s():
    z = np.linspace(-2, 7, 200)
    nu = np.array([0.7, 1.5, 2, 7.3, 24, 1e3, np.inf])[:, None]
    np.testing.assert_allclose(critical_t(z, nu), stats.t.isf(stats.norm.sf(z), nu), rtol=1e-9)
    np.testing.assert_allclose(norm_sf(z), stats.norm.sf(z), rtol=1e-12)
    q = np.logspace(-12, -0.5, 50)
    np.testing.assert_allclose(norm_isf(q), stats.norm.isf(q), rtol=1e-10)
    np.testing.assert_allclose(t_isf(q, 5.0), stats.t.isf(q, 5.0), rtol=1e-9)

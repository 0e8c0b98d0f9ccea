"""Our tails, quantiles and gamma derivatives against scipy's, one by one and as arrays on both sides of the switch."""

import math

import numpy as np
import pytest
from scipy import special as scipy

from lqw.noise import quantiles, special

RNG = np.random.default_rng(4)
TAILS = 10 ** RNG.uniform(-12, math.log10(0.5), 400)
NU = 10 ** RNG.uniform(0, 4, 400)
X = 10 ** RNG.uniform(-2, 8, 400)
CLOSE = {"rtol": 5e-13, "atol": 1e-14}


def test_student_s_quantiles():
    np.testing.assert_allclose([*map(special.t_isf, TAILS, NU)], -scipy.stdtrit(NU, TAILS), **CLOSE)
    back = [special.t_isf(q, nu) for q, nu in ((1e-90, 3.0), (0.9, 3.0), (0.5, 3.0), (1e-4, math.inf))]
    np.testing.assert_allclose(
        back, [*(-scipy.stdtrit(3.0, [1e-90, 0.9, 0.5])), -scipy.ndtri(1e-4)], rtol=1e-11, atol=1e-14
    )
    assert special.t_isf(0.005, 1e-9) == math.inf
    assert math.isnan(special.t_isf(math.nan, 3.0))
    assert math.isnan(special.t_isf(0.1, math.nan))


def test_the_normal_s():
    z = np.linspace(-8, 12, 300)
    np.testing.assert_allclose([*map(special.norm_sf, z)], scipy.ndtr(-z), **CLOSE)
    q = np.concatenate([TAILS, 1 - TAILS])
    np.testing.assert_allclose([*map(special.norm_isf, q)], -scipy.ndtri(q), rtol=1e-12, atol=1e-14)
    assert (special.norm_isf(0.0), special.norm_isf(1.0)) == (math.inf, -math.inf)
    assert all(math.isnan(special.norm_isf(q)) for q in (-0.1, 1.5, math.nan))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("digamma", scipy.digamma),
        ("trigamma", lambda x: scipy.polygamma(1, x)),
        ("tetragamma", lambda x: scipy.polygamma(2, x)),
    ],
)
def test_derivatives_of_ln_gamma(ours, theirs):
    np.testing.assert_allclose([*map(getattr(special, ours), X)], theirs(X), **CLOSE)


@pytest.mark.parametrize("name", ["norm_sf", "norm_isf", "digamma", "trigamma", "tetragamma"])
def test_many_are_as_few(name):
    few = np.linspace(0.05, 0.95, quantiles.FEW)
    many = np.concatenate([few, [0.5]]).reshape(-1, 7)
    np.testing.assert_allclose(getattr(quantiles, name)(many).ravel()[:-1], getattr(quantiles, name)(few), **CLOSE)


def test_many_quantiles_of_student_s_are_as_few():
    nu = np.array([2.0, 5.5, np.inf])
    few = quantiles.t_isf(TAILS[:300, None], nu)
    many = quantiles.t_isf(TAILS[:400, None], nu)
    assert few.shape == (300, 3)
    assert many.size > quantiles.FEW >= few.size
    np.testing.assert_allclose(many[:300], few, **CLOSE)

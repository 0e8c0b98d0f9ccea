"""Tails, quantiles and gamma derivatives of one number, by the standard library alone.

A receipt must be verified within a second, and importing ``scipy.special`` takes most of one; a verdict needs these
functions at some dozens of points. The tests hold them to scipy's within 1e-12 (relative). Arrays that would take
longer than that import go to scipy (:mod:`lqw.noise.quantiles`).

Sources: Abramowitz & Stegun 26.7.1 (Student's t by the incomplete beta function), 6.3.5 and 6.3.18, 6.4.6 and 6.4.12–14
(digamma and its derivatives: recurrence up to 16, then the asymptotic series); DLMF 8.17.22 (continued fraction of the
incomplete beta function) by Lentz's method.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["digamma", "norm_isf", "norm_sf", "t_isf", "tetragamma", "trigamma"]

_EPSILON = 1e-16
_TINY = 1e-300
_MOST = 20_000  # terms of the continued fraction; some √ν of them suffice
_STEPS = 100
_ASYMPTOTIC = 16.0
_ROOT_TAU = math.sqrt(2 * math.pi)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B_2, B_4, …


def norm_sf(z: float) -> float:
    """Return P(Z > z)."""
    return 0.5 * math.erfc(z / math.sqrt(2))


@lru_cache(maxsize=4096)
def norm_isf(q: float) -> float:
    """Return the z with P(Z > z) = q; NaN outside of [0, 1]."""
    if q > 0.5:  # noqa: PLR2004 - the upper half by symmetry
        return -norm_isf(1 - q)
    if not q > 0:
        return math.inf if q == 0 else math.nan

    def step(z: float) -> float:
        tail = norm_sf(z)
        return math.log(tail / q) * tail * _ROOT_TAU * math.exp(z * z / 2)

    return _from_the_right(math.sqrt(-2 * math.log(q)), step)


@lru_cache(maxsize=4096)
def t_isf(q: float, nu: float) -> float:
    """Return the t with P(T_ν > t) = q, for q from 1e-100 and ν above 0; ν may be infinite."""
    if math.isinf(nu):
        return norm_isf(q)
    if q > 0.5:  # noqa: PLR2004 - the upper half by symmetry
        return -t_isf(1 - q, nu)
    if not (q > 0 and nu > 0) or q == 0.5:  # noqa: PLR2004 - the median
        return math.inf if q == 0 and nu > 0 else 0.0 if q == 0.5 and nu > 0 else math.nan  # noqa: PLR2004

    # In ln t the logarithm of the tail is concave and falls: Newton's steps come from the right and never leave it.
    def step(log_t: float) -> float:
        t = math.exp(log_t)
        tail = _t_sf(t, nu)
        return math.log(tail / q) * tail / (t * _t_density(t, nu))

    try:
        return math.exp(_from_the_right(math.log(max(norm_isf(q), 1e-3)), step))
    except OverflowError:  # a tail so heavy that no double lies that far out
        return math.inf


def _from_the_right(start: float, step: Callable[[float], float]) -> float:
    x = start
    for _ in range(_STEPS):
        move = step(x)
        x += move
        if abs(move) <= 1e-15 * max(abs(x), 1e-3):
            break
    return x


def _log_half_step(a: float) -> float:
    """Return ln Γ(a + ½) − ln Γ(a); from 16 on by its series, since the difference would lose digits."""
    if a < _ASYMPTOTIC:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    terms = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432)  # of a^−1, a^−3, … (DLMF 5.11.8)
    return 0.5 * math.log(a) + math.fsum(term / a ** (2 * k + 1) for k, term in enumerate(terms))


def _t_density(t: float, nu: float) -> float:
    log = _log_half_step(nu / 2) - 0.5 * math.log(nu * math.pi)
    return math.exp(log - (nu + 1) / 2 * math.log1p(t * t / nu))


def _t_sf(t: float, nu: float) -> float:
    """Return P(T_ν > t) for t > 0: half of I_x(ν/2, 1/2) at x = ν/(ν + t²)."""
    a, b = nu / 2, 0.5
    x, y = nu / (nu + t * t), t * t / (nu + t * t)
    front = math.exp(_log_half_step(a) - 0.5 * math.log(math.pi) - a * math.log1p(t * t / nu) + b * math.log(y))
    if x < (a + 1) / (a + b + 2):
        return 0.5 * front * _beta_fraction(a, b, x) / a
    return 0.5 * (1 - front * _beta_fraction(b, a, y) / b)


def _beta_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _off_zero(1 + top * d)
            c = _off_zero(1 + top / c)
            value *= c * d
        if abs(c * d - 1) <= 2 * _EPSILON:
            break
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@lru_cache(maxsize=4096)
def digamma(x: float) -> float:
    """Return ψ(x) for x > 0."""
    shift = 0.0
    while x < _ASYMPTOTIC:
        shift += 1 / x
        x += 1
    series = math.fsum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, start=1))
    return math.log(x) - 1 / (2 * x) - series - shift


@lru_cache(maxsize=4096)
def trigamma(x: float) -> float:
    """Return ψ'(x) for x > 0."""
    shift = 0.0
    while x < _ASYMPTOTIC:
        shift += 1 / (x * x)
        x += 1
    series = math.fsum(b / x ** (2 * k + 1) for k, b in enumerate(_BERNOULLI, start=1))
    return 1 / x + 1 / (2 * x * x) + series + shift


def tetragamma(x: float) -> float:
    """Return ψ''(x) for x > 0."""
    shift = 0.0
    while x < _ASYMPTOTIC:
        shift += 2 / x**3
        x += 1
    series = math.fsum((2 * k + 1) * b / x ** (2 * k + 2) for k, b in enumerate(_BERNOULLI, start=1))
    return -(1 / x**2 + 1 / x**3 + series + shift)

"""Sequential boundaries by error spending, for any looks, any number of rows and any reference batch.

The statistic of a row at look k is ``Z_k = (D_k − F) / sqrt(1/n_k + 1/n_F)`` in units of σ. ``D_k`` is a running mean
and ``F`` the same number at every look, so ``cov(D_j − F, D_k − F) = 1/max(n_j, n_k) + 1/n_F``: the canonical joint
distribution of group-sequential theory with information ``I_k = 1 / (1/n_k + 1/n_F)`` (Jennison & Turnbull 2000,
chapter 3). A floor that was itself measured makes looks more alike than n_k alone would.

Boundaries follow from the spending function of Hwang, Shih & DeCani (1990),
``α(t) = α (1 − e^{−γt}) / (1 − e^{−γ})`` at ``t_k = I_k / I_K``, by the recursion of Armitage, McPherson & Rowe (1969)
on Gauss–Legendre nodes, exact to better than 1e-9 with σ known; a method maps them to Student's t by
``t_k = t.isf(norm.sf(c_k), ν)``.

For m = 60, n_F = 10 and looks 3-5-7-9 this gives c = (3.926, 3.905, 3.836, 3.777) and
b = (2.797, 2.718, 2.604, 2.506). STATISTICS §3 prints c = (3.928, 3.907, 3.838, 3.778) and
b = (2.799, 2.721, 2.607, 2.509): the same convention (the whole row level α_row for one reference, β = 1 %, information
with n_F) under a coarser recursion. The rectangle rule on a Z grid of step 0.00375 gives all eight printed numbers to
within 0.001; the first boundary needs no recursion and is norm.isf(α_row·α(t_1)/α) = 3.926 exactly. The printed ones
are wider by 0.002, which spends 0.8 % less of α.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.quantiles import norm_isf, norm_sf

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BETA", "boundaries", "hwang_shih_decani", "information", "pass_boundaries", "red_boundaries", "row_alpha"]

Floats = NDArray[np.float64]

BETA = 0.01
"""Chance, per row, that a loss of exactly the margin passes in silence."""

_NODES = 160  # twice as many change no boundary by 1e-9
_REACH = 8.0  # standard deviations: what lies beyond is 6e-16
_STEPS = 50  # of Newton's method; ten suffice
_FAR = 40.0  # no double tells a tail beyond it from none


@lru_cache(maxsize=64)
def row_alpha(alpha: float, m: int) -> float:
    """Return the level of one row that holds a gate of *m* independent rows at *alpha*: ``1 − (1−α)^{1/m}``."""
    return float(-np.expm1(np.log1p(-alpha) / m))


def information(n: Floats, n_reference: float) -> Floats:
    """Return ``1 / (1/n + 1/n_F)`` per look, in units of 1/σ²."""
    return np.asarray(1.0 / (1.0 / np.asarray(n, dtype=float) + 1.0 / n_reference), dtype=float)


def hwang_shih_decani(t: Floats, gamma: float) -> Floats:
    """Return the share of the error spent at information fraction *t* in [0, 1]; γ < 0 spends late."""
    if gamma == 0:
        return np.asarray(t, dtype=float)
    return np.asarray(np.expm1(-gamma * np.asarray(t)) / np.expm1(-gamma), dtype=float)


def boundaries(info: Floats, spend: Callable[[Floats], Floats], error: float) -> Floats:
    """Return one-sided upper boundaries on the Z scale.

    Parameters
    ----------
    info : float array, shape (looks,)
        Information, strictly rising; only ratios matter.
    spend : callable
        Cumulative share of *error* spent at information fractions.
    error : float
        Chance of ever crossing, under the null.

    Returns
    -------
    float array, shape (looks,)
        ``P(Z_j < c_j for j < k, Z_k ≥ c_k)`` equals the k-th increment of the spending.
    """
    steps = np.diff(np.concatenate(([0.0], error * spend(info / info[-1]))))
    out = np.empty(len(info))
    grid, density = np.zeros(1), np.ones(1)  # of the score S = Z·sqrt(I), weights included: starts at 0
    before = 0.0
    for k, now in enumerate(info):
        scale = np.sqrt(now - before)
        out[k] = _solve(grid, density, float(scale), float(np.sqrt(now)), float(steps[k]))
        grid, density = _continue(grid, density, float(scale), float(np.sqrt(now)), out[k])
        before = now
    return out


def _solve(grid: Floats, density: Floats, scale: float, root: float, step: float) -> float:
    """Return the bound whose crossing chance is *step*.

    Newton's method on the logarithm of the chance, which is concave and falls, from the right of the bound: crossing
    here for the first time is rarer than being here at all, so the bound lies below ``norm.isf(step)``.
    """
    if step <= 0:
        return _FAR
    bound = float(norm_isf(step))
    for _ in range(_STEPS):
        z = (bound * root - grid) / scale
        chance = float(density @ norm_sf(z))
        slope = float(density @ np.exp(-0.5 * z**2)) * root / (scale * np.sqrt(2 * np.pi))
        if chance <= 0 or slope <= 0:
            break
        move = np.log(chance / step) * chance / slope
        bound += float(move)
        if abs(move) < 1e-14:  # noqa: PLR2004 - some hundred times below what a judgement records
            break
    return bound


def _continue(grid: Floats, density: Floats, scale: float, root: float, bound: float) -> tuple[Floats, Floats]:
    low, high = -_REACH * root, bound * root
    unit, weights = _gauss_legendre(_NODES)
    nodes = (high - low) / 2 * unit + (high + low) / 2
    kernel = np.exp(-0.5 * ((nodes[:, None] - grid[None, :]) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
    return nodes, (kernel @ density) * weights * (high - low) / 2


@lru_cache(maxsize=4)
def _gauss_legendre(nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights on [−1, 1], by Newton's method from Tricomi's approximation.

    ``numpy.polynomial`` finds the nodes as eigenvalues; that took longer than all the boundaries of a receipt.
    """
    k = np.arange(nodes, 0, -1)
    x = (1 - 1 / (8 * nodes**2) + 1 / (8 * nodes**3)) * np.cos(np.pi * (4 * k - 1) / (4 * nodes + 2))
    for _ in range(5):  # it doubles its digits at each step
        before, now = np.ones_like(x), x
        for degree in range(2, nodes + 1):
            before, now = now, ((2 * degree - 1) * x * now - (degree - 1) * before) / degree
        slope = nodes * (before - x * now) / (1 - x**2)
        x = x - now / slope
    return np.asarray(x), np.asarray(2 / ((1 - x**2) * slope**2))


@lru_cache(maxsize=512)
def _cached(looks: tuple[int, ...], n_reference: int, gamma: float, error: float) -> tuple[float, ...]:
    info = information(np.array(looks, dtype=float), float(n_reference))
    return tuple(boundaries(info, lambda t: hwang_shih_decani(t, gamma), error).tolist())


def red_boundaries(
    looks: tuple[int, ...], n_reference: int, *, m: int, alpha: float, gamma: float, references: int = 1
) -> tuple[float, ...]:
    """Return c_k: a row is RED at look k when ``F − D`` exceeds ``c_k`` standard errors.

    *references* shares the row's level: with a floor and a distinct last release each gets half (STATISTICS §3).
    """
    return _cached(looks, n_reference, gamma, row_alpha(alpha, m) / references)


def pass_boundaries(looks: tuple[int, ...], n_reference: int, *, gamma: float) -> tuple[float, ...]:
    """Return b_k: a row passes at look k when ``D − F − b_k·se`` lies above the margin."""
    return _cached(looks, n_reference, gamma, BETA)

"""Sequential boundaries by error spending, for any looks, any number of rows and any reference batch.

The statistic of a row at look k is ``Z_k = (D_k − F) / sqrt(1/n_k + 1/n_F)`` in units of σ. ``D_k`` is a running mean
and ``F`` the same number at every look, so ``cov(D_j − F, D_k − F) = 1/max(n_j, n_k) + 1/n_F``: the canonical joint
distribution of group-sequential theory with information ``I_k = 1 / (1/n_k + 1/n_F)`` (Jennison & Turnbull 2000,
chapter 3). A floor that was itself measured makes looks more alike than n_k alone would.

Boundaries follow from the spending function of Hwang, Shih & DeCani (1990),
``α(t) = α (1 − e^{−γt}) / (1 − e^{−γ})`` at ``t_k = I_k / I_K``, by the recursion of Armitage, McPherson & Rowe (1969)
on Gauss–Legendre nodes, exact to better than 1e-9 with σ known; a method maps them to Student's t by
``t_k = t.isf(norm.sf(c_k), ν)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BETA", "boundaries", "hwang_shih_decani", "information", "pass_boundaries", "red_boundaries", "row_alpha"]

Floats = NDArray[np.float64]

BETA = 0.01
"""Chance, per row, that a loss of exactly the margin passes in silence."""

_NODES = 301
_REACH = 9.0  # standard deviations: what lies beyond is 1e-19
_X, _W = np.polynomial.legendre.leggauss(_NODES)


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
    def excess(c: float) -> float:
        return float(density @ stats.norm.sf((c * root - grid) / scale)) - step

    return float(optimize.brentq(excess, -_REACH, 40.0, xtol=1e-12, rtol=1e-14))


def _continue(grid: Floats, density: Floats, scale: float, root: float, bound: float) -> tuple[Floats, Floats]:
    low, high = -_REACH * root, bound * root
    nodes = (high - low) / 2 * _X + (high + low) / 2
    kernel = np.exp(-0.5 * ((nodes[:, None] - grid[None, :]) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
    return nodes, (kernel @ density) * _W * (high - low) / 2


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

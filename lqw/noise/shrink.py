"""Empirical-Bayes shrinkage of row variances towards their family (Smyth 2004, section 6.2).

Three pairs know little of their own variance; the other rows of the family know its usual size. The prior
``s_r² ~ s0²·F(v, d0)`` is fitted by the moments of ``ln s²``; each variance is pulled towards ``s0²`` with weight d0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lqw.noise import quantiles, special
from lqw.noise.quantiles import digamma, trigamma

__all__ = ["Shrunk", "shrink", "trigamma_inverse"]

Floats = NDArray[np.float64]

_HUGE, _TINY = 1e7, 1e-6


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Shrunk variances of one family; leading axes are independent families.

    Attributes
    ----------
    s2 : float array, shape (..., rows)
        ``s̃² = (d0·s0² + v·s²) / (d0 + v)``, at least the floor.
    nu : float array, shape (..., rows)
        ``min(d0 + v, Σv)``.
    d0, s02 : float arrays, shape (...)
        The fitted prior; d0 = 0 where none can be fitted, ∞ where the rows show no difference.
    """

    s2: Floats
    nu: Floats
    d0: Floats
    s02: Floats


def trigamma_inverse(y: Floats) -> Floats:
    """Solve ``ψ'(x) = y`` for y > 0 by Newton's method on 1/ψ' (Smyth 2004, appendix); converges from one side."""
    y = np.asarray(y, dtype=float)
    # Beyond these ends the iteration loses digits and the asymptotic forms are exact to double precision.
    inside = np.clip(y, _TINY, _HUGE)
    x = _newton(float(inside), special) if y.ndim == 0 else _newton(inside, quantiles)
    return np.asarray(np.where(y > _HUGE, 1.0 / np.sqrt(y), np.where(y < _TINY, 1.0 / y, x)), dtype=float)


def _newton(y: Any, gammas: Any) -> Any:
    """Iterate for one number with functions of one number, or for an array with those of arrays."""
    x = 0.5 + 1.0 / y
    for _ in range(50):
        tri = gammas.trigamma(x)
        step = tri * (1.0 - tri / y) / gammas.tetragamma(x)
        x += step
        if np.all(np.abs(step) <= 1e-12 * x):
            break
    return x


def shrink(s2: Floats, v: Floats, *, sd_floor: float) -> Shrunk:
    """Shrink the variances of one family.

    Parameters
    ----------
    s2 : float array, shape (..., rows)
        Pooled within-session variances.
    v : float array, shape (..., rows) or (rows,)
        Their degrees of freedom; a row with v = 0 has no variance of its own and takes the prior's.
    sd_floor : float
        Smallest standard deviation that is believed (STATISTICS §2).

    Notes
    -----
    One row alone has no family: d0 = 0, so its own variance stands with its own degrees of freedom. Variances below
    the floor count as the floor when the prior is fitted, so that a constant memory row does not make ``ln s²`` −∞.
    """
    s2, v = np.asarray(s2, dtype=float), np.asarray(v, dtype=float)
    if s2.shape != v.shape:
        s2, v = np.broadcast_arrays(s2, v)
    known = v > 0
    all_known = bool(known.all())

    def where_known(value: Floats, other: float) -> Floats:
        return value if all_known else np.where(known, value, other)

    count = known.sum(axis=-1)
    half = where_known(v, 2.0) / 2
    e = np.log(np.maximum(where_known(s2, 1.0), sd_floor**2)) - digamma(half) + np.log(half)
    e = where_known(e, 0.0)
    few = np.maximum(count, 1)
    mean = e.sum(axis=-1) / few
    spread = where_known((e - mean[..., None]) ** 2, 0.0).sum(axis=-1) / np.maximum(count - 1, 1)
    excess = spread - where_known(trigamma(half), 0.0).sum(axis=-1) / few

    total = where_known(v, 0.0).sum(axis=-1)
    pooled = where_known(v * s2, 0.0).sum(axis=-1) / np.maximum(total, 1.0)
    finite = excess > 0
    half_d0 = trigamma_inverse(np.where(finite, excess, 1.0))
    d0 = np.where(finite, 2 * half_d0, np.inf)
    s02 = np.where(finite, np.exp(mean + digamma(half_d0) - np.log(half_d0)), pooled)
    d0 = np.where(count >= 2, d0, 0.0)  # noqa: PLR2004 - two rows are the fewest that can differ
    return _combine(s2, v, d0, s02, total, sd_floor=sd_floor)


def _combine(s2: Floats, v: Floats, d0: Floats, s02: Floats, total: Floats, *, sd_floor: float) -> Shrunk:
    weight = d0[..., None]
    prior = np.where(np.isinf(weight), 0.0, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed = (prior * s02[..., None] + v * s2) / (prior + v)
    out = np.where(np.isinf(weight), s02[..., None], np.where(prior + v > 0, mixed, np.nan))
    nu = np.minimum(weight + v, total[..., None])
    return Shrunk(np.maximum(out, sd_floor**2), nu, d0, s02)

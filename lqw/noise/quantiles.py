"""Tails and quantiles of the normal and Student's distributions, vectorised.

They are ``scipy.stats.norm`` and ``scipy.stats.t`` on the special functions below those (the tests hold them equal):
importing ``scipy.stats`` costs most of the second in which a receipt must be verified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

__all__ = ["critical_t", "norm_isf", "norm_sf", "t_isf"]

Floats = NDArray[np.float64]


def norm_sf(z: ArrayLike) -> Floats:
    """Return P(Z > z)."""
    return np.asarray(special.ndtr(-np.asarray(z, dtype=float)), dtype=float)


def norm_isf(q: ArrayLike) -> Floats:
    """Return the z with P(Z > z) = q."""
    return np.asarray(-special.ndtri(np.asarray(q, dtype=float)), dtype=float)


def t_isf(q: ArrayLike, nu: ArrayLike) -> Floats:
    """Return the t with P(T_ν > t) = q; ν may be infinite."""
    nu = np.asarray(nu, dtype=float)
    finite = -special.stdtrit(np.where(np.isinf(nu), 1.0, nu), np.asarray(q, dtype=float))
    return np.asarray(np.where(np.isinf(nu), norm_isf(q), finite), dtype=float)


def critical_t(z: ArrayLike, nu: ArrayLike) -> Floats:
    """Return Student's t with the same upper tail as the normal *z*: ``t.isf(norm.sf(z), ν)`` (STATISTICS §3)."""
    return t_isf(norm_sf(z), nu)

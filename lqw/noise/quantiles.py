"""Tails and quantiles of the normal and Student's distributions, and derivatives of ln Γ, vectorised.

They are ``scipy.stats.norm``, ``scipy.stats.t`` and ``scipy.special`` (the tests hold them equal), but scipy is only
imported where there are many numbers to do: that import costs more than judging a whole receipt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lqw.noise import special

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FEW", "critical_t", "digamma", "norm_isf", "norm_sf", "t_isf", "tetragamma", "trigamma"]

Floats = NDArray[np.float64]

FEW = 1_000
"""Up to so many numbers :mod:`lqw.noise.special` is used, one by one; beyond, scipy."""


def norm_sf(z: ArrayLike) -> Floats:
    """Return P(Z > z)."""
    return _each(special.norm_sf, lambda scipy, z: scipy.ndtr(-z), z)


def norm_isf(q: ArrayLike) -> Floats:
    """Return the z with P(Z > z) = q."""
    return _each(special.norm_isf, lambda scipy, q: -scipy.ndtri(q), q)


def t_isf(q: ArrayLike, nu: ArrayLike) -> Floats:
    """Return the t with P(T_ν > t) = q; ν may be infinite."""

    def many(scipy: Any, q: Floats, nu: Floats) -> Floats:
        finite = -scipy.stdtrit(np.where(np.isinf(nu), 1.0, nu), q)
        return np.asarray(np.where(np.isinf(nu), -scipy.ndtri(q), finite), dtype=float)

    return _each(special.t_isf, many, q, nu)


def critical_t(z: ArrayLike, nu: ArrayLike) -> Floats:
    """Return Student's t with the same upper tail as the normal *z*: ``t.isf(norm.sf(z), ν)`` (STATISTICS §3)."""
    return t_isf(norm_sf(z), nu)


def digamma(x: ArrayLike) -> Floats:
    """Return ψ(x) for x > 0."""
    return _each(special.digamma, lambda scipy, x: scipy.digamma(x), x)


def trigamma(x: ArrayLike) -> Floats:
    """Return ψ'(x) for x > 0."""
    return _each(special.trigamma, lambda scipy, x: scipy.polygamma(1, x), x)


def tetragamma(x: ArrayLike) -> Floats:
    """Return ψ''(x) for x > 0."""
    return _each(special.tetragamma, lambda scipy, x: scipy.polygamma(2, x), x)


def _each(one: Callable[..., float], many: Callable[..., Any], *arguments: ArrayLike) -> Floats:
    """Apply *one* to every number of the broadcast arguments, or *many* to the arrays where there are many."""
    arrays = [np.asarray(argument, dtype=float) for argument in arguments]
    if len(arrays) > 1:
        arrays = list(np.broadcast_arrays(*arrays))
    if arrays[0].size > FEW:
        from scipy import special as scipy  # noqa: PLC0415 - see above

        return np.asarray(many(scipy, *arrays), dtype=float)
    flat = map(one, *(array.ravel().tolist() for array in arrays))
    return np.fromiter(flat, float, arrays[0].size).reshape(arrays[0].shape)

"""Mann–Whitney: bounds of the shift between the run's pairs and the reference's by the rank-sum test.

The bounds are order statistics of the pairwise differences ``d_i − f_j`` (Hodges & Lehmann 1963; Bauer 1972), at ranks
given by the exact null distribution of U (Mann & Whitney 1947). With three pairs against ten the smallest p is
1/286 = 0.35 %: the level of one row among 60, 0.017 %, cannot be reached at all (STATISTICS §2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.bounds import by_bounds

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["decide", "shift_bounds", "u_distribution"]

Floats = NDArray[np.float64]


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row by its ranks; see :data:`lqw.noise.methods.Method`."""
    return by_bounds(batch, policy, shift_bounds, look=look, m=m)


@lru_cache(maxsize=64)
def u_distribution(n: int, m: int) -> tuple[float, ...]:
    """Return P(U ≤ u) for u = 0 … nm without ties: coefficients of the Gaussian binomial (n + m choose n)_q."""
    counts = np.zeros(n * m + 1)
    counts[0] = 1.0
    for i in range(1, n + 1):  # times (1 − q^{m+i}) / (1 − q^i), cut at degree nm
        top = counts.copy()
        top[m + i :] -= counts[: len(counts) - (m + i)] if m + i <= n * m else counts[:0]
        for start in range(i):
            top[start::i] = np.cumsum(top[start::i])
        counts = top
    return tuple(np.cumsum(counts) / counts.sum())


def shift_bounds(d: Floats, f: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
    """Return bounds of the shift; see :class:`lqw.noise.bounds.Bounds`."""
    differences = np.sort((d[:, :, None] - f[:, None, :]).reshape(len(d), -1), axis=-1)
    below = np.array(u_distribution(d.shape[1], f.shape[1]))
    infinite = np.full(len(d), np.inf)
    c_low, c_high = (int(np.sum(below <= level)) for level in (lower, upper))  # P(U ≤ c − 1) ≤ level
    low = differences[:, c_low - 1] if c_low else -infinite
    high = differences[:, -c_high] if c_high else infinite
    return low, high

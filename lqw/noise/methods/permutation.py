"""Permutation: bounds of the shift by exchanging pairs between the run and its reference.

If the shift were Δ, the n values ``d − Δ`` and the n_F values ``f`` would be one sample, and every choice of n of them
equally likely. Exchanging the sets a ⊂ d and b ⊂ f of equal size lowers the difference of means exactly when
``mean(a) − mean(b) > Δ``, so the bounds are order statistics of these swap differences over all choices (Tritchler
1984). Beyond 20,000 choices, 19,999 drawn ones stand for them, and the p-value counts the data itself as one (Davison &
Hinkley 1997, section 4.2.5).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.bounds import by_bounds

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["MOST_CHOICES", "decide", "shift_bounds"]

Floats = NDArray[np.float64]

MOST_CHOICES = 20_000
CHUNK = 4_000_000  # swap differences at once: 32 MB
SEED = 1984


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row by exchanges of its pairs; see :data:`lqw.noise.methods.Method`."""
    return by_bounds(batch, policy, shift_bounds, look=look, m=m)


@lru_cache(maxsize=16)
def _swaps(n: int, m: int) -> Floats:
    """Return weights, shape (n + m, swaps): a column times (d, f) is mean(a) − mean(b) of one exchange."""
    size = n + m
    if comb(size, n) <= MOST_CHOICES:
        chosen = np.array(list(combinations(range(size), n)))[1:]  # the first is the data itself
    else:
        rng = np.random.default_rng(SEED)
        drawn = rng.random((MOST_CHOICES - 1, size)).argsort(axis=1)[:, :n]
        chosen = drawn[(drawn >= n).any(axis=1)]
    kept = np.zeros((len(chosen), size), dtype=bool)
    kept[np.arange(len(chosen))[:, None], chosen] = True
    out, into = ~kept[:, :n], kept[:, n:]
    return np.asarray((np.concatenate([out, -1.0 * into], axis=1) / out.sum(axis=1, keepdims=True)).T)


def shift_bounds(d: Floats, f: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
    """Return bounds of the shift; see :class:`lqw.noise.bounds.Bounds`."""
    swaps = _swaps(d.shape[1], f.shape[1])
    choices = swaps.shape[1] + 1
    ranks = [int(np.floor(level * choices * (1 + 1e-12))) for level in (lower, upper)]  # of the data, at most
    both = np.concatenate([d, f], axis=1)
    low, high = np.full(len(d), -np.inf), np.full(len(d), np.inf)
    step = max(CHUNK // choices, 1)
    for at in range(0, len(d) if any(ranks) else 0, step):
        rows = slice(at, at + step)
        kth = sorted({c for c in (ranks[0] - 1, choices - 1 - ranks[1]) if 0 <= c < choices - 1})
        differences = np.partition(both[rows] @ swaps, kth, axis=-1)
        if ranks[0]:
            low[rows] = differences[:, ranks[0] - 1]
        if ranks[1]:
            high[rows] = differences[:, choices - 1 - ranks[1]]
    return low, high

"""The error each row may spend at a look, as arrays: the boundaries of every row by its references.

All sequential methods of the registry share them, so that a comparison of methods compares tests, not levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.boundaries import pass_boundaries, red_boundaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.noise.batch import Batch
    from lqw.plan import Policy

__all__ = ["Levels", "levels_at"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """Boundaries on the Z scale, shape (..., rows); NaN where the reference is absent."""

    red_floor: Floats
    red_last: Floats
    passing: Floats


def levels_at(batch: Batch, policy: Policy, *, look: int, m: int) -> Levels:
    """Return the boundaries of a look; a row with two references spends half its level on each (STATISTICS §3)."""
    two = ~np.isnan(batch.n_last)

    def red(n_reference: Floats) -> Floats:
        def at(references: int) -> Floats:
            def value(n: int) -> float:
                c = red_boundaries(policy.looks, n, m=m, alpha=policy.alpha, gamma=policy.gamma, references=references)
                return c[look]

            return _per_reference(n_reference, value)

        return np.where(two, at(2), at(1))

    passing = _per_reference(batch.n_floor, lambda n: pass_boundaries(policy.looks, n, gamma=policy.gamma)[look])
    return Levels(red(batch.n_floor), red(batch.n_last), passing)


def _per_reference(n_reference: Floats, value: Callable[[int], float]) -> Floats:
    out = np.full(n_reference.shape, np.nan)
    for n in sorted(set(n_reference[~np.isnan(n_reference)].tolist())):
        out[n_reference == n] = value(int(n))
    return out

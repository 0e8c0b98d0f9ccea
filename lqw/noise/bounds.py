"""Methods that need the reference's own pairs: one-sided bounds for a shift between two samples, and calls by them.

RED where the upper bound of ``D − R`` lies below zero and the loss exceeds δ; PASS where the lower bound lies above the
margin. The levels are those of the sequential boundaries, ``norm.sf(c_k)`` and ``norm.sf(b_k)``. A reference whose
pairs are not known bounds nothing: the row stays open.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Bands, effect_floor
from lqw.noise.levels import levels_at
from lqw.noise.quantiles import norm_sf

if TYPE_CHECKING:
    from lqw.noise.batch import Batch
    from lqw.plan import Policy

__all__ = ["Bounds", "by_bounds"]

Floats = NDArray[np.float64]


class Bounds(Protocol):
    """Bounds of the shift between two samples, ``d − f``, of many rows of equal sizes."""

    def __call__(self, d: Floats, f: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return the bounds that the shift lies below or above with chance *lower* and *upper* at most.

        *d* has shape (rows, n), *f* (rows, n_F); infinite where these sizes cannot reach the level.
        """


def by_bounds(batch: Batch, policy: Policy, bounds: Bounds, *, look: int, m: int) -> Bands:
    """Judge every row at one look by bounds on its shift; see :data:`lqw.noise.methods.Method`."""
    levels = levels_at(batch, policy, look=look, m=m)
    estimate = np.nansum(batch.d, axis=-1) / batch.n
    shape = estimate.shape
    v = np.broadcast_to(np.maximum(batch.n - 1, 1.0), shape)
    s2 = np.nansum((batch.d - estimate[..., None]) ** 2, axis=-1) / v
    passing, red_floor_level, red_last_level = (norm_sf(z) for z in (levels.passing, levels.red_floor, levels.red_last))
    lower, upper = _bounds(batch, batch.floor_d, batch.floor, passing, red_floor_level, bounds)
    _, upper_last = _bounds(batch, batch.last_d, batch.last, red_last_level, red_last_level, bounds)
    least = effect_floor(batch, policy)
    delta, delta_last = estimate - batch.floor, estimate - batch.last
    red_floor, red_last = (upper < 0) & (delta < -least), (upper_last < 0) & (delta_last < -least)
    none = np.full(shape, np.nan)
    return Bands(
        estimate=estimate,
        s2=s2,
        v=v,
        sd=np.sqrt(s2),
        nu=v,
        se_floor=np.sqrt(s2 * (1 / batch.n + 1 / batch.n_floor)),
        t_red=none,
        u_pass=none,
        threshold=np.minimum(delta - upper, -least),  # D − F below it is RED
        lower=lower,
        se_last=np.sqrt(s2 * (1 / batch.n + 1 / batch.n_last)),
        t_last=none,
        threshold_last=np.minimum(delta_last - upper_last, -least),
        red_floor=red_floor,
        red_last=red_last,
        passed=~red_floor & ~red_last & (lower > np.log1p(-policy.margin)),
    )


def _bounds(  # noqa: PLR0917 - one reference and its two levels
    batch: Batch, reference_d: Floats, reference: Floats, lower: Floats, upper: Floats, bounds: Bounds
) -> tuple[Floats, Floats]:
    """Return the bounds of every row, NaN where the reference's pairs are unknown; equal sizes go together."""
    shape, width = batch.d.shape[:-1], reference_d.shape[-1]
    d = batch.d.reshape(math.prod(shape), batch.d.shape[-1])
    f = np.broadcast_to(reference_d, (*shape, width)).reshape(len(d), width)
    known = (~np.isnan(f)).sum(axis=-1)
    shift = np.broadcast_to(reference, shape).ravel() - np.nansum(f, axis=-1) / np.maximum(known, 1)
    sizes = np.stack([*(np.broadcast_to(x, shape).ravel() for x in (batch.n, lower, upper)), known], axis=-1)
    low, high = np.full(len(d), np.nan), np.full(len(d), np.nan)
    usable = ~np.isnan(sizes).any(axis=-1) & (known > 0)
    if batch.wanted is not None:
        usable &= batch.wanted.ravel()
    for key in {tuple(size) for size in sizes[usable].tolist()}:
        rows = usable & (sizes == key).all(axis=-1)
        n, at_low, at_high, n_reference = int(key[0]), float(key[1]), float(key[2]), int(key[3])
        # A folded floor is the target, not the mean of its pairs: they move along.
        moved = f[rows, :n_reference] + shift[rows, None]
        low[rows], high[rows] = bounds(d[rows, :n], moved, at_low, at_high)
    return low.reshape(shape), high.reshape(shape)

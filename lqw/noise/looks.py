"""The looks of a sequential decision, for one release or thousands at once: who needs more pairs, who is decided.

The gate replays its looks with this function (:func:`lqw.verdict.sequence.replay`), and ``lqw power`` simulates
releases with the very same one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Bands

if TYPE_CHECKING:
    from lqw.noise.batch import Batch
    from lqw.noise.methods import Method
    from lqw.plan import Policy

__all__ = ["Looked", "take_looks"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Looked:
    """What the looks decided.

    Attributes
    ----------
    bands : Bands, arrays of shape (releases, rows)
        From the look that decided the row, or the last one it saw.
    look : int array, shape (releases, rows)
        That look, from 0; −1 where the row's model has too few pairs for the first one.
    pairs : float array, shape (releases, models)
        Pairs of each model that the decision rests on.
    needing : bool array, shape (releases, models)
        Models that the next look wants more pairs of.
    """

    bands: Bands
    look: NDArray[np.int64]
    pairs: Floats
    needing: Bools

    @property
    def red(self) -> Bools:
        """Return which rows are RED, shape (releases, rows)."""
        return self.bands.red


def take_looks(
    batch: Batch, method: Method, policy: Policy, *, m: int, models: NDArray[np.int64], available: Floats
) -> Looked:
    """Run the looks.

    At each look the models with an open gating row get the pairs of that look; all others keep what they had, so that
    a run which measured more than it needed is judged by the same numbers as one that stopped. A model with a RED row
    asks for no more: the gate is blocked already, and its other open rows are reported as they stand.

    Parameters
    ----------
    batch : Batch
        ``d`` of shape (releases, rows, pairs) with every pair that was measured.
    method, policy, m
        As in :data:`lqw.noise.methods.Method`.
    models : int array, shape (rows,)
        Number of each row's model, from 0.
    available : float array, shape (releases, models)
        Complete pairs in the samples.
    """
    releases, rows = batch.d.shape[:2]
    used = np.full(available.shape, float(policy.looks[0]))
    going, needing = np.ones(available.shape, dtype=bool), np.zeros(available.shape, dtype=bool)
    look_of = np.full((releases, rows), -1, dtype=np.int64)
    bands = _empty((releases, rows))
    for look, pairs in enumerate(policy.looks):
        needing |= going & (available < pairs)
        going &= ~needing
        active = np.asarray(going.any(axis=-1))
        if not active.any():
            break
        used[going] = pairs
        fresh = going[:, models] & ((look_of < 0) | bands.open)
        seen = replace(batch.take(active).first(used[active][:, models]), wanted=fresh[active])
        _put(bands, method(seen, policy, look=look, m=m), fresh, active)
        look_of[fresh] = look
        gating = ~np.isnan(np.broadcast_to(batch.floor, (releases, rows)))
        open_, red = bands.open & gating, bands.red & gating
        for model in range(available.shape[1]):
            of = models == model
            going[:, model] &= open_[:, of].any(axis=-1) & ~red[:, of].any(axis=-1)
    return Looked(bands, look_of, used, needing)


def _empty(shape: tuple[int, int]) -> Bands:
    decided = ("red_floor", "red_last", "passed")
    return Bands(
        **{f.name: np.zeros(shape, dtype=bool) if f.name in decided else np.full(shape, np.nan) for f in fields(Bands)}
    )


def _put(bands: Bands, now: Bands, fresh: Bools, active: Bools) -> None:
    """Write what *now* says of the *active* releases into *bands*, where it is *fresh*."""
    where = fresh[active]
    for f in fields(Bands):
        getattr(bands, f.name)[fresh] = np.broadcast_to(getattr(now, f.name), where.shape)[where]

"""Simulated releases with their confirmation: what the third arm says of each that went RED (STATISTICS §3).

The batch is drawn from the same world, in one session, and decided by the rule itself: a row is confirmed where
``D_c − D_rel < −t.isf(.05, ν)·s̃·sqrt(2/7)``, s̃ not less than the scatter within the batch, and a family by the mean of
its rows against the larger of the two variances that :mod:`lqw.verdict.suite` knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.quantiles import t_isf
from lqw.power.simulate import Decided, decide, in_chunks, joined
from lqw.power.world import draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.noise.looks import Looked
    from lqw.plan import Policy
    from lqw.power.world import World

__all__ = ["Confirmed", "confirmed"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL = 0.05  # one-sided: a true loss is far larger than what this batch can see
TUPLES = 7  # candidate, comparator and the release that set the floor


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Releases before and after their batch.

    Attributes
    ----------
    decided : Decided
        Before.
    red, suite : bool arrays, shape (releases, rows)
        Rows, and families, whose RED the batch repeated. A RED that it did not repeat is a SHIFT and blocks too.
    """

    decided: Decided
    red: Bools
    suite: Bools

    @property
    def red_release(self) -> Bools:
        """Return which releases are still RED, shape (releases,)."""
        return np.asarray((self.red | self.suite).any(axis=-1))


def confirmed(
    world: World, policy: Policy, *, releases: int, seed: int, level: Callable[[NDArray[np.int64]], Floats]
) -> Confirmed:
    """Simulate releases and measure a batch for each that is RED.

    Parameters
    ----------
    world, policy, releases, seed
        As in :func:`lqw.power.simulate.simulate`.
    level : callable
        The true log ratio of the candidate to its floor, shape (releases, rows) or broadcast to it, by the number of
        the release.
    """

    def one(first: int, count: int, rng: np.random.Generator) -> Confirmed:
        true = np.broadcast_to(level(np.arange(first, first + count)), (count, world.rows))
        batch = draw(world, policy, rng, count)
        decided, looked = decide(replace(batch, d=batch.d + true[..., None]), world, policy)
        red, suite = np.zeros_like(decided.red), np.zeros_like(decided.suite)
        for release in np.flatnonzero(decided.red_release):
            gains = true[release][:, None] + world.beside(rng, TUPLES)
            red[release] = decided.red[release] & _rows(gains, looked, int(release))
            suite[release] = decided.suite[release] & _families(gains, decided, looked, world, int(release))
        return Confirmed(decided, red, suite)

    parts = in_chunks(one, releases=releases, seed=seed)
    return Confirmed(
        joined([part.decided for part in parts]),
        np.concatenate([part.red for part in parts]),
        np.concatenate([part.suite for part in parts]),
    )


def _rows(gains: Floats, looked: Looked, release: int) -> Bools:
    """Return which rows of one release have fallen in the batch too."""
    sd = np.maximum(looked.bands.sd[release], gains.std(axis=-1, ddof=1))
    limit = t_isf(LEVEL, looked.bands.nu[release]) * sd * np.sqrt(2 / TUPLES)
    return np.asarray(gains.mean(axis=-1) < -limit)


def _families(gains: Floats, decided: Decided, looked: Looked, world: World, release: int) -> Bools:
    """Return, for each row of one release, whether its family has fallen in the batch too."""
    out = np.zeros(world.rows, dtype=bool)
    for code in np.unique(world.family_of):
        of = (world.family_of == code) & ~decided.suspect[release]
        m = int(of.sum())
        if m == 0:
            continue
        independent = float((looked.bands.sd[release][of] ** 2).sum()) * 2 / TUPLES / m**2
        models = [of & (world.model_of == model) for model in np.unique(world.model_of[of])]
        shared = sum(
            (int(rows.sum()) / m) ** 2 * float(gains[rows].mean(axis=0).var(ddof=1)) * 2 / TUPLES for rows in models
        )
        limit = float(t_isf(LEVEL, (TUPLES - 1) * len(models))) * np.sqrt(max(independent, shared))
        out[world.family_of == code] = gains[of].mean() < -limit
    return out

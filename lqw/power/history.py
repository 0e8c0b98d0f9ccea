"""Many releases in a row: a drift too small for any one of them, and floors that rise by luck.

Each release is decided by the gate's own code (:func:`lqw.power.simulate.decide`) against the floor and the last
release that passed. What follows a PASS is STATISTICS §5: last and history grow; a row that proved an improvement
(``(D − F)/se > 2.326``, the judge's own constant) gets a fresh batch of that release, and ``floor := max(F, batch)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lqw.power.rates import Rate, rate_of
from lqw.power.simulate import decide
from lqw.power.world import World, batch_from
from lqw.verdict.rows import IMPROVED_Z

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.noise.batch import Batch
    from lqw.plan import Policy
    from lqw.power.simulate import Decided

__all__ = ["Drifted", "advance", "drift"]

Floats = NDArray[np.float64]

KEPT_SESSIONS = 6
Raise = Literal["proven", "best-ever", "best-ever-as-floor"]


@dataclass(frozen=True, slots=True)
class Drifted:
    """In which release a drifting row was first RED; ``caught[k]``: by release k + 1, of all histories."""

    caught: tuple[Rate, ...]

    @property
    def median(self) -> int | None:
        """Return the release by which half of the histories were caught."""
        return next((k for k, rate in enumerate(self.caught, start=1) if 2 * rate.hits >= rate.of), None)


class _Histories:
    """Floors, last values and earlier sessions of simulated histories, all of shape (histories, rows)."""

    def __init__(self, world: World, policy: Policy, rng: np.random.Generator, histories: int) -> None:
        self.world, self.policy, self.rng, self.histories = world, policy, rng, histories
        shape = (histories, world.rows)
        self.floor_d = world.pairs(rng, histories, policy.floor_pairs)
        self.floor = self.floor_d.mean(axis=-1)
        self.n_floor = np.full(shape, float(policy.floor_pairs))
        self.floor_ss = ((self.floor_d - self.floor[..., None]) ** 2).sum(axis=-1)
        self.last, self.n_last = np.full(shape, np.nan), np.full(shape, np.nan)
        self.ss, self.df = np.zeros((*shape, KEPT_SESSIONS)), np.zeros((*shape, KEPT_SESSIONS))  # newest first

    def batch(self, level: Floats) -> Batch:
        """Measure the next release, whose rows are truly at *level*."""
        d = self.world.pairs(self.rng, self.histories, self.policy.looks[-1]) + level[..., None]
        return replace(
            batch_from(self.world, self.policy, d, self.floor_d),
            floor=self.floor,
            n_floor=self.n_floor,
            last=self.last,
            n_last=self.n_last,
            session_ss=np.concatenate([self.floor_ss[..., None], self.ss], axis=-1),
            session_df=np.concatenate([self.n_floor[..., None] - 1, self.df], axis=-1),
        )

    def passed(self, releases: NDArray[np.bool_], estimate: Floats, d: Floats, n: Floats) -> None:
        """Record the *releases* that passed: last values and history grow."""
        seen = np.where(np.arange(d.shape[-1]) < n[..., None], d - estimate[..., None], 0.0)
        ss = (seen**2).sum(axis=-1)
        self.ss[releases] = np.concatenate([ss[..., None], self.ss[..., :-1]], axis=-1)[releases]
        self.df[releases] = np.concatenate([(n - 1)[..., None], self.df[..., :-1]], axis=-1)[releases]
        self.last[releases], self.n_last[releases] = estimate[releases], n[releases]


def drift(
    world: World,
    policy: Policy,
    *,
    per_release: float,
    releases: int,
    histories: int,
    seed: int,
    shipped: Callable[[Decided], NDArray[np.bool_]] = lambda decided: decided.pass_release,
) -> Drifted:
    """Let one row of each history lose the fraction *per_release* in every release, until it is RED.

    *shipped* says which releases become the last release: those that PASS, unless a laxer gate is to be looked at.
    """
    rng = np.random.default_rng(seed)
    state = _Histories(world, policy, rng, histories)
    at = np.arange(histories)
    row = at % world.rows
    level, caught, rates = np.zeros((histories, world.rows)), np.zeros(histories, dtype=bool), []
    for _ in range(releases):
        level[at, row] += np.log1p(per_release)
        batch = state.batch(level)
        decided, looked = decide(batch, world, policy)
        caught |= decided.red[at, row]
        rates.append(rate_of(caught.copy()))
        state.passed(shipped(decided), looked.bands.estimate, batch.d, decided.used)
    return Drifted(tuple(rates))


def advance(world: World, policy: Policy, *, rule: Raise, releases: int, histories: int, seed: int) -> tuple[Rate, ...]:
    """Return the false RED of each of *releases* equal releases in a row.

    *rule* says what raises a floor: ``proven`` is the gate's, ``best-ever`` takes the best estimate that ever passed
    with the few pairs behind it, ``best-ever-as-floor`` forgets how few they were.
    """
    rng = np.random.default_rng(seed)
    state = _Histories(world, policy, rng, histories)
    rates = []
    for _ in range(releases):
        batch = state.batch(np.zeros((histories, world.rows)))
        decided, looked = decide(batch, world, policy)
        rates.append(rate_of(decided.red_release))
        bands, going = looked.bands, decided.pass_release
        state.passed(going, bands.estimate, batch.d, decided.used)
        if rule != "proven":
            better = going[:, None] & (bands.estimate > state.floor)
            state.floor = np.where(better, bands.estimate, state.floor)
            if rule == "best-ever":
                state.n_floor = np.where(better, decided.used, state.n_floor)
            continue
        fresh_d = world.pairs(rng, histories, policy.floor_pairs)
        fresh = fresh_d.mean(axis=-1)
        improved = bands.estimate - state.floor > IMPROVED_Z * bands.se_floor
        higher = going[:, None] & improved & (fresh > state.floor)
        state.floor_ss = np.where(higher, ((fresh_d - fresh[..., None]) ** 2).sum(axis=-1), state.floor_ss)
        state.floor_d = np.where(higher[..., None], fresh_d, state.floor_d)
        state.floor = np.where(higher, fresh, state.floor)
    return tuple(rates)

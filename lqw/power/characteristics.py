"""What a method is worth in a world: what ``lqw power`` prints and the proof tabulates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lqw.power.rates import Mean, Rate, mean_of, rate_of
from lqw.power.simulate import simulate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lqw.noise.batch import Batch
    from lqw.plan import Policy
    from lqw.power.simulate import Decided
    from lqw.power.world import World

__all__ = ["Characteristics", "Planted", "characteristics", "planted_row", "planter"]


@dataclass(frozen=True, slots=True)
class Planted:
    """What became of one row with a planted change: the four shares sum to 1."""

    red: Rate  # the row itself is RED
    suite: Rate  # the row is not, but its family together is
    undecided: Rate  # inconclusive, or too good to be believed: blocks
    silent: Rate  # the row passes


@dataclass(frozen=True, slots=True)
class Characteristics:
    """Equal releases, and releases with one row changed; the same noise in both.

    ``pairs`` are measured per model: a model goes on while any of its rows is open. ``pairs_row`` are those after which
    a row was decided, which is what they would be if every row had a model of its own.
    """

    false_red: Rate
    false_red_rows: Rate  # by rows alone
    healthy_pass: Rate
    healthy_undecided: Rate
    pairs: Mean
    pairs_row: Mean
    planted: Planted
    silent_by_sd: tuple[tuple[float, Rate], ...]  # σ of the planted row (middle of its third), silent PASS
    red_by_sd: tuple[tuple[float, Rate], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: every share with its error, its exact 95 % interval and its counts."""
        rates = {
            "false_red": self.false_red,
            "false_red_rows": self.false_red_rows,
            "healthy_pass": self.healthy_pass,
            "healthy_undecided": self.healthy_undecided,
            "detected": self.planted.red,
            "detected_by_suite": self.planted.suite,
            "undecided": self.planted.undecided,
            "silent_pass": self.planted.silent,
        }
        means = {"mean_pairs": self.pairs, "mean_pairs_row": self.pairs_row}
        return {
            **{name: _rate_json(rate) for name, rate in rates.items()},
            **{name: {"value": mean.value, "error": mean.error} for name, mean in means.items()},
        }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {
        "value": rate.share,
        "error": rate.error,
        "interval": list(rate.interval),
        "hits": rate.hits,
        "of": rate.of,
    }


def planted_row(world: World, releases: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which row is changed in each release: all rows take turns, so that every σ has its share."""
    return releases % world.rows


def planter(world: World, effect: float, batch: Batch, first: int) -> Batch:
    """Return *batch* with one row of each release changed by the fraction *effect*."""
    d, at = batch.d.copy(), np.arange(len(batch.d))
    d[at, planted_row(world, at + first)] += np.log1p(effect)
    return replace(batch, d=d)


def characteristics(world: World, policy: Policy, *, effect: float, releases: int, seed: int) -> Characteristics:
    """Simulate *releases* equal releases and as many with one row changed by *effect* (−0.10: a loss of 10 %)."""
    equal = simulate(world, policy, releases=releases, seed=seed)
    changed = simulate(
        world, policy, releases=releases, seed=seed, plant=lambda batch, first: planter(world, effect, batch, first)
    )
    at = np.arange(releases)
    rows = planted_row(world, at)
    planted = _fate(changed, at, rows)
    sd = world.sd[rows]
    by_sd = [(float(np.median(sd[one])), _fate(changed, one, rows[one])) for one in _thirds(sd)]
    return Characteristics(
        false_red=rate_of(equal.red_release),
        false_red_rows=rate_of(np.asarray(equal.red.any(axis=-1))),
        healthy_pass=rate_of(equal.pass_release),
        healthy_undecided=rate_of(~equal.red_release & ~equal.pass_release),
        pairs=mean_of(equal.pairs.mean(axis=-1)),
        pairs_row=mean_of(equal.used.mean(axis=-1)),
        planted=planted,
        silent_by_sd=tuple((at_sd, fate.silent) for at_sd, fate in by_sd),
        red_by_sd=tuple((at_sd, fate.red) for at_sd, fate in by_sd),
    )


def _fate(decided: Decided, releases: NDArray[np.int64], rows: NDArray[np.int64]) -> Planted:
    red, suite, passed = (x[releases, rows] for x in (decided.red, decided.suite, decided.passed))
    return Planted(
        red=rate_of(red),
        suite=rate_of(suite & ~red),
        undecided=rate_of(~red & ~suite & ~passed),
        silent=rate_of(passed & ~suite),
    )


def _thirds(sd: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the releases whose changed row is quiet, middling or loud; none where all rows are alike."""
    if np.ptp(sd) == 0:
        return []
    third = np.searchsorted(np.quantile(sd, [1 / 3, 2 / 3]), sd)
    return [found for k in range(3) if len(found := np.flatnonzero(third == k))]

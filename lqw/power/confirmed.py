"""Simulated releases with their confirmation: what the third arm says of each that went RED (STATISTICS §3).

The gate's own :func:`lqw.verdict.confirm.confirm_rows` and ``confirm_suites`` decide; the batch that they are given is
drawn from the same world, in one session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from lqw.metrics import RowId
from lqw.noise.batch import FAMILIES
from lqw.outcomes import RowVerdict
from lqw.plan import BATCH_TUPLES
from lqw.power.simulate import Decided, decide, in_chunks, joined
from lqw.power.world import draw
from lqw.verdict.confirm import Beside, confirm_rows, confirm_suites
from lqw.verdict.results import RowResult, SuiteResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lqw.noise.looks import Looked
    from lqw.plan import Policy
    from lqw.power.world import World

__all__ = ["Confirmed", "confirmed"]

EARLIER = "1.0.0"
METRICS = ("agg", "ttft")  # one of each family that a world has


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
    red: NDArray[np.bool_]
    suite: NDArray[np.bool_]

    @property
    def red_release(self) -> NDArray[np.bool_]:
        """Return which releases are still RED, shape (releases,)."""
        return np.asarray((self.red | self.suite).any(axis=-1))


def confirmed(
    world: World,
    policy: Policy,
    *,
    releases: int,
    seed: int,
    level: Callable[[NDArray[np.int64]], NDArray[np.float64]],
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
    ids = _ids(world)

    def one(first: int, count: int, rng: np.random.Generator) -> Confirmed:
        true = np.broadcast_to(level(np.arange(first, first + count)), (count, world.rows))
        batch = draw(world, policy, rng, count)
        decided, looked = decide(replace(batch, d=batch.d + true[..., None]), world, policy)
        red, suite = np.zeros_like(decided.red), np.zeros_like(decided.suite)
        for release in np.flatnonzero(decided.red_release):
            gains = true[release][:, None] + world.beside(rng, BATCH_TUPLES)
            red[release], suite[release] = _batch(ids, decided, looked, int(release), gains)
        return Confirmed(decided, red, suite)

    parts = in_chunks(one, releases=releases, seed=seed)
    return Confirmed(
        joined([part.decided for part in parts]),
        np.concatenate([part.red for part in parts]),
        np.concatenate([part.suite for part in parts]),
    )


def _ids(world: World) -> list[RowId]:
    of_family = {FAMILIES.index(RowId("m", name, 1).kind.family): name for name in METRICS}
    places = zip(world.model_of, world.family_of, strict=True)
    return [RowId(f"m{model}", of_family[int(family)], row + 1) for row, (model, family) in enumerate(places)]


def _batch(
    ids: list[RowId], decided: Decided, looked: Looked, release: int, gains: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows of one release the batch confirms, and which rows' families."""
    rows = [_row(row, decided, looked, (release, at)) for at, row in enumerate(ids)]
    measured = {(row, EARLIER): Beside(EARLIER, gains[at], np.zeros(BATCH_TUPLES)) for at, row in enumerate(ids)}
    told = confirm_rows(rows, dict(measured))
    names = {row.family for row, red in zip(rows, decided.suite[release], strict=True) if red}
    suites = [
        SuiteResult(family=name, rows=len(ids), mean_delta=0.0, se=0.0, threshold=0.0, red=True)
        for name in sorted(names)
    ]
    repeated = {
        suite.family
        for suite in confirm_suites(suites, rows, dict(measured))
        if suite.confirmation is not None and suite.confirmation.state == "CONFIRMED"
    }
    red = [row.verdict is RowVerdict.RED for row in told]
    return np.array(red), np.array([row.family in repeated for row in rows])


def _row(row: RowId, decided: Decided, looked: Looked, at: tuple[int, int]) -> RowResult:
    """Return what the confirmation reads of a row's result."""
    red, suspect, bands = bool(decided.red[at]), bool(decided.suspect[at]), looked.bands
    read: dict[str, Any] = {
        "row": row,
        "family": str(row.kind.family),
        "verdict": RowVerdict.RED if red else RowVerdict.SUSPECT if suspect else RowVerdict.PASS,
        "gating": True,
        "text": "",
        "confirm_with": EARLIER if red else None,
        "floor_release": EARLIER,
        "band": SimpleNamespace(sd=float(bands.sd[at]), nu=float(bands.nu[at])),
    }
    return RowResult.model_construct(None, **read)

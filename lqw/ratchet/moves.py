"""Adopt a floor, advance after a PASS: pure functions from one baseline to the next.

A run whose outcome is not FLOOR (adopt) or PASS (advance) changes nothing at all: RED, SHIFT, VOID, INCONCLUSIVE and
everything else leave floor, last and history as they were, and the moves say so row by row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.rows import Row
from lqw.outcomes import Outcome, TargetState
from lqw.ratchet.baseline import Baseline, Epoch, FloorSource, Point, RatchetState, RowEntry
from lqw.ratchet.epoch import EpochKey
from lqw.ratchet.machine import EVENT_OF, Effect, Event, effect_of
from lqw.samples import Record

if TYPE_CHECKING:
    from lqw.metrics import RowId
    from lqw.verdict.results import Judgement, RowResult

__all__ = ["Move", "Moved", "adopt", "advance", "point_of"]


class Move(Record):
    """What happened to one row of the baseline."""

    row: Row
    event: Event
    effect: Effect
    text: str


class Moved(Record):
    """A new baseline and how it came to be. ``changed`` is False when nothing needs to be written."""

    baseline: Baseline
    moves: tuple[Move, ...]
    changed: bool


def point_of(result: RowResult, *, release: str, receipt_sha256: str) -> Point:
    """Return a measured row as a point of the baseline: D, its scatter, and the comparator's own level."""
    d, logs = np.array(result.d), np.log(result.comparator_values)
    return Point(
        release=release,
        receipt_sha256=receipt_sha256,
        value=float(d.mean()),
        n=len(d),
        ss=float(((d - d.mean()) ** 2).sum()),
        df=len(d) - 1,
        d=result.d,
        comparator_mean=float(logs.mean()),
        comparator_sd=float(logs.std(ddof=1)),
    )


def adopt(baseline: Baseline | None, judgement: Judgement, key: EpochKey, *, host: str, receipt_sha256: str) -> Moved:
    """Return the baseline after a floor batch.

    New rows get their floor. A row that has one keeps it, unless this is the fresh batch of the release that proved an
    improvement: then ``floor := max(F, batch)``. An unknown epoch is opened behind the older ones.
    """
    before = baseline if baseline is not None else Baseline(host=host)
    if judgement.outcome is not Outcome.FLOOR:
        return Moved(baseline=before, moves=_nothing(judgement, before.find(key)), changed=False)
    epoch = before.find(key) or Epoch(key=key, opened_by=judgement.release, rows={})
    rows, moves = dict(epoch.rows), []
    for result in judgement.rows:
        entry = rows.get(result.row)
        improved = entry is not None and entry.improved_by == judgement.release
        event = Event.BATCH_OF_IMPROVED if improved else Event.BATCH
        effect = effect_of(_state(entry), event)
        batch = point_of(result, release=judgement.release, receipt_sha256=receipt_sha256)
        if effect is Effect.OPEN_FLOOR:
            best, first = (_best(batch, entry.best_ever), entry.first) if entry else (batch, batch.value)
            rows[result.row] = RowEntry(floor=batch, first=first, best_ever=best)
        elif effect is Effect.RAISE_FLOOR and entry is not None:
            rows[result.row] = _raised(entry, batch)
        moves.append(_move(result.row, event, effect, entry, rows.get(result.row)))
    merged = EpochKey(**{**dict(epoch.key), "models": {**epoch.key.models, **key.models}})
    after = _with_epoch(before, epoch, Epoch(key=merged, opened_by=epoch.opened_by, rows=rows))
    return Moved(baseline=after, moves=tuple(moves), changed=after != before)


def advance(baseline: Baseline, judgement: Judgement, key: EpochKey, *, receipt_sha256: str) -> Moved:
    """Return the baseline after a gate run: last values and history grow on PASS, and on nothing else."""
    epoch = baseline.find(key)
    if judgement.outcome is not Outcome.PASS or epoch is None:
        return Moved(baseline=baseline, moves=_nothing(judgement, epoch), changed=False)
    rows, moves = dict(epoch.rows), []
    for result in judgement.rows:
        entry = rows.get(result.row)
        event = EVENT_OF[result.verdict]
        effect = effect_of(_state(entry), event)
        if effect in (Effect.SET_LAST, Effect.SET_LAST_ASK_BATCH) and entry is not None:
            point = point_of(result, release=judgement.release, receipt_sha256=receipt_sha256)
            rows[result.row] = _advanced(entry, point, result, ask=effect is Effect.SET_LAST_ASK_BATCH)
        moves.append(_move(result.row, event, effect, entry, rows.get(result.row)))
    after = _with_epoch(baseline, epoch, epoch.model_copy(update={"rows": rows}))
    return Moved(baseline=after, moves=tuple(moves), changed=after != baseline)


def _advanced(entry: RowEntry, point: Point, result: RowResult, *, ask: bool) -> RowEntry:
    met = result.target is not None and result.target.state is TargetState.MET
    return entry.model_copy(
        update={
            "last": point,
            "history": (*entry.history, point),
            "best_ever": _best(entry.best_ever, point),
            "improved_by": point.release if ask else entry.improved_by,
            "target_met_by": entry.target_met_by or (point.release if met else ""),
        }
    )


def _raised(entry: RowEntry, batch: Point) -> RowEntry:
    best = _best(entry.best_ever, batch)
    if batch.value <= entry.floor.value:  # the improvement did not repeat: the floor stays, the question is closed
        return entry.model_copy(update={"improved_by": "", "best_ever": best})
    raised = {"floor": batch, "floor_source": FloorSource.BATCH, "improved_by": "", "best_ever": best}
    if entry.floor_before is None or batch.value >= entry.floor_before.value:
        raised |= {"floor_expires": "", "floor_before": None}  # what a term's end would bring back is lower
    return entry.model_copy(update=raised)


def _best(one: Point, other: Point) -> Point:
    return other if other.value > one.value else one


def _state(entry: RowEntry | None) -> RatchetState:
    return RatchetState.NONE if entry is None else entry.state


def _nothing(judgement: Judgement, epoch: Epoch | None) -> tuple[Move, ...]:
    entries = epoch.rows if epoch else {}
    text = f"the run is {judgement.outcome}: floor, last and history stay"
    return tuple(
        Move(row=result.row, event=EVENT_OF[result.verdict], effect=Effect.KEEP, text=text)
        if effect_of(_state(entries.get(result.row)), EVENT_OF[result.verdict]) is not Effect.BLOCK
        else Move(row=result.row, event=EVENT_OF[result.verdict], effect=Effect.BLOCK, text=text)
        for result in judgement.rows
    )


_TEXT = {
    Effect.OPEN_FLOOR: "floor set to {now:.3f}",
    Effect.RAISE_FLOOR: "floor {was:.3f} → {now:.3f}",
    Effect.SET_LAST: "floor stays at {now:.3f}; last release recorded",
    Effect.SET_LAST_ASK_BATCH: "floor stays at {now:.3f}; improved: a fresh batch of this release may raise it",
    Effect.KEEP: "floor stays at {now:.3f}",
}


def _move(row: RowId, event: Event, effect: Effect, was: RowEntry | None, now: RowEntry | None) -> Move:
    old, new = (math.exp(entry.floor.value) if entry else math.nan for entry in (was, now))
    return Move(row=row, event=event, effect=effect, text=_TEXT.get(effect, "nothing changes").format(was=old, now=new))


def _with_epoch(baseline: Baseline, old: Epoch, new: Epoch) -> Baseline:
    """Return the baseline with *old* replaced by *new*, or *new* appended."""
    if any(epoch is old for epoch in baseline.epochs):
        epochs = tuple(new if epoch is old else epoch for epoch in baseline.epochs)
    else:
        epochs = (*baseline.epochs, new)
    return baseline.model_copy(update={"epochs": epochs})

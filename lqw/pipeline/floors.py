"""The floors of a host as tables: what holds, who set it, and what was given up since the first one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lqw.pipeline.shown import Table
from lqw.ratchet import RatchetState, epoch_differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.ratchet import Baseline, Epoch, RowEntry

__all__ = ["floors_tables"]

HEADER = ("row", "state", "floor", "set by", "how", "pairs", "last", "of the first", "note")


def floors_tables(baseline: Baseline, *, day: str) -> Iterator[Table | str]:
    """Yield, per epoch, what opened it, the table of its rows and the cumulative give-up in one line.

    Parameters
    ----------
    baseline : Baseline
    day : str
        ISO day on which the floors are looked at: rebased ones end.
    """
    for i, epoch in enumerate(baseline.epochs):
        if i:
            changed = "; ".join(epoch_differences(baseline.epochs[i - 1].key, epoch.key))
            yield f"new epoch: {changed}"
        rows = tuple(_cells(str(row), entry, day) for row, entry in epoch.rows.items())
        yield Table(f"{baseline.host}, epoch {epoch.key.sha256[:12]} opened by {epoch.opened_by}", HEADER, rows)
        yield _total(epoch, day)


def _now(entry: RowEntry, day: str) -> float:
    return (entry.last or entry.floor_on(day)).value


def _cells(row: str, entry: RowEntry, day: str) -> tuple[str, ...]:
    floor = entry.floor_on(day)
    return (
        row,
        str(entry.state),
        f"{math.exp(floor.value):.3f}",
        floor.release,
        str(entry.floor_source) if floor is entry.floor else "returned",
        str(floor.n),
        "–" if entry.last is None else f"{math.exp(entry.last.value):.3f} ({entry.last.release})",
        f"{math.exp(_now(entry, day) - entry.first):.3f}",
        _note(entry, day),
    )


def _note(entry: RowEntry, day: str) -> str:
    notes = []
    if entry.improved_by:
        notes.append(f"{entry.improved_by} proved an improvement: adopt a fresh batch of it")
    if entry.floor_expires:
        notes.append(f"rebased {'to' if day < entry.floor_expires else ', ended on'} {entry.floor_expires}")
    if entry.target_met_by:
        notes.append(f"target met by {entry.target_met_by}")
    if entry.record_sha256:
        notes.append(f"record {entry.record_sha256[:12]}")
    return "; ".join(notes)


def _total(epoch: Epoch, day: str) -> str:
    active = {row: entry for row, entry in epoch.rows.items() if entry.state is RatchetState.ACTIVE}
    if not active:
        return "no row gates"
    change = {row: _now(entry, day) - entry.first for row, entry in active.items()}
    worst = min(change, key=lambda row: change[row])
    mean = math.exp(sum(change.values()) / len(change))
    return (
        f"since the first floor: {len(active)} gating rows at {mean:.3f}× on average, "
        f"the worst {worst} at {math.exp(change[worst]):.3f}×"
    )

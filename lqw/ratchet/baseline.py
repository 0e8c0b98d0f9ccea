"""``baseline.json`` of a host: floors, last values and history, per epoch and row.

The file is written only by :mod:`.moves` (adopt, advance) and :mod:`.records` (rebase, retire); nothing edits it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lqw.canonical import json_bytes, loads_canonical
from lqw.errors import IntegrityError
from lqw.noise.rows import Reference, Row, RowReferences, Spread
from lqw.ratchet.epoch import EpochKey, epoch_differences
from lqw.ratchet.session import session_sd
from lqw.samples import Record
from lqw.verdict.evidence import ComparatorPoint, Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.metrics import RowId

__all__ = [
    "Baseline",
    "Epoch",
    "FloorSource",
    "Point",
    "RatchetState",
    "RowEntry",
    "baseline_to_json",
    "parse_baseline",
    "references_for",
]

HISTORY_USED = 6  # receipts whose variance is pooled (STATISTICS §2)
COMPARATOR_USED = 20  # sessions the comparator is compared with


class RatchetState(StrEnum):
    """State of a row in one epoch. A row that is in no baseline is NONE."""

    NONE = "NONE"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"


class FloorSource(StrEnum):
    """How a floor came to be."""

    ADOPT = "adopt"  # the first batch
    BATCH = "batch"  # a fresh batch of a released binary, after a proven improvement
    REBASE = "rebase"  # a record lowered it


class Point(Record):
    """One session's result for one row."""

    release: str
    receipt_sha256: str
    value: float  # D: mean oriented ln ratio
    n: int = Field(ge=1)
    ss: float = Field(ge=0)
    df: int = Field(ge=0)
    d: tuple[float, ...] = ()
    comparator_mean: float  # mean of ln y
    comparator_sd: float = Field(ge=0)


class RowEntry(Record):
    """One row: its floor, the last release, and every passed session, oldest first."""

    state: RatchetState = RatchetState.ACTIVE
    floor: Point
    floor_source: FloorSource = FloorSource.ADOPT
    first: float  # the first floor of the epoch: cumulative give-up is counted from it
    last: Point | None = None
    history: tuple[Point, ...] = ()
    best_ever: Point
    improved_by: str = ""  # release that proved an improvement and has no fresh batch yet
    floor_expires: str = ""  # day (ISO) on which a rebased floor ends; "" for never
    floor_before: Point | None = None  # the floor that then returns
    target_met_by: str = ""  # first released version whose 99 % bound cleared the target
    record_sha256: str = ""  # file of the record that lowered the floor or retired the row; "" where none did

    def floor_on(self, day: str | None) -> Point:
        """Return the floor in force on *day* (ISO): a rebased one ends on its day, the one before it comes back."""
        expired = day is not None and self.floor_expires != "" and day >= self.floor_expires
        return self.floor_before if expired and self.floor_before is not None else self.floor


class Epoch(Record):
    """Everything measured under one key."""

    key: EpochKey
    opened_by: str
    rows: dict[Row, RowEntry]


class Baseline(Record):
    """The ratchet's memory of one host. Epochs are kept for ever; the last one is the newest."""

    schema_: Literal["lqw-baseline/1"] = Field(default="lqw-baseline/1", alias="schema")
    host: str
    epochs: tuple[Epoch, ...] = ()

    def find(self, key: EpochKey) -> Epoch | None:
        """Return the newest epoch that *key* belongs to."""
        return next((epoch for epoch in reversed(self.epochs) if not epoch_differences(epoch.key, key)), None)


def baseline_to_json(baseline: Baseline) -> dict[str, Any]:
    """Return the JSON form; write it with :func:`lqw.canonical.canonical_bytes`."""
    return baseline.model_dump(mode="json", by_alias=True)


def parse_baseline(data: bytes | str | dict[str, Any], *, name: str = "baseline.json") -> Baseline:
    """Read a baseline strictly; IntegrityError names the file and the first problem."""
    text = data.encode() if isinstance(data, str) else data
    if isinstance(text, bytes):
        loads_canonical(text, name=name)  # refuses what no strict reader takes; what it is, the model says
    try:
        return Baseline.model_validate_json(json_bytes(text) if isinstance(text, dict) else text)
    except (TypeError, ValueError) as err:
        raise IntegrityError(f"{name}: {err}") from err


def references_for(
    baseline: Baseline | None, key: EpochKey, rows: Sequence[RowId], *, day: str | None = None
) -> Standing:
    """Return what the baseline says of *rows* in the epoch *key*.

    *day* (ISO, the run's own date) ends rebased floors that have expired; the floor before them returns.

    Without a baseline, or without a matching epoch, the standing has no references and ``differences`` says why:
    every part in which the newest epoch differs.
    """
    if baseline is None or not baseline.epochs:
        return Standing(epoch_sha256=key.sha256, differences=("no floor was ever adopted on this host",))
    epoch = baseline.find(key)
    if epoch is None:
        newest = baseline.epochs[-1]
        return Standing(
            epoch_sha256=key.sha256,
            differences=epoch_differences(newest.key, key),
            remeasure=_setters(newest, rows, day),
        )
    entries = {row: epoch.rows[row] for row in rows if row in epoch.rows}
    active = {row: entry for row, entry in entries.items() if entry.state is RatchetState.ACTIVE}
    return Standing(
        epoch_sha256=key.sha256,
        references={row: _references(entry, day) for row, entry in active.items()},
        comparator={row: _comparator(entry) for row, entry in active.items()},
        tau=session_sd((entry.floor, *entry.history) for entry in epoch.rows.values()),
        targets_met=tuple(row for row, entry in active.items() if entry.target_met_by),
        retired=tuple(row for row, entry in entries.items() if entry.state is RatchetState.RETIRED),
        dropped=tuple(
            row for row, entry in epoch.rows.items() if entry.state is RatchetState.ACTIVE and row not in entries
        ),
    )


def _setters(epoch: Epoch, rows: Sequence[RowId], day: str | None) -> tuple[str, ...]:
    """Return the releases that set the floors of *rows* in an epoch, each once, in the order of the rows."""
    entries = [epoch.rows[row] for row in rows if row in epoch.rows]
    active = [entry.floor_on(day).release for entry in entries if entry.state is RatchetState.ACTIVE]
    return tuple(dict.fromkeys(active))


def _reference(point: Point) -> Reference:
    return Reference(
        value=point.value,
        n=point.n,
        ss=point.ss,
        df=point.df,
        release=point.release,
        receipt_sha256=point.receipt_sha256,
        d=point.d,
    )


def _references(entry: RowEntry, day: str | None) -> RowReferences:
    used = entry.history[-HISTORY_USED:]
    return RowReferences(
        floor=_reference(entry.floor_on(day)),
        last=_reference(entry.last) if entry.last is not None else None,
        history=tuple(Spread(ss=point.ss, df=point.df, release=point.release) for point in used),
    )


def _comparator(entry: RowEntry) -> tuple[ComparatorPoint, ...]:
    points = (entry.floor, *entry.history)[-COMPARATOR_USED:]
    return tuple(
        ComparatorPoint(release=point.release, mean=point.comparator_mean, sd=point.comparator_sd, n=point.n)
        for point in points
    )

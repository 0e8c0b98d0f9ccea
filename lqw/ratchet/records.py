"""Rebase and retire: how a floor goes down and how a row stops gating, each with a signed reason in its own file."""

from __future__ import annotations

import datetime as dt
import math
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import IntegrityError, ParamsError
from lqw.noise.rows import Row
from lqw.ratchet.baseline import Baseline, Epoch, FloorSource, Point, RatchetState, RowEntry
from lqw.ratchet.machine import Effect, Event, effect_of
from lqw.samples import Record

__all__ = ["RebaseRecord", "RetireRecord", "parse_record", "rebase", "retire"]

REASON_LENGTH = 200
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Person = Annotated[str, StringConstraints(min_length=2, max_length=200, strip_whitespace=True)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class _Signed(Record):
    host: str
    epoch_sha256: Sha256
    reason: str = Field(min_length=REASON_LENGTH)
    evidence_receipt_sha256: Sha256
    author: Person
    approver: Person
    created: Day

    @model_validator(mode="after")
    def _two_people(self) -> Self:
        if self.author.strip().casefold() == self.approver.strip().casefold():
            raise ValueError("author and approver must be two people")
        if len(set(self.reason.split())) < 20:  # noqa: PLR2004 - two hundred dots are no reason
            raise ValueError("the reason must be a text: at least 20 different words")
        _day(self.created)
        return self


class RebaseRecord(_Signed):
    """Lower one floor. ``old_floor`` and ``new_floor`` are ratios ``exp(F)``, larger is better."""

    schema_: Literal["lqw-rebase/1"] = Field(default="lqw-rebase/1", alias="schema")
    row: Row
    old_floor: float = Field(gt=0)
    new_floor: float = Field(gt=0)
    expires: Day | None = None
    permanent: bool = False

    @model_validator(mode="after")
    def _term(self) -> Self:
        if (self.expires is None) != self.permanent:
            raise ValueError("give either expires or permanent: true")
        if self.expires is not None and _day(self.expires) <= _day(self.created):
            raise ValueError("expires must lie after created")
        if self.new_floor >= self.old_floor:
            raise ValueError("a rebase lowers a floor; only a fresh batch of an improved release raises one")
        return self


class RetireRecord(_Signed):
    """Stop gating rows that are no longer measured."""

    schema_: Literal["lqw-retire/1"] = Field(default="lqw-retire/1", alias="schema")
    rows: tuple[Row, ...] = Field(min_length=1)


_Record = TypeVar("_Record", RebaseRecord, RetireRecord)


def parse_record(kind: type[_Record], data: bytes | str, *, name: str) -> _Record:
    """Read a record strictly; IntegrityError names file and problem."""
    try:
        return kind.model_validate_json(canonical_bytes(loads_strict(data, name=name)))
    except ValueError as err:
        raise IntegrityError(f"{name}: {err}") from err


def _day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def rebase(baseline: Baseline, record: RebaseRecord, evidence: Point, *, name: str) -> Baseline:
    """Return the baseline with one floor lowered to what the evidence receipt measured.

    Parameters
    ----------
    evidence : Point
        The row in the receipt that the record names; its value must be the new floor.
    name : str
        The record's file, for messages.

    Raises
    ------
    ParamsError
        Naming the field that contradicts the baseline or the evidence.
    """
    epoch, entry = _find(baseline, record, record.row, name)
    if effect_of(entry.state, Event.REBASE) is not Effect.LOWER_FLOOR:
        raise _refused(name, "row", str(record.row), f"is {entry.state}", "rebase active rows only")
    if not math.isclose(record.old_floor, math.exp(entry.floor.value), rel_tol=1e-3):
        problem = f"the baseline's floor is {math.exp(entry.floor.value):.4f}"
        raise _refused(name, "old_floor", record.old_floor, problem, "look it up with lqw baseline show")
    if evidence.receipt_sha256 != record.evidence_receipt_sha256:
        problem = f"the evidence is of receipt {evidence.receipt_sha256[:12]}…"
        raise _refused(name, "evidence_receipt_sha256", record.evidence_receipt_sha256, problem, "name its receipt")
    if not math.isclose(record.new_floor, math.exp(evidence.value), rel_tol=1e-3):
        problem = f"the evidence measured {math.exp(evidence.value):.4f}"
        raise _refused(name, "new_floor", record.new_floor, problem, "a floor is measured, never chosen")
    lowered = entry.model_copy(
        update={
            "floor": evidence,
            "floor_source": FloorSource.REBASE,
            "floor_expires": record.expires or "",
            "floor_before": entry.floor if record.expires else None,
        }
    )
    return _replace(baseline, epoch, {**epoch.rows, record.row: lowered})


def retire(baseline: Baseline, record: RetireRecord, *, name: str) -> Baseline:
    """Return the baseline with the record's rows retired; their ``best_ever`` is kept."""
    rows: dict[Any, RowEntry] = {}
    for row in record.rows:
        epoch, entry = _find(baseline, record, row, name)
        if effect_of(entry.state, Event.RETIRE) is not Effect.RETIRE:
            raise _refused(name, "rows", str(row), f"is {entry.state}", "retire active rows only")
        rows[row] = entry.model_copy(update={"state": RatchetState.RETIRED})
    return _replace(baseline, epoch, {**epoch.rows, **rows})


def _find(baseline: Baseline, record: _Signed, row: Row, name: str) -> tuple[Epoch, RowEntry]:
    if record.host != baseline.host:
        raise _refused(name, "host", record.host, f"the baseline is of {baseline.host}", "use that host's baseline")
    for epoch in baseline.epochs:
        if epoch.key.sha256 == record.epoch_sha256:
            if row in epoch.rows:
                return epoch, epoch.rows[row]
            raise _refused(name, "row", str(row), "has no floor in this epoch", "see lqw baseline show")
    known = ", ".join(epoch.key.sha256[:12] for epoch in baseline.epochs)
    raise _refused(name, "epoch_sha256", record.epoch_sha256, f"unknown epoch; known: {known}", "see lqw baseline show")


def _refused(name: str, field: str, value: object, problem: str, remedy: str) -> ParamsError:
    return ParamsError(file=name, field=field, value=value, problem=problem, remedy=remedy)


def _replace(baseline: Baseline, old: Epoch, rows: dict[Any, RowEntry]) -> Baseline:
    new = old.model_copy(update={"rows": rows})
    return baseline.model_copy(update={"epochs": tuple(new if epoch is old else epoch for epoch in baseline.epochs)})

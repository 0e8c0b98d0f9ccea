"""Rebase and retire: how a floor goes down and how a row stops gating, each with a signed reason in its own file."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lqw.noise.rows import Row
from lqw.ratchet.baseline import Baseline, Epoch, FloorSource, Point, RatchetState, RowEntry
from lqw.ratchet.machine import Effect, Event, effect_of
from lqw.records import Day, Sha256, TwoPersonRecord, refused

__all__ = ["RatchetRecord", "RebaseRecord", "RetireRecord", "rebase", "retire"]

SAME_RATIO = 1e-3  # relative: a record may round a ratio to what lqw baseline show prints


class RatchetRecord(TwoPersonRecord):
    """A record about rows of one epoch."""

    epoch_sha256: Sha256


class RebaseRecord(RatchetRecord):
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
        if self.expires is not None and self.expires <= self.created:
            raise ValueError("expires must lie after created")
        if self.new_floor >= self.old_floor:
            raise ValueError("a rebase lowers a floor; only a fresh batch of an improved release raises one")
        return self


def _each_once(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    if len(set(rows)) < len(rows):
        raise ValueError("a row stands twice")
    return rows


class RetireRecord(RatchetRecord):
    """Stop gating rows that are no longer measured."""

    schema_: Literal["lqw-retire/1"] = Field(default="lqw-retire/1", alias="schema")
    rows: Annotated[tuple[Row, ...], Field(min_length=1), AfterValidator(_each_once)]


def rebase(
    baseline: Baseline, record: RebaseRecord, evidence: Point, *, name: str, record_sha256: str = ""
) -> Baseline:
    """Return the baseline with one floor lowered to what the evidence receipt measured.

    Parameters
    ----------
    evidence : Point
        The row in the receipt that the record names; its value must be the new floor.
    name : str
        The record's file, for messages.
    record_sha256 : str
        Of that file; the row's entry names it.

    Raises
    ------
    ParamsError
        Naming the field that contradicts the baseline or the evidence.
    """
    epoch, entry = _find(baseline, record, record.row, name)
    if effect_of(entry.state, Event.REBASE) is not Effect.LOWER_FLOOR:
        raise refused(name, "row", str(record.row), f"is {entry.state}", "rebase active rows only")
    held = entry.floor_on(record.created)
    if not math.isclose(record.old_floor, math.exp(held.value), rel_tol=SAME_RATIO):
        problem = f"the baseline's floor on {record.created} is {math.exp(held.value):.4f}"
        raise refused(name, "old_floor", record.old_floor, problem, "look it up with lqw baseline show")
    if evidence.receipt_sha256 != record.evidence_receipt_sha256:
        problem = f"the evidence is of receipt {evidence.receipt_sha256[:12]}…"
        raise refused(name, "evidence_receipt_sha256", record.evidence_receipt_sha256, problem, "name its receipt")
    if not math.isclose(record.new_floor, math.exp(evidence.value), rel_tol=SAME_RATIO):
        problem = f"the evidence measured {math.exp(evidence.value):.4f}"
        raise refused(name, "new_floor", record.new_floor, problem, "a floor is measured, never chosen")
    if evidence.value >= held.value:
        problem = f"the evidence is no worse than the floor of {math.exp(held.value):.6f}"
        raise refused(name, "new_floor", record.new_floor, problem, "there is nothing to rebase")
    lowered = entry.model_copy(
        update={
            "floor": evidence,
            "floor_source": FloorSource.REBASE,
            "last": None,  # the second reference would keep blocking the loss that two people have accepted
            "floor_expires": record.expires or "",
            "floor_before": _returning(entry, held) if record.expires else None,
            "record_sha256": record_sha256,
        }
    )
    return _replace(baseline, epoch, {**epoch.rows, record.row: lowered})


def _returning(entry: RowEntry, held: Point) -> Point:
    """Return the floor that comes back when a term ends: the last one that had none, so that terms never add up."""
    return entry.floor_before if entry.floor_before is not None else held


def retire(baseline: Baseline, record: RetireRecord, *, name: str, record_sha256: str = "") -> Baseline:
    """Return the baseline with the record's rows retired; their ``best_ever`` is kept."""
    rows: dict[Any, RowEntry] = {}
    for row in record.rows:
        epoch, entry = _find(baseline, record, row, name)
        if effect_of(entry.state, Event.RETIRE) is not Effect.RETIRE:
            raise refused(name, "rows", str(row), f"is {entry.state}", "retire active rows only")
        rows[row] = entry.model_copy(update={"state": RatchetState.RETIRED, "record_sha256": record_sha256})
    return _replace(baseline, epoch, {**epoch.rows, **rows})


def _find(baseline: Baseline, record: RatchetRecord, row: Row, name: str) -> tuple[Epoch, RowEntry]:
    if record.host != baseline.host:
        raise refused(name, "host", record.host, f"the baseline is of {baseline.host}", "use that host's baseline")
    for epoch in baseline.epochs:
        if epoch.key.sha256 == record.epoch_sha256:
            if row in epoch.rows:
                return epoch, epoch.rows[row]
            raise refused(name, "row", str(row), "has no floor in this epoch", "see lqw baseline show")
    known = ", ".join(epoch.key.sha256[:12] for epoch in baseline.epochs)
    raise refused(name, "epoch_sha256", record.epoch_sha256, f"unknown epoch; known: {known}", "see lqw baseline show")


def _replace(baseline: Baseline, old: Epoch, rows: dict[Any, RowEntry]) -> Baseline:
    new = old.model_copy(update={"rows": rows})
    return baseline.model_copy(update={"epochs": tuple(new if epoch is old else epoch for epoch in baseline.epochs)})

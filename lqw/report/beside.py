"""Engines beside as lines of text: every planned row of every one declared, with a value or a reason. Never gating."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.metrics.values import start_values
from lqw.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.metrics import RowId
    from lqw.metrics.values import RowValue
    from lqw.report.facts import Facts
    from lqw.samples import BesideRecord
    from lqw.verdict.results import RowResult

__all__ = ["NOTE", "BesideTable", "beside_tables", "declared", "engine_lines"]

NOTE = "Measured once each, after all pairs, with the arms' own prompts. Published, never gating."


@dataclass(frozen=True, slots=True)
class BesideTable:
    """One model: ``cells`` are a row each: its id, subject, comparator, then the engines of ``heads``.

    ``reasons`` say, once each, why a cell has no number.
    """

    model: str
    heads: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]


def declared(facts: Facts) -> tuple[str, ...]:
    """Return the names the params give to engines beside, in their order."""
    release = facts.params.get("release")
    listed = release.get("beside", []) if isinstance(release, dict) else []
    return tuple(str(one["name"]) for one in listed if isinstance(one, dict) and "name" in one)


def _launch_of(row: RowId, protocol: dict[str, Any]) -> set[int]:
    """Return the launches that speak for a row: that of its step; for memory all."""
    launches = protocol.get("launches", [])
    if row.kind.step == "memory":
        return set(range(len(launches)))
    kind = row.kind.step
    return {
        number
        for number, launch in enumerate(launches)
        for step in launch["steps"]
        if step["kind"] == kind and row.size in (None, step["streams"] if kind == "agg" else step["prompt_tokens"])
    }


def _value(row: RowId, records: Sequence[BesideRecord], min_window_s: float) -> RowValue | None:
    """Return the row's value: the largest over the launches that speak for it, or the first reason for none."""
    found = [start_values(one, [row], min_window_s=min_window_s).get(row) for one in records]
    known = [one for one in found if one is not None]
    failed = next((one for one in known if one.value is None), None)
    return failed or max(known, key=lambda one: one.value or 0.0, default=None)


def _cell(row: RowId, judged: RowResult | None, found: RowValue | None, records: Sequence[BesideRecord]) -> str:
    if found is None:
        return "not measured"
    if found.value is None:
        return f"† {found.failure.reason}" if found.failure else "†"
    text = words.value(found.value, row.kind.unit)
    if row.metric == "vram_peak" and any(
        one.engine and one.engine.settings.get("vram") == "reserved" for one in records
    ):
        text += " reserved"
    if judged is None or not judged.comparator:
        return text
    return f"{text} ({words.ratio((found.value / judged.comparator) ** row.kind.sign)})"


def beside_tables(facts: Facts) -> list[BesideTable]:
    """Return one table a model; none where the params declare no engine beside."""
    names = declared(facts)
    protocol = facts.params.get("protocol", {})
    judged = {row.row: row for row in facts.rows}
    out = []
    for model in facts.models if names else ():
        cells: list[tuple[str, ...]] = []
        reasons: dict[str, None] = {}
        for row in (one for one in facts.planned if one.model == model):
            launches, line = _launch_of(row, protocol), []
            for name in names:
                records = [
                    one for one in facts.besides if (one.name, one.model) == (name, model) and one.launch in launches
                ]
                found = _value(row, records, float(protocol.get("min_window_s", 0.0)))
                line.append(_cell(row, judged.get(row), found, records))
                if found is not None and found.failure is not None:
                    reasons.setdefault(f"{name}: {found.failure.reason}: {found.failure.detail}", None)
            both = judged.get(row)
            arms = (
                (words.value(both.subject, both.unit), words.value(both.comparator, both.unit)) if both else ("–", "–")
            )
            cells.append((row.short, *arms, *line))
        out.append(BesideTable(model, ("row", "subject", "comparator", *names), tuple(cells), tuple(reasons)))
    return out


def engine_lines(facts: Facts) -> list[tuple[str, str]]:
    """Return name and identity of every engine beside that became ready, once each."""
    out: dict[str, str] = {}
    for one in facts.besides:
        if one.engine is not None:
            hashed = f", binary sha256 {one.engine.binary_sha256}" if one.engine.binary_sha256 else ""
            out.setdefault(one.name, f"{one.engine.version}{hashed}; {' '.join(one.engine.command)}".rstrip("; "))
    return list(out.items())

"""How far each row is from what the device can do at best: table, sentence and the line in the curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lqw.metrics.digits import percent
from lqw.report import words
from lqw.report.figures import Curve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.report.facts import Facts
    from lqw.verdict.results import RowResult

__all__ = ["HEADS", "limit_curve", "roofline_lead", "roofline_lines"]

HEADS = ("row", "limit", "bound by", "bytes of a pass", "operations of a pass", "subject", "comparator")
NONE = (
    "No roofline: this receipt carries neither the model's bytes nor the machine's measured bandwidth, and one guessed "
    "would look like one measured. Measure it with lqw doctor PARAMS --roofline."
)


def _number(raw: Any) -> float | None:
    """Return what a receipt, perhaps a broken one, has as a number above 0."""
    good = isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw) and raw > 0
    return float(raw) if good else None


def _part(facts: Facts, name: str) -> Mapping[str, Any]:
    part = facts.roofline.get(name)
    return part if isinstance(part, dict) else {}


def _row(facts: Facts, row: str) -> Mapping[str, Any]:
    found = _part(facts, "rows").get(row)
    return found if isinstance(found, dict) else {}


def _large(raw: Any, unit: str) -> str:
    value = _number(raw)
    if value is None:
        return "–"
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor:
            return f"{words.number(value / factor)} {prefix}{unit}"
    return f"{words.number(value)} {unit}"


def _share(raw: Any) -> str:
    value = _number(raw)
    return "–" if value is None else percent(value / 100)


def roofline_lines(facts: Facts) -> list[tuple[str, ...]]:
    """Return a line for each row that has a limit, in the plan's order."""
    out: list[tuple[str, ...]] = []
    for row in facts.planned:
        found = _row(facts, str(row))
        if (limit := _number(found.get("limit"))) is not None:
            work = (_large(found.get("bytes"), "B"), _large(found.get("flops"), "op"))
            shares = (_share(found.get("subject_percent")), _share(found.get("comparator_percent")))
            out.append((str(row), words.value(limit, row.kind.unit), str(found.get("by")), *work, *shares))
    return out


def roofline_lead(facts: Facts) -> str:
    """Return what the table is of, or why there is none; nothing where no row was timed."""
    if not facts.roofline:
        return NONE if any(row.row.metric == "ttft" for row in facts.rows) else ""
    device = facts.roofline.get("device")
    why = "; ".join(f"{name}: {reason}" for name, reason in _part(facts, "without").items())
    return (
        f"Measured once on {device}: bytes over copy bandwidth, operations over matmul rate, the longer of both. "
        + (
            f"Without a limit: {why}."
            if why
            else "A yardstick, not a wall: more than 100 % can be seen. It gates nothing."
        )
    )


def limit_curve(facts: Facts, rows: Sequence[RowResult], metric: str) -> tuple[Curve, ...]:
    """Return the limits of a sized metric of one model as a curve; none with fewer than two."""
    sized = [
        (row.row.size, _number(_row(facts, str(row.row)).get("limit"))) for row in rows if row.row.metric == metric
    ]
    points = tuple((float(size), limit) for size, limit in sized if size and limit)
    return (Curve("limit", "limit", points),) if len(points) > 1 else ()

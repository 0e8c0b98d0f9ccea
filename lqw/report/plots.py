"""What the page draws, and of which rows: forest, strips of pairs, curves, staircases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.report import figures, words
from lqw.report.history import read_history, steps_of
from lqw.report.roofline import limit_curve
from lqw.report.words import Kind

if TYPE_CHECKING:
    from lqw.report.facts import Facts

__all__ = ["forest", "series"]

CURVES = (
    ("ttft", "Time to first token", "ms", "prompt tokens"),
    ("agg", "Aggregate rate", "tok/s", "parallel streams"),
    ("agg_whole", "Aggregate rate, first request to last token", "tok/s", "parallel streams"),
)
LEGEND = (
    "Grey: what noise can explain; a mark left of it is ✕ RED. Whisker: its left end must clear the dashed margin for "
    "a PASS. Marks: ● passed, ○ not decided, ✕ red or void; ◇ the last release."
)


def forest(facts: Facts, margin: float) -> dict[str, Any]:
    """Return every banded row against its floor, in one scale, by model; nothing where no row has a floor."""
    rows = [row for row in facts.rows if row.band is not None and row.band.delta_floor is not None]
    if not rows or facts.kind is Kind.INCOMPLETE:
        return {}
    scale = figures.forest_axis(rows, margin)
    groups = []
    for model in facts.models:
        lines = [
            (row.row.short, f"{words.SYMBOLS[row.verdict]} {words.ratio(row.against_floor)}",
             figures.forest(row, scale, margin))
            for row in facts.rows
            if row.row.model == model
        ]  # fmt: skip
        groups.append((model, lines))
    caption = f"1× is the floor; the dashed line is the margin, {words.ratio(1 - margin)}. Left is worse, log scale."
    return {"forest": groups, "axis": figures.axis(scale), "forest_caption": caption, "legend": LEGEND}


def series(facts: Facts) -> dict[str, Any]:
    """Return the paired values in run order, the curves over length and streams, and the staircases."""
    if facts.kind is Kind.INCOMPLETE:
        return {}
    orders = facts.plan.get("orders", {})
    strips: dict[str, list[figures.Plot]] = {}
    for row in facts.rows:
        if row.subject_values:
            strips.setdefault(row.row.model, []).append(figures.strip(row, orders.get(row.row.model, [])))
    drawn: dict[str, list[figures.Plot]] = {}
    for model in facts.models:
        rows = [row for row in facts.rows if row.row.model == model]
        for metric, title, unit, across in CURVES:
            if lines := figures.scaling(rows, metric):
                lines += limit_curve(facts, rows, metric)
                plot = figures.curves(f"{title}, {model}", f"{model}-{metric}", lines, unit, across)
                drawn.setdefault(model, []).append(plot)
    return {"strips": list(strips.items()), "curves": list(drawn.items()), "stairs": _stairs(facts)}


def _stairs(facts: Facts) -> list[tuple[str, list[figures.Plot]]]:
    """Return each model's staircases; none for rows of which this is the first run."""
    history = read_history(facts.store) if facts.store is not None else ()
    out: dict[str, list[figures.Plot]] = {}
    for row in facts.rows:
        steps = steps_of(row, facts, history)
        if len(steps) > 1:
            out.setdefault(row.row.model, []).append(figures.staircase(row, steps))
    return list(out.items())

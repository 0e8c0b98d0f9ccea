"""The drawings of the report, each a pure function from judged rows to SVG with its values as alternative text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lqw.outcomes import RowState, RowVerdict
from lqw.report import svg, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from lqw.report.history import Step
    from lqw.verdict.results import RowResult

__all__ = ["Curve", "Plot", "axis", "curves", "forest", "forest_axis", "scaling", "staircase", "strip"]

ROW_H = 26.0
_MARKS = {"bad": "cross", "void": "cross", "open": "ring", "good": "dot"}  # told apart without colour
WIDEST = math.log(6.0)  # beyond six times the floor a whisker is cut, with its number beside it


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with the heading and the words that belong beside it."""

    key: str
    title: str
    svg: Markup
    caption: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """One engine's values, or the limit, over a size (prompt tokens, streams)."""

    name: str
    cls: str
    points: tuple[tuple[float, float], ...]


def _reach(row: RowResult) -> list[float]:
    """Return the logarithms a forest row must show, relative to its floor."""
    band = row.band
    if band is None or band.delta_floor is None:
        return []
    spread = band.delta_floor - band.lower if band.lower is not None else 0.0
    last = band.last - band.floor if band.last is not None and band.floor is not None else 0.0
    return [band.delta_floor - spread, band.delta_floor + spread, band.threshold or 0.0, last, band.delta_floor]


def forest_axis(rows: Sequence[RowResult], margin: float) -> svg.Scale:
    """Return the common log scale of a forest: ratio to the floor, room for every row and for the margin."""
    reach = [x for row in rows for x in _reach(row)]
    low = max(-WIDEST, min([math.log1p(-margin), *reach])) - 0.06
    high = min(WIDEST, max([0.1, *reach])) + 0.06
    return svg.Scale(math.exp(low), math.exp(high), 1.0, 99.0, log=True)


def axis(scale: svg.Scale) -> Markup:
    """Return the numbers of a forest's axis; the floor is at 1×."""
    parts = []
    for tick in _ticks(scale):
        parts += [svg.text(scale(tick), 13, f"{tick:g}×", "num"), svg.line(scale(tick), 18, scale(tick), 22, "tick")]
    return svg.figure(parts, 22, cls="axis")


def _ticks(scale: svg.Scale) -> list[float]:
    wanted = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
    inside = [tick for tick in wanted if scale.low <= tick <= scale.high]
    out: list[float] = []
    for tick in sorted(inside, key=lambda t: (t != 1.0, abs(math.log(t)))):
        if all(abs(scale(tick) - scale(other)) >= 10 for other in out):  # noqa: PLR2004 - percent: a number's width on a phone
            out.append(tick)
    return sorted(out)


def forest(row: RowResult, scale: svg.Scale, margin: float) -> Markup:
    """Return one row's line of the forest.

    Grey bar: what noise can explain below the floor; a dot left of it is RED. Whisker: the bound that must clear the
    dashed margin line for a PASS. Diamond: the last release.
    """
    mid = ROW_H / 2
    one, edge = scale(1.0), scale(1.0 - margin)
    parts = [svg.line(edge, 0, edge, ROW_H, "margin"), svg.line(one, 0, one, ROW_H, "floor")]
    band = row.band
    if band is None or band.delta_floor is None or row.against_floor is None:
        verdict = str(row.verdict).replace("_", " ")
        parts.append(svg.text(one, mid + 4, "no floor" if row.verdict is RowVerdict.NEW else verdict, "quiet halo"))
        return svg.figure(parts, ROW_H, alt=f"{row.row}: {verdict}, not compared with a floor")
    alt = f"{row.row}: {words.ratio(row.against_floor)} of its floor"
    if band.threshold is not None:
        left = scale(math.exp(band.threshold))
        parts.insert(0, svg.rect(left, 5, one - left, ROW_H - 10, "band"))
        alt += f"; red below {words.ratio(math.exp(band.threshold))}"
    if band.last is not None and band.floor is not None:
        parts.append(svg.mark(scale(math.exp(band.last - band.floor)), mid, 5, "diamond", "last"))
        alt += f"; last release {words.ratio(math.exp(band.last - band.floor))}"
    if band.lower is not None:
        spread = band.delta_floor - band.lower
        ends = [scale(math.exp(band.delta_floor + way * spread)) for way in (-1, 1)]
        parts.append(svg.line(ends[0], mid, ends[1], mid, "whisker"))
        parts += [svg.line(x, mid - 4, x, mid + 4, "whisker") for x in ends]
        alt += f"; bound {words.ratio(math.exp(band.lower))}, which must exceed {words.ratio(1 - margin)}"
    tone = tone_of(row)
    at = scale(row.against_floor)
    parts.append(svg.mark(at, mid, 5, _MARKS[tone], tone))
    if row.against_floor < scale.low:  # off the scale: the mark stands at the edge, and says so
        parts.append(svg.text(at + 2, mid + 4, f"← {words.ratio(row.against_floor)}", "halo", "start"))
    elif row.against_floor > scale.high:
        parts.append(svg.text(at - 2, mid + 4, f"{words.ratio(row.against_floor)} →", "halo", "end"))
    return svg.figure(parts, ROW_H, alt=f"{alt}. {str(row.verdict).replace('_', ' ')}")


def tone_of(row: RowResult) -> str:
    """Return the class of a row's marks."""
    if row.verdict in (RowVerdict.RED, RowVerdict.SHIFT):
        return "bad"
    if row.verdict is RowVerdict.VOID:
        return "void"
    return "open" if row.verdict in words.BLOCKING else "good"


def strip(row: RowResult, order: Sequence[str]) -> Plot:
    """Return a row's pairs in run order: both engines' values on one log axis, joined pair by pair.

    *order* says per pair who started first, ``"SC"`` or ``"CS"``; the number of a pair whose subject ran first is
    underlined.
    """
    height, top, bottom = 88.0, 10.0, 66.0
    values = [*row.subject_values, *row.comparator_values]
    pad = max(math.log(max(values) / min(values)) * 0.12, 0.02)
    scale = svg.Scale(min(values) * math.exp(-pad), max(values) * math.exp(pad), bottom, top, log=True)
    across = svg.Scale(0.5, len(row.subject_values) + 0.5, 0.0, 100.0)
    parts, told = [svg.line(0, bottom + 5, 100, bottom + 5, "tick")], []
    for pair, (mine, theirs) in enumerate(zip(row.subject_values, row.comparator_values, strict=True), start=1):
        x, first = across(pair), pair <= len(order) and order[pair - 1] == "SC"
        parts += [
            svg.line(x, scale(mine), x, scale(theirs), "join"),
            svg.mark(x, scale(theirs), 5, "diamond", "theirs"),
            svg.mark(x, scale(mine), 4.5, "dot", "ours"),
            svg.text(x, height - 4, str(pair), "num first" if first else "num"),
        ]
        told.append(f"{words.value(mine, row.unit)} against {words.value(theirs, row.unit)}")
    alt = f"{row.row}, subject against comparator, pair by pair in run order: {'; '.join(told)}"
    caption = ", ".join(words.ratio(math.exp(d)) for d in row.d)
    return Plot(str(row.row), row.row.short, svg.figure(parts, height, alt=alt, cls="strip"), caption, tone_of(row))


def staircase(row: RowResult, steps: Sequence[Step]) -> Plot:
    """Return a row's releases, oldest first, as dots, their floors as a staircase; the last dot is this run."""
    height, top, bottom = 72.0, 8.0, 56.0
    values = [x for step in steps for x in (step.ratio, step.floor) if x is not None]
    pad = max(math.log(max(values) / min(values)) * 0.12, 0.02)
    scale = svg.Scale(min(values) * math.exp(-pad), max(values) * math.exp(pad), bottom, top, log=True)
    across = svg.Scale(0.5, len(steps) + 0.5, 0.0, 100.0)
    parts, floor = [svg.line(0, bottom + 5, 100, bottom + 5, "tick")], None
    for at, step in enumerate(steps, start=1):
        if step.floor is not None:
            left, right, y = across(at - 0.5), across(at + 0.5), scale(step.floor)
            if floor is not None and floor != y:
                parts.append(svg.line(left, floor, left, y, "floor"))
            parts.append(svg.line(left, y, right, y, "floor"))
            floor = y
    marks = [(across(at), scale(step.ratio)) for at, step in enumerate(steps, start=1)]
    parts += [svg.line(*a, *b, "join") for a, b in pairwise(marks)]
    parts += [svg.mark(x, y, 2.5, "dot", "ours") for x, y in marks[:-1]]
    tone = tone_of(row)
    parts.append(svg.mark(*marks[-1], 5, _MARKS[tone], tone))
    told = ", ".join(f"{step.release} {words.ratio(step.ratio)}" for step in steps)
    alt = f"{row.row}, ratio by release, oldest first: {told}; floor now {words.ratio(steps[-1].floor)}"
    caption = f"{steps[0].release} … {steps[-1].release}; floor {words.ratio(steps[-1].floor)}"
    return Plot(str(row.row), row.row.short, svg.figure(parts, height, alt=alt, cls="strip"), caption, tone)


def curves(title: str, key: str, lines: Sequence[Curve], unit: str, across: str) -> Plot:
    """Return values over a size for several engines, both axes logarithmic, markers told apart by shape."""
    height, top, bottom = 230.0, 16.0, 196.0
    xs = sorted({x for curve in lines for x, _ in curve.points})
    ys = [y for curve in lines for _, y in curve.points]
    x_scale = svg.Scale(xs[0], xs[-1], 19.0, 96.0, log=True)
    y_scale = svg.Scale(min(ys) / 1.12, max(ys) * 1.12, bottom, top, log=True)
    parts = [svg.line(0, bottom + 8, 100, bottom + 8, "tick")]
    for tick in svg.log_ticks(y_scale.low, y_scale.high, 5):
        y = y_scale(tick)
        parts += [svg.line(0, y, 100, y, "grid"), svg.text(0.3, y - 3, f"{tick:,g} {unit}", "num", "start")]
    parts += [svg.text(x_scale(x), height - 4, f"{x:,.0f}", "num") for x in xs]
    told = []
    for curve in lines:
        marks = [(x_scale(x), y_scale(y)) for x, y in sorted(curve.points)]
        parts += [svg.line(*a, *b, f"path {curve.cls}") for a, b in pairwise(marks)]
        shape = {"ours": "dot", "theirs": "diamond"}.get(curve.cls)
        parts += [svg.mark(x, y, 5, shape, curve.cls) for x, y in marks if shape]
        told.append(f"{curve.name}: " + ", ".join(f"{words.value(y, unit)} at {x:,.0f}" for x, y in curve.points))
    alt = f"{title} by {across}. " + "; ".join(told)
    return Plot(key, title, svg.figure(parts, height, alt=alt, cls="curves"), across)


def scaling(rows: Sequence[RowResult], metric: str) -> tuple[Curve, ...]:
    """Return both engines' curves of a sized metric of one model; none with fewer than two valid sizes."""
    sized = [row for row in rows if row.row.metric == metric and row.state is RowState.MEASURED]
    both = [(float(row.row.size or 0), row.subject, row.comparator) for row in sized]
    points = [(size, mine, theirs) for size, mine, theirs in both if size and mine and theirs]
    if len(points) < 2:  # noqa: PLR2004 - a curve needs two points
        return ()
    return (
        Curve("subject", "ours", tuple((size, mine) for size, mine, _ in points)),
        Curve("comparator", "theirs", tuple((size, theirs) for size, _, theirs in points)),
    )

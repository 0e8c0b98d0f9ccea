"""A row over all its releases: drawn once, shown twice, as the sparkline of the heat map and as a large chart.

The large chart refers to the drawing of the small one: 65 rows × 200 releases cost their points once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup

from lqw.outcomes import RowVerdict
from lqw.report import svg, words
from lqw.report.words import BLOCKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.report.history import Past, PastRow

__all__ = ["Timeline", "timeline"]

WIDE, HIGH, ROOM = 100.0, 24.0, 2.0  # units of the drawing; it is stretched, its lines are not
FRAME = Markup('<svg class="spark" role="img" aria-label="{}" viewBox="0 0 100 24" preserveAspectRatio="none">{}</svg>')
AIR = 0.02  # ln ratio above and below what is drawn


@dataclass(frozen=True, slots=True)
class Timeline:
    """The two drawings of a row, and what stands around the large one."""

    spark: Markup
    chart: Markup
    said: str
    high: str
    low: str
    first: str
    last: str


def timeline(row_id: str, past: Sequence[Past], key: str) -> Timeline | None:
    """Return a row's ratios from the oldest run to the newest; None where no run has one.

    Parameters
    ----------
    row_id : str
    past : sequence of Past
        Oldest first.
    key : str
        Of the drawing, unlike every other of the page.
    """
    found = [(at, one.rows[row_id]) for at, one in enumerate(past) if row_id in one.rows]
    ratios = [(at, row.ratio) for at, row in found if row.ratio is not None and row.verdict is not RowVerdict.VOID]
    if not ratios:
        return None
    floors = [(at, row.floor) for at, row in found if row.floor is not None]
    stopped = [at for at, row in found if row.verdict in BLOCKING]
    # what blocked may lie far off: it is marked over the whole height, and the scale is left to the rest
    calm = [value for at, value in ratios if at not in stopped] or [value for _, value in ratios]
    logs = [math.log(value) for value in (*calm, *(value for _, value in floors))]
    low, high = math.exp(min(logs) - AIR), math.exp(max(logs) + AIR)
    across = svg.Scale(0.0, max(1.0, len(past) - 1.0), ROOM, WIDE - ROOM)
    up = svg.Scale(low, high, HIGH - ROOM, ROOM, log=True)
    line = "M" + "L".join(f"{across(at):.1f} {up(value):.1f}" for at, value in ratios)
    steps = "".join(
        f"{'H' if number else 'M'}{across(at):.1f}{'V' if number else ' '}{up(value):.1f}"
        for number, (at, value) in enumerate(floors)
    )
    stops = "".join(f"M{across(at):.1f} 0V{HIGH:.0f}" for at in stopped)
    last_at, last = ratios[-1]
    drawn = Markup(
        '<g id="{}"><path class="stop" d="{}"/><path class="run" d="{}"/><path class="stair" d="{}"/>'
        '<path class="now" d="M{:.1f} {:.1f}h.01"/></g>'
    ).format(key, stops, line, steps, across(last_at), up(last))
    alt = _alt(row_id, [value for _, value in ratios], floors, [past[at].name for at in stopped])
    return Timeline(
        spark=FRAME.format(alt, drawn),
        chart=FRAME.format(alt, Markup('<use href="#{}"/>').format(key)),
        said=_said(found, past),
        high=words.ratio(high),
        low=words.ratio(low),
        first=_when(past[0]),
        last=_when(past[-1]),
    )


def _alt(row_id: str, values: Sequence[float], floors: Sequence[tuple[int, float]], stopped: Sequence[str]) -> str:
    said = (
        f"{row_id} over {len(values)} runs: first {words.ratio(values[0])}, least {words.ratio(min(values))}, "
        f"most {words.ratio(max(values))}, last {words.ratio(values[-1])}"
    )
    if floors:
        said += f"; floor now {words.ratio(floors[-1][1])}"
    return f"{said}; blocked {len(stopped)} times, last in {stopped[-1]}" if stopped else said


def _said(found: Sequence[tuple[int, PastRow]], past: Sequence[Past]) -> str:
    """Say where the floor last moved, and what blocked last."""
    floors = [(at, row.floor) for at, row in found if row.floor is not None]
    moved = [at for (_, before), (at, now) in pairwise(floors) if now != before]
    parts = []
    if floors:
        at = moved[-1] if moved else floors[0][0]
        parts.append(f"floor {words.ratio(floors[-1][1])} since {past[at].name}")
    if moved:
        before = next(value for at, value in reversed(floors) if at < moved[-1])
        parts.append(f"{words.ratio(before)} before")
    stopped = [(at, row) for at, row in found if row.verdict in BLOCKING]
    if stopped:
        at, row = stopped[-1]
        void = row.verdict is RowVerdict.VOID
        fall = "void" if void else words.change(row.against_floor) if row.against_floor is not None else ""
        parts.append(f"last blocked in {past[at].name}" + (f" ({fall})" if fall else ""))
    return ", ".join(parts)


def _when(past: Past) -> str:
    return f"{past.name} {past.started_utc[:10]}".strip()

"""The drawings of the lab: detection and false alarms.

Lines differ by dashes as well as by colour, and the values are in the alternative text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from lqw.lab.curves import LOSSES, NOISE_FACTORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.lab.curves import Curves

__all__ = ["curves_view"]

WIDTH, HEIGHT, LEFT, TOP, BELOW = 420, 230, 46, 10, 44
WIDE, HIGH = WIDTH - LEFT - 12, HEIGHT - TOP - BELOW
LINES = (("a", ""), ("b", "7 4"))


def curves_view(curves: Mapping[str, Curves], *, asked: int, alpha: float, margin: float) -> Markup:
    """Return the drawings: detection and silence against the true loss, the gate's false RED against louder noise.

    *alpha* and *margin* are drawn where they belong: what was promised beside what is kept. Of the *asked* releases
    fewer may be simulated so far: that is said.
    """
    losses = [100 * x for x in LOSSES]
    key = Markup("").join(
        Markup('<svg width="34" height="10" aria-hidden="true">{}</svg> <b class="{}">{}</b> ({} simulated) ').format(
            _stroke([(0, 5), (34, 5)], at), LINES[at][0], name, one.count(asked)
        )
        for at, (name, one) in enumerate(curves.items())
    )
    loss = "true loss of the row, %"
    return Markup('<p class="lqw-lab">{}</p><div class="lqw-lab side">{}{}{}</div>').format(
        key,
        _plot("a row that lost this much is RED", losses, loss, _lines(curves, "red"), across=100 * margin),
        _plot("… or passes in silence", losses, loss, _lines(curves, "missed"), across=100 * margin),
        _plot(
            "an unchanged release is RED", NOISE_FACTORS, "noise, multiples of the measured one",
            _lines(curves, "false_red"), level=alpha,
        ),
    )  # fmt: skip


def _lines(curves: Mapping[str, Curves], field: str) -> dict[str, list[float]]:
    return {name: [float(x) for x in getattr(one, field)] for name, one in curves.items()}


def _plot(
    title: str,
    at: Sequence[float],
    unit: str,
    lines: Mapping[str, Sequence[float]],
    *,
    level: float | None = None,
    across: float | None = None,
) -> Markup:
    """Return one drawing of shares from 0 to 1 against *at*; *level* and *across* are marked by a thin line."""
    right = max(at)

    def x(value: float) -> float:
        return LEFT + WIDE * value / right

    def y(share: float) -> float:
        return TOP + HIGH * (1 - share)

    parts = [_rung(y(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts += [
        Markup('<text x="{:.0f}" y="{}" text-anchor="middle">{:g}</text>').format(x(value), HEIGHT - BELOW + 16, value)
        for value in at
        if value == 0 or x(value) > LEFT + 18
    ]
    parts.append(
        Markup('<text x="{:.0f}" y="{}" text-anchor="middle">{}</text>').format(LEFT + WIDE / 2, HEIGHT - 8, unit)
    )
    for number, shares in enumerate(lines.values()):
        parts.append(_stroke([(x(value), y(share)) for value, share in zip(at, shares, strict=True)], number))
    if level is not None:
        parts.append(_mark((LEFT, y(level)), (LEFT + WIDE, y(level)), f"α = {level:.1%}"))
    if across is not None and across <= right:
        parts.append(_mark((x(across), TOP), (x(across), TOP + HIGH), "margin"))
    values = "; ".join(
        f"{name}: " + ", ".join(f"{value:g} {share:.0%}" for value, share in zip(at, shares, strict=True))
        for name, shares in lines.items()
    )
    return Markup(
        '<figure><figcaption>{}</figcaption>'
        '<svg width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{}">{}</svg></figure>'
    ).format(title, f"share against {unit}. {values}", Markup("").join(parts), w=WIDTH, h=HEIGHT)  # fmt: skip


def _rung(y: float, label: str) -> Markup:
    return Markup(
        '<line x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" opacity=".18"/>'
        '<text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
    ).format(LEFT, LEFT + WIDE, LEFT - 6, y + 4, label, y=y)


def _mark(start: tuple[float, float], end: tuple[float, float], text: str) -> Markup:
    (x1, y1), (x2, y2) = start, end
    return Markup(
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="currentColor" stroke-dasharray="1 3"/>'
        '<text x="{:.1f}" y="{:.1f}" opacity=".75" text-anchor="{}">{}</text>'
    ).format(
        x1, y1, x2, y2, x2 - 4 if y1 == y2 else x2 + 4, y1 - 5 if y1 == y2 else (y1 + y2) / 2,
        "end" if y1 == y2 else "start", text,
    )  # fmt: skip


def _stroke(points: Sequence[tuple[float, float]], number: int) -> Markup:
    kind, dash = LINES[number % len(LINES)]
    return Markup(
        '<polyline class="{}" points="{}" fill="none" stroke="currentColor" stroke-width="2.2" stroke-dasharray="{}"/>'
    ).format(kind, " ".join(f"{x:.1f},{y:.1f}" for x, y in points), dash)

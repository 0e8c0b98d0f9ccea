"""Fluid SVG: horizontal positions in percent, vertical ones in pixels, colours from the page's style sheet.

There is no ``viewBox``, so nothing scales: on a phone the plot gets narrower and its text stays as large as the
text around it, which a picture from a plotting library cannot do. Light, dark and print follow from CSS classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape

__all__ = ["Scale", "figure", "line", "log_ticks", "mark", "rect", "text"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps ``[low, high]`` on ``[start, stop]``, linearly or by logarithm; clips what lies outside."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, x: float) -> float:
        """Return the position of *x*."""
        low, high, x = (math.log(v) for v in (self.low, self.high, x)) if self.log else (self.low, self.high, x)
        share = (x - low) / (high - low) if high > low else 0.5
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between *low* and *high*, evenly spread on a log scale, at most *most* of them."""
    for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = [s * 10.0**e for e in range(first, last + 1) for s in steps if low <= s * 10.0**e <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """Return a line; x in percent, y in pixels."""
    return Markup('<line x1="{}%" y1="{}" x2="{}%" y2="{}" class="{}"/>').format(_n(x1), _n(y1), _n(x2), _n(y2), cls)


def rect(x: float, y: float, width: float, height: float, cls: str) -> Markup:
    """Return a rectangle; x and width in percent, y and height in pixels."""
    return Markup('<rect x="{}%" y="{}" width="{}%" height="{}" class="{}"/>').format(
        _n(x), _n(y), _n(max(width, 0.0)), _n(height), cls
    )


_SHAPES = {
    "dot": "M-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z",
    "diamond": "M0 -{r}L{r} 0L0 {r}L-{r} 0Z",
    "cross": "M-{r} -{r}L{r} {r}M-{r} {r}L{r} -{r}",
    "ring": "M-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z",
}


def mark(x: float, y: float, radius: float, shape: str, cls: str) -> Markup:
    """Return a marker of *radius* pixels; a nested svg carries the percentage that a path cannot."""
    path = _SHAPES[shape].format(r=_n(radius), d=_n(2 * radius))
    return Markup('<svg x="{}%" y="{}" class="at"><path d="{}" class="{} {}"/></svg>').format(
        _n(x), _n(y), path, shape, cls
    )


def text(x: float, y: float, content: str, cls: str = "", anchor: str = "middle") -> Markup:
    """Return text of the page's own size."""
    return Markup('<text x="{}%" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        _n(x), _n(y), cls, anchor, escape(content)
    )


def figure(parts: list[Markup], height: float, *, alt: str = "", cls: str = "") -> Markup:
    """Return the whole drawing. With *alt* it is an image that says its values; without, it is hidden decoration."""
    body = Markup("").join(parts)
    if not alt:
        return Markup('<svg class="plot {}" height="{}" aria-hidden="true" focusable="false">{}</svg>').format(
            cls, _n(height), body
        )
    return Markup('<svg class="plot {}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        cls, _n(height), alt, body
    )


def _n(x: float) -> str:
    return f"{x:.2f}".rstrip("0").rstrip(".") if x != int(x) else str(int(x))

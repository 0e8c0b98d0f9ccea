"""What the lab shows, as HTML: every verdict in words and a symbol, never by colour alone. Pure functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from markupsafe import Markup

from lqw.lab.curves import LOSSES, NOISE_FACTORS
from lqw.noise.rows import Call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.lab.compare import Flip, Judged, RowCall
    from lqw.lab.curves import Curves, Noise
    from lqw.lab.history import History, Release

__all__ = ["STYLE", "curves_view", "flips_view", "needs_view", "releases_view", "rows_view", "said"]

SYMBOL = {Call.RED: "✖", Call.PASS: "✔", Call.OPEN: "○"}
MOST_FLIPS = 60

STYLE = Markup(
    "<style>.lqw-lab table{border-collapse:collapse;margin:.3rem 0}.lqw-lab caption{text-align:left;font-weight:600;"
    "padding:.3rem 0}.lqw-lab th,.lqw-lab td{padding:.1rem .55rem;border-bottom:1px solid var(--jp-border-color2,#ccc);"
    "text-align:left;font-variant-numeric:tabular-nums}.lqw-lab td.n{text-align:right}.lqw-lab tr.flip td,"
    ".lqw-lab tr.flip th{background:var(--jp-layout-color2,#eee);font-weight:600}.lqw-lab .warn{border:2px solid;"
    "padding:.3rem .6rem;font-weight:600}.lqw-lab svg{font:12px sans-serif;fill:currentColor;max-width:100%}"
    ".lqw-lab .scroll{max-height:34rem;overflow:auto}</style>"
)


def said(call: Call | None) -> str:
    """Return a call with its symbol; a dash where nothing was said."""
    return "–" if call is None else f"{SYMBOL[call]} {call}"


def _table(caption: str, header: Sequence[str], rows: Sequence[tuple[bool, Sequence[str]]]) -> Markup:
    """Return a table; a row is (marked, cells), its first cell its heading."""
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(cell) for cell in header)
    body = Markup("").join(
        Markup('<tr{}><th scope="row">{}</th>{}</tr>').format(
            Markup(' class="flip"') if marked else "",
            cells[0],
            Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells[1:]),
        )
        for marked, cells in rows
    )
    return Markup(
        '<div class="lqw-lab scroll"><table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
        "</div>"
    ).format(caption, head, body)


def releases_view(
    history: History, first: Sequence[Judged | None], second: Sequence[Judged | None], names: tuple[str, str]
) -> Markup:
    """Return one line per release: what both methods say of its rows together, and what it would have cost."""
    rows = []
    for release, a, b in zip(history.releases, first, second, strict=True):
        if a is None or b is None:
            rows.append((False, (release.name, "nothing measured", "", "", "", "", "")))
            continue
        parted = sum(a.rows[row].call is not b.rows[row].call for row in a.rows)
        cells = (
            release.name, _whole(a), _whole(b), str(parted), _cost(a), _cost(b),
            "; ".join(_wants(name, one) for name, one in zip(names, (a, b), strict=True) if one.wanted),
        )  # fmt: skip
        rows.append((a.call is not b.call, cells))
    changed = sum(marked for marked, _ in rows)
    caption = f"{len(rows)} releases, {changed} with another verdict by {names[1]} than by {names[0]} (rows alone)"
    header = (
        "release",
        *names,
        "rows that differ",
        f"pairs, min: {names[0]}",
        f"pairs, min: {names[1]}",
        "not measured",
    )
    return _table(caption, header, rows)


def _whole(judged: Judged) -> str:
    red = sum(row.call is Call.RED for row in judged.rows.values())
    return said(judged.call) + (f" ({red} row{'s' if red > 1 else ''})" if red else "")


def _cost(judged: Judged) -> str:
    return f"{sum(judged.pairs.values())}, {judged.minutes:.0f}"


def _wants(name: str, judged: Judged) -> str:
    return f"{name} wants more pairs of {', '.join(judged.wanted)}"


def rows_view(release: Release, first: Judged | None, second: Judged | None, names: tuple[str, str]) -> Markup:
    """Return every row of one release under both methods side by side, what the gate said then beside them."""
    if first is None or second is None:
        return Markup('<p class="lqw-lab">{}: nothing was measured.</p>').format(release.name)
    rows = []
    for row, a in first.rows.items():
        b = second.rows[row]
        cells = (
            str(row), _ratio(a.delta), f"{a.sd:.1%}", said(release.recorded.get(row)),
            said(a.call), _limit(a), str(a.pairs), said(b.call), _limit(b), str(b.pairs),
        )  # fmt: skip
        rows.append((a.call is not b.call, cells))
    changed = sum(marked for marked, _ in rows)
    caption = f"release {release.name}: {len(rows)} rows, {changed} differ between {names[0]} and {names[1]}"
    each = [(name, f"{name}: RED below", f"{name}: pairs") for name in names]
    header = ("row", "of its floor", "SD of a pair", "recorded", *each[0], *each[1])
    return _table(caption, header, rows)


def _ratio(delta: float) -> str:
    return "no floor" if math.isnan(delta) else f"{math.exp(delta):.3f}×"


def _limit(row: RowCall) -> str:
    return "–" if math.isnan(row.threshold) else f"{math.exp(row.threshold):.3f}×"


def flips_view(flips: Sequence[Flip], before: str, after: str) -> Markup:
    """Return the rows of which two say different things; long lists are cut, and the cut is said."""
    rows = [(False, (f"{one.release} {one.row}", said(one.before), said(one.after))) for one in flips[:MOST_FLIPS]]
    more = f"; the first {MOST_FLIPS} are shown" if len(flips) > MOST_FLIPS else ""
    caption = f"{len(flips)} verdicts of rows flip from {before} to {after}{more}"
    return _table(caption, ("release, row", before, after), rows)


def needs_view(noise: Noise, pairs: Sequence[int | None], curves: Mapping[str, Curves]) -> Markup:
    """Return what each method costs, and the pairs each row needs for its own noise."""
    cost = [
        (
            False,
            (name, f"{one.pairs:.1f}", f"{one.minutes:.0f}", f"{_share(one.false_red[_PLAIN])}", _share(one.undecided)),
        )
        for name, one in curves.items()
    ]
    header = ("method", "pairs a model", "minutes a release", "false RED a release", "undecided")
    rows = [
        (need is None, (str(row), f"{sd:.2%}", "no number up to 200" if need is None else str(need)))
        for row, sd, need in zip(noise.rows, noise.sd, pairs, strict=True)
    ]
    return _table("cost of an unchanged release at the measured noise (simulated)", header, cost) + _table(
        "pairs one row needs to exclude a loss of the margin, unmoved", ("row", "measured SD of a pair", "pairs"), rows
    )


_PLAIN = NOISE_FACTORS.index(1.0)


def _share(value: float) -> str:
    return f"{value:.1%}"


def curves_view(curves: Mapping[str, Curves]) -> Markup:
    """Return the drawings: detection against the true loss, and the gate's false RED against louder noise."""
    n = next(iter(curves.values())).releases
    loss = [f"{x:.0%}" for x in LOSSES]
    detection = {name: [float(x) for x in one.red] for name, one in curves.items()}
    missed = {name: [float(x) for x in one.missed] for name, one in curves.items()}
    false = {name: [float(x) for x in one.false_red] for name, one in curves.items()}
    louder = [f"{x:g}×" for x in NOISE_FACTORS]
    note = Markup('<p class="lqw-lab">{} simulated releases a point; a share of 1 % needs 2,000 to be seen well.</p>')
    return (
        _plot("a row that lost this much is RED", loss, detection)
        + _plot("a row that lost this much passes in silence", loss, missed)
        + _plot("an unchanged release is RED, at this multiple of the measured noise", louder, false)
        + note.format(n)
    )  # fmt: skip


_DASH = ("", "6 4", "2 3", "8 3 2 3")
WIDTH, HEIGHT, LEFT, TOP = 520, 190, 44, 12


def _plot(title: str, at: Sequence[str], lines: Mapping[str, Sequence[float]]) -> Markup:
    """Return one drawing of shares from 0 to 1; lines differ by dashes and carry their names."""
    wide, high = WIDTH - LEFT - 130, HEIGHT - TOP - 28
    across = [LEFT + wide * i / max(len(at) - 1, 1) for i in range(len(at))]
    parts = [_rung(share, LEFT + wide, TOP + high * (1 - share)) for share in (0.0, 0.5, 1.0)]
    parts += [
        Markup('<text x="{:.0f}" y="{}" text-anchor="middle">{}</text>').format(x, HEIGHT - 12, label)
        for x, label in zip(across, at, strict=True)
    ]
    for number, (name, shares) in enumerate(lines.items()):
        dash, y = _DASH[number % len(_DASH)], TOP + 12 + 18 * number
        points = " ".join(f"{x:.1f},{TOP + high * (1 - share):.1f}" for x, share in zip(across, shares, strict=True))
        parts += [_stroke(points, dash), _stroke(f"{WIDTH - 122},{y} {WIDTH - 94},{y}", dash)]
        parts.append(Markup('<text x="{}" y="{}">{}</text>').format(WIDTH - 88, y + 4, name))
    values = "; ".join(
        f"{name}: " + ", ".join(f"{label} {share:.0%}" for label, share in zip(at, shares, strict=True))
        for name, shares in lines.items()
    )
    return Markup(
        '<figure class="lqw-lab"><figcaption>{}</figcaption>'
        '<svg width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{}">{}</svg></figure>'
    ).format(title, values, Markup("").join(parts), w=WIDTH, h=HEIGHT)


def _rung(share: float, right: float, y: float) -> Markup:
    return Markup(
        '<line x1="{}" x2="{}" y1="{y:.0f}" y2="{y:.0f}" stroke="currentColor" opacity=".25"/>'
        '<text x="{}" y="{:.0f}" text-anchor="end">{:.0%}</text>'
    ).format(LEFT, right, LEFT - 5, y + 4, share, y=y)


def _stroke(points: str, dash: str) -> Markup:
    return Markup(
        '<polyline points="{}" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="{}"/>'
    ).format(points, dash)

"""What the lab shows, as HTML: every verdict in words and a symbol, never by colour alone. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from markupsafe import Markup
from scipy import special

from lqw.lab.curves import NOISE_FACTORS
from lqw.noise.rows import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lqw.lab.compare import Flip, Judged, RowCall
    from lqw.lab.curves import Curves, Noise
    from lqw.lab.history import History, Release
    from lqw.metrics import RowId

__all__ = ["STYLE", "flips_view", "label", "needs_view", "releases_view", "rows_view", "said", "summary_view"]

SYMBOL = {Call.RED: "✖", Call.PASS: "✔", Call.OPEN: "○"}
MOST_FLIPS = 60

STYLE = Markup(
    "<style>.lqw-lab{line-height:1.4}.lqw-lab table{border-collapse:collapse;margin:.3rem 0}.lqw-lab caption,"
    ".lqw-lab figcaption{text-align:left;font-weight:600;padding:.3rem 0;white-space:nowrap}"
    ".lqw-lab th,.lqw-lab td{padding:.12rem .7rem;border-bottom:1px solid var(--jp-border-color2,#ccc);"
    "text-align:left;font-variant-numeric:tabular-nums;white-space:nowrap}.lqw-lab td.n,.lqw-lab th.n{text-align:right}"
    ".lqw-lab thead th{position:sticky;top:0;background:var(--jp-layout-color1,#fff);vertical-align:bottom}"
    ".lqw-lab thead tr+tr th{top:1.65rem}.lqw-lab thead th[colspan]{border-left:1px solid;text-align:center}"
    ".lqw-lab tbody th{font-weight:400}.lqw-lab tr.flip td,.lqw-lab tr.flip th{background:var(--jp-layout-color2,#eee);"
    "font-weight:600}p.lqw-lab{margin:.2rem 0}.lqw-lab.warn{border:2px solid;padding:.3rem .6rem;font-weight:600}"
    ".lqw-lab.scroll{max-height:32rem;overflow:auto}.lqw-lab.side{display:flex;flex-wrap:wrap;gap:0 2rem}"
    ".lqw-lab svg{font:12px sans-serif;fill:currentColor;max-width:100%}.lqw-lab figure{margin:.4rem 0}"
    ".lqw-lab .a{color:#0060a8}.lqw-lab .b{color:#b34700}[data-jp-theme-light=false] .lqw-lab .a{color:#7cc4ff}"
    "[data-jp-theme-light=false] .lqw-lab .b{color:#ffab70}</style>"
)


def said(call: Call | None) -> str:
    """Return a call with its symbol; a dash where nothing was said."""
    return "–" if call is None else f"{SYMBOL[call]} {call}"


def label(release: Release, first: Judged | None, second: Judged | None) -> str:
    """Return how a release is offered: its name, and what both methods call it."""
    if first is None or second is None:
        return f"{release.name}: nothing measured"
    return f"{release.name}: {said(first.call)} | {said(second.call)}"


def _table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[tuple[bool, Sequence[str]]],
    *,
    over: Sequence[tuple[str, int]] = (),
    text: Sequence[int] = (0,),
) -> Markup:
    """Return a table; a row is (marked, cells), its first cell its heading.

    *over* is a line of (heading, columns) above the header; *text* are the columns that are no numbers.
    """
    side = ["t" if at in text else "n" for at in range(len(header))]
    top = Markup("").join(
        (Markup('<th scope="colgroup" colspan="{}">{}</th>') if name else Markup('<td colspan="{}">{}</td>')).format(
            n, name
        )
        for name, n in over
    )
    head = Markup("").join(
        Markup('<th scope="col" class="{}">{}</th>').format(s, h) for s, h in zip(side, header, strict=True)
    )
    body = Markup("").join(
        Markup('<tr class="{}"><th scope="row">{}</th>{}</tr>').format(
            "flip" if marked else "same",
            cells[0],
            Markup("").join(
                Markup('<td class="{}">{}</td>').format(s, c) for s, c in zip(side[1:], cells[1:], strict=True)
            ),
        )
        for marked, cells in rows
    )
    return Markup(
        '<div class="lqw-lab scroll"><table><caption>{}</caption><thead>{}<tr>{}</tr></thead><tbody>{}</tbody></table>'
        "</div>"
    ).format(caption, Markup("<tr>{}</tr>").format(top) if over else "", head, body)


def summary_view(
    history: History, both: Mapping[str, Sequence[Judged | None]], flipped: int, recorded: Mapping[str, int]
) -> Markup:
    """Return a line per method: how it judges the whole history; the truth beside it where that is known.

    Parameters
    ----------
    both : mapping of method name to what it says of every release
    flipped : int
        Rows of which the two say different things.
    recorded : mapping of method name to int
        Recorded verdicts that the method flips; empty where nothing is recorded.
    """
    header = ["method", *(said(call) for call in (Call.PASS, Call.RED, Call.OPEN)), "pairs", "minutes"]
    header += ["flips of the record"] if recorded else []
    truth = {r.name: r.slower for r in history.releases if r.slower is not None}
    header += ["slower rows found", "RED without cause"] if truth else []
    rows = []
    for name, judged in both.items():
        known = [one for one in judged if one is not None]
        calls = Counter(one.call for one in known)
        cells = [name, *(str(calls[call]) for call in (Call.PASS, Call.RED, Call.OPEN))]
        cells += [f"{sum(sum(one.pairs.values()) for one in known)}", f"{sum(one.minutes for one in known):.0f}"]
        cells += [str(recorded[name])] if recorded else []
        cells += _against_truth(history, judged) if truth else []
        rows.append((False, cells))
    caption = f"{len(history.releases)} releases; the methods part on {flipped} rows"
    return _table(caption, header, rows)


def _against_truth(history: History, judged: Sequence[Judged | None]) -> list[str]:
    planted: set[tuple[str, RowId]] = set()
    red: set[tuple[str, RowId]] = set()
    for release, one in zip(history.releases, judged, strict=True):
        if one is not None and release.slower is not None:
            planted |= {(release.name, row) for row in release.slower}
            red |= {(release.name, row) for row, call in one.rows.items() if call.call is Call.RED}
    return [f"{len(red & planted)} of {len(planted)}", f"{len(red - planted)} rows"]


def releases_view(
    history: History, first: Sequence[Judged | None], second: Sequence[Judged | None], names: tuple[str, str]
) -> Markup:
    """Return one line per release: what both methods say of its rows together, and what it would have cost."""
    rows = []
    for release, a, b in zip(history.releases, first, second, strict=True):
        if a is None or b is None:
            rows.append((False, (release.name, "nothing measured", *[""] * 7)))
            continue
        parted = sum(a.rows[row].call is not b.rows[row].call for row in a.rows)
        wants = [f"{name} wants more of {', '.join(one.wanted)}" for name, one in zip(names, (a, b), strict=True)
                 if one.wanted]  # fmt: skip
        cells = (release.name, *_whole(a), *_whole(b), str(parted), "; ".join(wants))
        rows.append((a.call is not b.call, cells))
    changed = sum(marked for marked, _ in rows)
    caption = f"{len(rows)} releases, {changed} with another verdict by {names[1]} than by {names[0]} (rows alone)"
    each = ("verdict", "pairs", "minutes")
    header = ("release", *each, *each, "rows that differ", "pairs that were never measured")
    shown = len(header) if any(cells[-1] for _, cells in rows) else len(header) - 1
    rows = [(marked, cells[:shown]) for marked, cells in rows]
    over = (("", 1), (names[0], 3), (names[1], 3), ("", shown - 7))
    return _table(caption, header[:shown], rows, over=over, text=(0, 1, 4, 8))


def _whole(judged: Judged) -> tuple[str, str, str]:
    red = sum(row.call is Call.RED for row in judged.rows.values())
    whole = said(judged.call) + (f" ({red} row{'s' if red > 1 else ''})" if red else "")
    return whole, str(sum(judged.pairs.values())), f"{judged.minutes:.0f}"


def rows_view(release: Release, first: Judged | None, second: Judged | None, names: tuple[str, str]) -> Markup:
    """Return every row of one release under both methods side by side, those on which they part first."""
    if first is None or second is None:
        return Markup('<p class="lqw-lab">{}: nothing was measured.</p>').format(release.name)
    rows = []
    for row, a in first.rows.items():
        b = second.rows[row]
        cells = (str(row), _ratio(a.delta), f"{a.sd:.1%}", said(release.recorded.get(row)), *_row(a), *_row(b))
        rows.append((a.call is not b.call, cells))
    rows.sort(key=lambda one: not one[0])
    changed = sum(marked for marked, _ in rows)
    caption = f"release {release.name}: {len(rows)} rows, {changed} differ between {names[0]} and {names[1]}"
    each = ("verdict", "RED below", "pairs")
    header = ("row", "of its floor", "SD of a pair", "recorded", *each, *each)
    return _table(caption, header, rows, over=(("", 4), (names[0], 3), (names[1], 3)), text=(0, 3, 4, 7))


def _row(row: RowCall) -> tuple[str, str, str]:
    return said(row.call), "–" if math.isnan(row.threshold) else f"{math.exp(row.threshold):.3f}×", str(row.pairs)


def _ratio(delta: float) -> str:
    return "no floor" if math.isnan(delta) else f"{math.exp(delta):.3f}×"


def flips_view(flips: Sequence[Flip], before: str, after: str) -> Markup:
    """Return the rows of which two say different things; long lists are cut, and the cut is said."""
    rows = [
        (False, (one.release, str(one.row), _ratio(one.delta), said(one.before), said(one.after)))
        for one in flips[:MOST_FLIPS]
    ]
    kinds = Counter((said(one.before), said(one.after)) for one in flips)
    counts = ", ".join(f"{n} from {old} to {new}" for (old, new), n in kinds.most_common())
    more = f"; the first {MOST_FLIPS} are shown" if len(flips) > MOST_FLIPS else ""
    caption = f"{before} → {after}: {len(flips)} rows flip" + (f" ({counts}{more})" if flips else "")
    header = ("release", "row", "of its floor", before, after)
    return _table(caption, header, rows, text=(0, 1, 3, 4))


def needs_view(noise: Noise, pairs: Sequence[int | None], curves: Mapping[str, Curves], *, asked: int) -> Markup:
    """Return what each method costs, and the pairs each model and row needs for its own noise.

    Of the *asked* releases fewer may be simulated so far: that is said.
    """
    cost = [
        (
            False,
            (name, one.count(asked), f"{one.pairs:.1f}", f"{one.minutes:.0f}", of(one.false_red[PLAIN], one.releases),
             of(one.undecided, one.releases)),
        )
        for name, one in curves.items()
    ]  # fmt: skip
    models = [_model(noise, pairs, at, name) for at, name in enumerate(noise.model_names)]
    rows = [
        (need is None, (str(row), f"{sd:.2%}", _need(need)))
        for row, sd, need in zip(noise.rows, noise.sd, pairs, strict=True)
    ]
    rows.sort(key=lambda one: -float(one[1][1].rstrip("%")))
    header = ("method", "simulated", "pairs a model", "minutes a release", "false RED a release", "undecided")
    return (
        _table("cost of an unchanged release at the measured noise", header, cost)
        + _table(
            "pairs and minutes that exclude a loss of the margin, by the loudest row of each model",
            ("model", "loudest row", "its SD of a pair", "pairs", "minutes"), models, text=(0, 1),
        )
        + _table("the same for every row, loudest first", ("row", "SD of a pair", "pairs"), rows)
    )  # fmt: skip


def _model(noise: Noise, pairs: Sequence[int | None], at: int, name: str) -> tuple[bool, tuple[str, ...]]:
    loudest = max((i for i in range(len(noise.rows)) if noise.models[i] == at), key=lambda i: noise.sd[i])
    need = pairs[loudest]
    minutes = "–" if need is None else f"{need * noise.pair_minutes.get(name, 0.0):.0f}"
    return need is None, (name, noise.rows[loudest].short, f"{noise.sd[loudest]:.2%}", _need(need), minutes)


def _need(need: int | None) -> str:
    return "no number up to 200" if need is None else str(need)


PLAIN = NOISE_FACTORS.index(1.0)


def of(share: float, releases: int) -> str:
    """Return a simulated share as counted, with its upper 95 % limit (Clopper and Pearson 1934)."""
    seen = round(float(share) * releases)
    most = 1.0 if seen == releases else float(special.betaincinv(seen + 1, releases - seen, 0.95))
    return f"{seen} of {releases} (at most {most:.0%})"

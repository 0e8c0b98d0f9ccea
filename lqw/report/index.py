"""``reports/index.html``: every host's releases and rows on one page, without script: heat map, sparklines, links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from lqw import __version__
from lqw.canonical import write_atomic
from lqw.outcomes import RowVerdict
from lqw.report import svg, words
from lqw.report.fragments import STYLES, style
from lqw.report.history import read_history
from lqw.report.words import BLOCKING, KINDS, SYMBOLS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lqw.report.history import Past, PastRow

__all__ = ["index_html", "write_index"]

MOST_SAID = 300  # characters of the newest run's sentence; its report has the rest
STEPS = (0.02, 0.05, 0.12)  # ln change at which a cell's shade deepens: a noise, a margin's half, a loss


@dataclass(frozen=True, slots=True)
class Host:
    """One section of the page: columns are runs, the newest first."""

    name: str
    past: tuple[Past, ...]
    groups: list[tuple[str, list[dict[str, Any]]]]
    heads: list[dict[str, str]]


def _shade(row: PastRow) -> str:
    """Return the class of a cell: ``w3`` … ``w1`` worse than its floor, ``b1`` … ``b3`` better, nothing between."""
    if row.against_floor is None or row.verdict is RowVerdict.VOID:
        return ""
    change = math.log(row.against_floor)
    depth = sum(abs(change) >= step for step in STEPS)
    return f"{'b' if change > 0 else 'w'}{depth}" if depth else ""


def _cell(row: PastRow | None) -> tuple[str, str]:
    """Return class and text of a cell: the change against the floor in percent, and a symbol where it blocks."""
    if row is None:
        return "none", "·"
    bare = row.against_floor is None or row.verdict is RowVerdict.VOID  # a void row's number says nothing
    mark = SYMBOLS[row.verdict] if bare or row.verdict in BLOCKING else ""
    percent = 0 if bare else round(100 * ((row.against_floor or 1.0) - 1))
    change = "" if bare else "0" if percent == 0 else f"{percent:+d}".replace("-", "−")
    block = " x" if row.verdict in BLOCKING else ""
    return f"{_shade(row)}{block}".strip(), f"{mark}{change}"


def _spark(row_id: str, past: Sequence[Past]) -> Markup:
    """Return a row's ratios from the oldest run to the newest, its floor as a staircase below them."""
    found = [(at, one.rows[row_id]) for at, one in enumerate(past) if row_id in one.rows]
    ratios = [(at, row.ratio) for at, row in found if row.ratio is not None]
    if not ratios:
        return Markup("")
    floors = [(at, row.floor) for at, row in found if row.floor is not None]
    logs = [math.log(value) for _, value in (*ratios, *floors)]
    low, high = min(logs) - 0.02, max(logs) + 0.02
    across = svg.Scale(0.0, max(1.0, len(past) - 1.0), 2.0, 98.0)
    up = svg.Scale(math.exp(low), math.exp(high), 22.0, 2.0, log=True)
    line = "M" + "L".join(f"{across(at):.1f} {up(value):.1f}" for at, value in ratios)
    steps = "".join(
        f"{'H' if number else 'M'}{across(at):.1f}{'V' if number else ' '}{up(value):.1f}"
        for number, (at, value) in enumerate(floors)
    )
    last_at, last = ratios[-1]
    alt = f"{row_id} over {len(ratios)} runs: first {words.ratio(ratios[0][1])}, least " + (
        f"{words.ratio(min(v for _, v in ratios))}, most {words.ratio(max(v for _, v in ratios))}, "
        f"last {words.ratio(last)}" + (f"; floor now {words.ratio(floors[-1][1])}" if floors else "")
    )
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" viewBox="0 0 100 24" preserveAspectRatio="none">'
        '<path class="stair" d="{}"/><path class="run" d="{}"/><path class="now" d="M{} {}h.01"/></svg>'
    ).format(alt, steps, line, f"{across(last_at):.1f}", f"{up(last):.1f}")


def _host(folder: Path, out: Path) -> Host | None:
    past = read_history(folder)
    if not past:
        return None
    newest_first = past[::-1]
    ids = list(dict.fromkeys(row for one in newest_first for row in one.rows))
    groups: dict[str, list[dict[str, Any]]] = {}
    for row_id in ids:
        model, _, short = row_id.rpartition("/")
        cells = [_cell(one.rows.get(row_id)) for one in newest_first]
        now = next((row.ratio for one in newest_first if (row := one.rows.get(row_id)) is not None), None)
        line = {"short": short, "spark": _spark(row_id, past), "ratio": words.ratio(now), "cells": cells}
        groups.setdefault(model, []).append(line)
    heads = [_head(one, out / folder.name) for one in newest_first]
    return Host(folder.name, past, list(groups.items()), heads)


def _head(past: Past, reports: Path) -> dict[str, str]:
    page = reports / past.name / "report.html"
    return {
        "name": past.name,
        "kind": str(past.kind),
        "symbol": KINDS[past.kind].symbol,
        "day": past.started_utc[:10],
        "href": f"{reports.name}/{past.name}/report.html" if page.is_file() else "",
        "sentence": shorten(past.sentence, MOST_SAID, placeholder=" …"),
        "state": "stop" if past.kind not in (words.Kind.PASS, words.Kind.FLOOR) else "go",
    }


def index_html(receipts: Path, out: Path) -> str:
    """Return the page of every host below *receipts*; links lead to the reports that exist below *out*."""
    folders = sorted(path for path in receipts.iterdir() if path.is_dir() and path.name != "parity")
    hosts = [host for folder in folders if (host := _host(folder, out)) is not None]
    environment = Environment(loader=FileSystemLoader(STYLES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.get_template("history.html.j2")
    return page.render(css=style("tokens", "page", "history"), hosts=hosts, version=__version__)


def write_index(receipts: Path, out: Path) -> Path:
    """Write ``index.html`` into *out* and return its path; OSError where a folder cannot be read or written."""
    page = out / "index.html"
    text = index_html(receipts, out)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(page, text.encode())
    return page

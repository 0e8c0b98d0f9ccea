"""``reports/index.html``: every host's releases and rows on one page, without script: heat map, sparklines, links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader

from lqw import __version__
from lqw.canonical import write_atomic
from lqw.outcomes import RowVerdict
from lqw.report import words
from lqw.report.fragments import STYLES, style
from lqw.report.history import read_history
from lqw.report.timeline import timeline
from lqw.report.words import BLOCKING, KINDS, SYMBOLS

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.report.history import Past, PastRow

__all__ = ["index_html", "write_index"]

MOST_STOPS = 20  # runs that blocked, told one by one
MOST_ROWS = 3  # rows named of each
MOST_SAID = 300  # characters of the newest run's sentence; its report has the rest
STEPS = (0.02, 0.05, 0.12)  # ln change at which a cell's shade deepens: a noise, a margin's half, a loss


@dataclass(frozen=True, slots=True)
class Host:
    """One section of the page: columns are runs, the newest first."""

    name: str
    past: tuple[Past, ...]
    groups: list[tuple[str, list[dict[str, Any]]]]
    heads: list[dict[str, str]]
    stops: list[dict[str, Any]]  # the newest runs that blocked
    all_stops: int


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


def _host(folder: Path, out: Path, number: int) -> Host | None:
    past = read_history(folder)
    if not past:
        return None
    newest_first = past[::-1]
    ids = list(dict.fromkeys(row for one in newest_first for row in one.rows))
    groups: dict[str, list[dict[str, Any]]] = {}
    for at, row_id in enumerate(ids):
        model, _, short = row_id.rpartition("/")
        cells = [_cell(one.rows.get(row_id)) for one in newest_first]
        now = next((row.ratio for one in newest_first if (row := one.rows.get(row_id)) is not None), None)
        life = timeline(row_id, past, f"r{number}-{at}")
        line = {"short": short, "life": life, "ratio": words.ratio(now), "cells": cells}
        groups.setdefault(model, []).append(line)
    heads = [_head(one, out / folder.name) for one in newest_first]
    stops = [_stop(one, head) for one, head in zip(newest_first, heads, strict=True) if head["state"] == "stop"]
    return Host(folder.name, past, list(groups.items()), heads, stops[:MOST_STOPS], len(stops))


def _stop(past: Past, head: dict[str, str]) -> dict[str, Any]:
    """Return a run that blocked: which rows, the largest loss first."""
    rows = [(name, row) for name, row in past.rows.items() if row.verdict in BLOCKING]
    rows.sort(key=lambda item: item[1].against_floor or 0.0)
    told = [(f"{SYMBOLS[row.verdict]} {name}", _lost(row)) for name, row in rows[:MOST_ROWS]]
    return {"head": head, "rows": told, "more": len(rows) - len(told)}


def _lost(row: PastRow) -> str:
    known = row.against_floor is not None and row.verdict is not RowVerdict.VOID
    return words.change(row.against_floor) if known else ""


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
    hosts = [host for number, folder in enumerate(folders) if (host := _host(folder, out, number)) is not None]
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

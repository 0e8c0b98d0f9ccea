"""What notebook cells show: the report's own tables and drawings, as HTML with its style inside and as plain text.

Cheap to import (no plotting library, no nbconvert), readable in light and dark, without script.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lqw.correctness import correctness_from_json
from lqw.report import figures, tables, words
from lqw.verdict.results import Judgement, judgement_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lqw.correctness import CorrectnessResult

__all__ = ["Fragment", "check_cells", "checks_table", "forest", "rows_table", "strips", "style", "table"]

STYLES = Path(__file__).parent / "template" / "lqw"
MARGIN = 0.10


@cache
def style(*names: str) -> Markup:
    """Return the named style sheets of the report."""
    text = "".join((STYLES / f"{name}.css").read_text(encoding="utf-8") for name in names)
    return Markup(text)  # noqa: S704 - the package's own files


@dataclass(frozen=True, slots=True, repr=False)
class Fragment:
    """A piece of the report: ``_repr_html_`` for pages and notebooks, ``repr`` for terminals and logs."""

    html: Markup
    text: str

    def _repr_html_(self) -> str:
        css = style("tokens", "plots").replace(":root", ".lqw")
        return str(Markup('<style>{}</style><div class="lqw">{}</div>').format(css, self.html))

    def __repr__(self) -> str:
        """Return the plain text."""
        return self.text


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Fragment:
    """Return a table whose first column names the rows."""
    cells = [tuple(row) for row in rows]
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in heads)
    body = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            first, Markup("").join(Markup("<td>{}</td>").format(cell) for cell in rest)
        )
        for first, *rest in cells
    )
    html = Markup(
        '<table class="plain"><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
    ).format(caption, head, body)
    return Fragment(html, _aligned(caption, [tuple(heads), *cells]))


def _aligned(caption: str, rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([caption, *lines])


def _judgement(value: Judgement | dict[str, Any]) -> Judgement:
    return value if isinstance(value, Judgement) else judgement_from_json(value)


def rows_table(judgement: Judgement | dict[str, Any]) -> Fragment:
    """Return every planned row with ratio, floor, band, verdict and pairs."""
    judged = _judgement(judgement)
    rows = []
    for line in map(tables.line_of, judged.rows):
        floor = f"{line.floor} ({line.fall})" if line.fall != "–" else line.floor
        ratio = "void" if line.struck else f"{line.ratio} {line.words}"
        rows.append((line.id, ratio, floor, line.band, f"{line.symbol} {line.verdict}", line.pairs))
    return table(str(judged.counts), ("row", "ratio", "floor", "band", "verdict", "pairs"), rows)


def forest(judgement: Judgement | dict[str, Any], margin: float = MARGIN) -> Fragment:
    """Return every row against its floor; in a terminal, its numbers."""
    judged = _judgement(judgement)
    rows = [row for row in judged.rows if row.band is not None and row.band.delta_floor is not None]
    if not rows:
        return Fragment(Markup("<p>No row has a floor to stand against.</p>"), "No row has a floor to stand against.")
    scale = figures.forest_axis(rows, margin)
    line = Markup('<div class="line"><p class="label" aria-hidden="true">{} <span class="v">{}</span></p>{}</div>')
    axis = Markup('<div class="group"><p class="label"></p>{}</div>').format(figures.axis(scale))
    drawn = [
        line.format(str(row.row), f"{words.SYMBOLS[row.verdict]} {words.ratio(row.against_floor)}",
                    figures.forest(row, scale, margin))
        for row in rows
    ]  # fmt: skip
    caption = f"1× is the floor, the dashed line the margin ({words.ratio(1 - margin)}); grey is what noise can explain"
    html = Markup('<figure class="forest"><figcaption>{}</figcaption>{}{}</figure>').format(
        caption, axis, Markup("").join(drawn)
    )
    told = [
        (str(row.row), words.ratio(row.against_floor), words.band(row.band.band_fraction if row.band else None))
        for row in rows
    ]
    return Fragment(html, _aligned(caption, [("row", "of its floor", "band"), *told]))


def strips(judgement: Judgement | dict[str, Any]) -> Fragment:
    """Return every row's pairs in run order; in a terminal, their ratios."""
    judged = _judgement(judgement)
    plots = [figures.strip(row, ()) for row in judged.rows if row.subject_values]
    one = Markup("<figure><figcaption><b>{}</b></figcaption>{}<p>{}</p></figure>")
    drawn = Markup("").join(one.format(plot.key, plot.svg, plot.caption) for plot in plots)
    key = Markup('<p><span class="key ours">● subject</span> <span class="key theirs">◆ comparator</span></p>')
    told = _aligned("Ratio of each pair, in run order", [("row", "ratios"), *((p.key, p.caption) for p in plots)])
    return Fragment(Markup('{}<div class="grid strips">{}</div>').format(key, drawn), told)


_STATES = {"ok": "✓ ok", "flag": "! flagged", "void": "⊘ void"}


def check_cells(result: CorrectnessResult) -> list[tuple[tuple[str, ...], str]]:
    """Return the correctness checks as cells and state, those that void first."""
    ordered = sorted(result.checks, key=lambda check: ("void", "flag", "ok").index(check.state))
    return [
        (
            (
                check.model,
                check.kind.replace("_", " "),
                " · ".join(part for part in (check.prompt, check.shape) if part) or "–",
                _STATES[check.state],
                check.detail,
            ),
            check.state,
        )
        for check in ordered
    ]


def checks_table(correctness: dict[str, Any]) -> Fragment:
    """Return what the correctness stage looked at."""
    cells = [cell for cell, _ in check_cells(correctness_from_json(correctness))]
    return table("What was looked at, before any speed", ("model", "check", "of", "says", "what it saw"), cells)

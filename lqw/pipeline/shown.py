"""Small tables for notebook cells: HTML for the page, aligned text for a terminal; no script, no pandas."""

from __future__ import annotations

import html
from dataclasses import dataclass

__all__ = ["Table"]


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A captioned table; the first cell of a row is its header."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "nothing"

    def __repr__(self) -> str:
        """Return aligned text."""
        if not self.rows:
            return f"{self.caption}: {self.empty}"
        widths = [max(len(row[i]) for row in (self.header, *self.rows)) for i in range(len(self.header))]
        lines = [
            "  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)) for row in (self.header, *self.rows)
        ]
        return "\n".join([self.caption, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(self.caption)}: {html.escape(self.empty)}</p>"
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.header)
        body = "".join(
            f'<tr><th scope="row">{html.escape(row[0])}</th>'
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        return (
            f'<table class="lqw"><caption>{html.escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

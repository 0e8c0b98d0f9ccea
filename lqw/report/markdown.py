"""The summary for a pull request: at most 60 lines of Markdown, the page's words in the page's order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.report import beside, say, tables
from lqw.report.words import KINDS, Kind

if TYPE_CHECKING:
    from lqw.report.facts import Facts
    from lqw.report.tables import Line

__all__ = ["MOST_LINES", "escape", "span", "summary_md", "table"]

MOST_LINES = 60
_HEAD = ("row", "ratio", "floor", "band", "last", "verdict", "pairs")
_ESCAPED = str.maketrans({ch: f"\\{ch}" for ch in "\\`*_{}[]<>#|~"} | {"\n": " ", "\r": " ", "&": "&amp;"})


def escape(text: str) -> str:
    """Return *text* so that Markdown shows it literally, on one line."""
    return text.translate(_ESCAPED)


def span(text: str) -> str:
    """Return text as a code span that nothing in it can end."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def table(lines: list[Line], room: int) -> list[str]:
    """Return a table of at most *room* lines; the rows that block come first, the rest is counted."""
    ordered = sorted(lines, key=lambda line: not line.blocking)
    rows = ordered if len(ordered) + 2 <= room else ordered[: room - 4]
    out = ["| " + " | ".join(_HEAD) + " |", "|---|--:|--:|--:|--:|---|--:|"]
    for line in rows:
        struck = f"~~{line.ratio}~~" if line.struck else f"{line.ratio} ({line.words})"
        floor = f"{line.floor} ({line.fall})" if line.fall != "–" else line.floor
        verdict = f"{line.symbol} **{line.verdict}**" if line.blocking else f"{line.symbol} {line.verdict}"
        cells = (escape(line.id), struck, floor, line.band, line.last, verdict, line.pairs)
        out.append("| " + " | ".join(cells) + " |")
    if rest := len(ordered) - len(rows):
        tally: dict[str, int] = {}
        for line in ordered[len(rows) :]:
            tally[line.verdict] = tally.get(line.verdict, 0) + 1
        out += ["", f"and {rest} more rows: " + ", ".join(f"{n} {verdict}" for verdict, n in tally.items())]
    return out


def summary_md(facts: Facts) -> str:
    """Return the summary; never more than :data:`MOST_LINES` lines, whatever the number of rows."""
    word, order = say.headline(facts)
    out = [f"## {KINDS[facts.kind].symbol} {word} {escape(order)}", "", escape(say.sentence(facts)), ""]
    if facts.kind is not Kind.INCOMPLETE and (fault := tables.whose_fault(facts)):
        out += [escape(fault), ""]
    out += [span(say.counts(facts)), ""]
    if third := say.third_arm(facts):
        out += [escape(third), ""]
    reasons = [*say.reasons(facts), *say.chain(facts)]
    out += [f"- {escape(reason)[:400]}" for reason in reasons[:8]]
    if len(reasons) > 8:  # noqa: PLR2004 - the page has them all
        out.append(f"- and {len(reasons) - 8} more; see the report")
    out += [""] if reasons else []
    tail = [
        "",
        escape(say.margin(facts)[0])[:600],
        "",
        *(f"- {escape(what)} `{cmd}`" for what, cmd in say.again(facts)),
    ]
    if names := beside.declared(facts):
        shown = ", ".join(map(escape, names))
        tail[1:1] = [f"Beside, measured and not gating: {shown}; their rows stand in the report.", ""]
    room = MOST_LINES - len(out) - len(tail)
    out += table(say.lines(facts), room) + tail
    return "\n".join(out) + "\n"

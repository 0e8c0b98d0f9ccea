"""The terminal view of a receipt: the page's words in the page's order, readable at 80 columns without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lqw.report import beside, say, tables
from lqw.report.words import KINDS, Kind

if TYPE_CHECKING:
    from rich.console import Console

    from lqw.report.facts import Facts
    from lqw.report.tables import Line

__all__ = ["print_facts"]

_STYLES = {Kind.PASS: "green", Kind.FLOOR: "blue", Kind.UNDECIDED: "yellow", Kind.VOID: "magenta"}
_BOXES = {Kind.RED: box.HEAVY, Kind.UNDECIDED: box.ASCII, Kind.VOID: box.ASCII2, Kind.INCOMPLETE: box.DOUBLE_EDGE}


def _banner(facts: Facts) -> Panel:
    word, order = say.headline(facts)
    style = _STYLES.get(facts.kind, "red")
    body = Text()
    body.append(f"{KINDS[facts.kind].symbol} {word} ", style=f"bold {style}")
    body.append(order, style="bold")
    body.append(f"\n{say.sentence(facts)}")
    if facts.kind is not Kind.INCOMPLETE and (fault := tables.whose_fault(facts)):
        body.append(f"\n{fault}")
    return Panel(body, box=_BOXES.get(facts.kind, box.ROUNDED), border_style=style, title=escape(facts.host_name))


def _rows(lines: list[Line]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column("row", no_wrap=True, overflow="ellipsis", min_width=12)
    for name in ("ratio", "floor", "band", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("against comparator", overflow="fold")
    for line in lines:
        style = "bold" if line.blocking else ""
        said = "void, not used" if line.struck else line.words
        cells = (line.short, line.ratio, line.floor, line.band, line.last, f"{line.symbol} {line.verdict}", line.pairs)
        table.add_row(*(Text(cell, style=style) for cell in (*cells, said)))
    return table


def _beside(found: beside.BesideTable) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    for name in found.heads:
        table.add_column(name, overflow="fold")
    for cells in found.cells:
        table.add_row(*map(Text, cells))
    return table


def _bullets(items: list[str]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for item in items:
        grid.add_row(Text(" •"), Text(item))
    return grid


def print_facts(facts: Facts, console: Console) -> None:
    """Print a receipt or a broken run to *console*, whatever its width."""
    console.print(_banner(facts))
    console.print(Text(say.counts(facts)))
    console.print(_bullets([*say.reasons(facts), *say.chain(facts)]))
    lines = say.lines(facts)
    for model in facts.models:
        console.print()
        console.print(Text(model, style="bold"))
        console.print(_rows([line for line in lines if line.model == model]))
    if facts.judgement is not None and facts.kind is not Kind.INCOMPLETE:
        for suite in facts.judgement.suites:
            family, mean, limit, says = tables.suite_line(suite)
            console.print(Text(f"suite {family}: {mean} (red below {limit}) {says}"))
        if third := say.third_arm(facts):
            console.print(Text(third))
        for name, found in tables.confirmed_of(facts.judgement):
            console.print(Text(f"third arm {name}: {found.text}"))
        for guard in facts.judgement.guards:
            if guard.effect != "none":
                name, subject, effect, text = tables.guard_line(guard)
                console.print(Text(f"guard {name} of {subject}: {effect}. {text}"))
    for table in beside.beside_tables(facts) if facts.judgement is not None else ():
        console.print(Text(f"Beside, not gating: {table.model}", style="bold"))
        console.print(_beside(table))
        console.print(_bullets(list(table.reasons)))
    console.print(Text(say.margin(facts)[0]))
    for what, command in say.again(facts):
        console.print(Text(what))
        console.print(Text(f"  {command}"), soft_wrap=True)  # a command is copied whole

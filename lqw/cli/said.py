"""How a finished run is said on a terminal: verdict, counts, reasons, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lqw.errors import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from lqw.pipeline.gate import Finished

__all__ = ["COLOURS", "say"]

COLOURS = {
    "PASS": "bold green",
    "FLOOR": "bold green",
    "RED": "bold white on red",
    "UNDECIDED": "bold yellow",
    "INVALID": "bold magenta",
    "INCOMPLETE": "bold yellow",
}
MAX_REASONS = 20


def say(console: Console, finished: Finished) -> None:
    """Print what came out; long lists are cut, and the cut is said."""

    def line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    why = finished.sentence.removeprefix(f"{finished.outcome}: ")  # a receipt's sentence says the word itself
    console.print(
        Text.assemble((f" {finished.outcome} ", COLOURS.get(finished.outcome, "bold")), " ", why),
        soft_wrap=True,
        highlight=False,
    )
    line(finished.counts)
    for reason in finished.reasons[:MAX_REASONS]:
        line(f"  - {reason}")
    if len(finished.reasons) > MAX_REASONS:
        line(f"  - and {len(finished.reasons) - MAX_REASONS} more: see the report")
    for note in finished.notes:
        line(f"  {note}")
    if finished.stored is not None:
        line(f"receipt  {finished.stored}")
    if finished.report is not None:
        line(f"report   {finished.report}")
    if finished.outcome == "INCOMPLETE" and finished.status != Exit.USAGE:
        line(f"run      {finished.folder.path}  (go on with --resume {finished.folder.path})")

"""``lqw show RECEIPT``: a receipt, or a run folder, for a person at a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["show"]

Source = Annotated[Path, typer.Argument(help="A receipt, or a run folder (also one that broke).")]


def show(source: Source) -> None:
    """Show what a receipt or a run says: verdict, rows, reasons, how to reproduce. Exit 4 if it is no receipt."""
    from rich.console import Console

    from lqw.errors import Exit, UsageError
    from lqw.report.gather import gather_receipt, gather_run
    from lqw.report.terminal import print_facts
    from lqw.report.words import Kind

    if not source.exists():
        raise UsageError(f"{source}: no such file or folder", remedy="name a receipt, such as receipts/HOST/1.1.0.json")
    facts = gather_run(source) if source.is_dir() else gather_receipt(source)
    print_facts(facts, Console(highlight=False))
    if facts.kind is Kind.INVALID or (facts.kind is Kind.INCOMPLETE and not source.is_dir()):
        raise typer.Exit(int(Exit.INVALID))

"""``lqw report RUN_DIR|RECEIPT``: page, summary and JUnit file of a run; ``--index``: the page of all receipts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]

Source = Annotated[
    Path | None,
    typer.Argument(
        help="A run folder, or a receipt; with --index the folder of receipts [receipts].", show_default=False
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder to write into [the run folder, or the receipt's reports folder].")
]
Index = Annotated[bool, typer.Option("--index", help="Write reports/index.html: releases and rows of every host.")]


def report(source: Source = None, out: Out = None, index: Index = False) -> None:
    """Render report.html, summary.md and junit.xml; print the path of the page."""
    from lqw.errors import UsageError

    if index:
        source, out = source or Path("receipts"), out or Path("reports")
    if source is None:
        raise UsageError("nothing to report on", remedy="name a run folder or a receipt, or ask for --index")
    if not source.exists() or (index and not source.is_dir()):
        what = "no such folder" if index else "no such file or folder"
        raise UsageError(
            f"{source}: {what}", remedy="name a run folder or a receipt; with --index, the receipts' folder"
        )
    if source.is_file() and out is None:
        out = Path("reports") / source.parent.name / source.stem
    try:
        print(_written(source, out, index=index))
    except OSError as err:
        raise UsageError(
            f"--out = {str(out or source)!r}: {err.strerror or err}", remedy="name a folder that can be written"
        ) from err


def _written(source: Path, out: Path | None, *, index: bool) -> Path:
    if index:
        from lqw.report.index import write_index

        return write_index(source, out or Path("reports"))
    from lqw.report import render

    return render(source, out)

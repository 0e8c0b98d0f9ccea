"""``lqw report RUN_DIR|RECEIPT``: the HTML page, the Markdown summary and the JUnit file of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]

Source = Annotated[Path, typer.Argument(help="A run folder, or a receipt.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder to write into [the run folder, or the receipt's reports folder].")
]


def report(source: Source, out: Out = None) -> None:
    """Render report.html, summary.md and junit.xml; print the path of the page."""
    from lqw.errors import UsageError
    from lqw.report import render

    if not source.exists():
        raise UsageError(f"{source}: no such file or folder", remedy="name a run folder or a receipt")
    if source.is_file() and out is None:
        out = Path("reports") / source.parent.name / source.stem
    try:
        print(render(source, out))
    except OSError as err:
        raise UsageError(
            f"--out = {str(out or source)!r}: {err.strerror or err}", remedy="name a folder that can be written"
        ) from err

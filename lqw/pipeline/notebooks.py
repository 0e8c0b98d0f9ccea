"""The notebooks' two forms: the ``.py`` percent twin is the source, the stripped ``.ipynb`` is made from it.

``python -m lqw.pipeline.notebooks sync`` writes the ``.ipynb``; ``check`` fails on any difference: an output, an
execution count, another cell id, or an edit of only one of the two.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lqw.errors import Exit
from lqw.pipeline.runs import STAGES, notebooks_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TWINS", "drift", "main", "notebook_text", "sync"]

TWINS = (*STAGES, "sandbox/noise_band_lab")
"""Every notebook, by its path without suffix: the chain's, and the analysts', which no gate runs."""

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook_text(twin: Path) -> str:
    """Return the ``.ipynb`` of a percent twin: no outputs, no counts, cell ids from the stage and the position."""
    import jupytext  # noqa: PLC0415 - 0.3 s, not for who only asks for a path

    from lqw.report.nb import nbformat  # noqa: PLC0415

    notebook = jupytext.reads(twin.read_text(encoding="utf-8"), fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{twin.stem}-{number:02d}"
    notebook.metadata.clear()
    notebook.metadata.update(kernelspec=KERNELSPEC, language_info={"name": "python"})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook, indent=1)  # type: ignore[no-untyped-call]
    return text + "\n"


def drift(folder: Path) -> list[str]:
    """Return the notebooks of *folder* that are not what their twins say."""
    out = []
    for stage in TWINS:
        twin, notebook = folder / f"{stage}.py", folder / f"{stage}.ipynb"
        if not twin.is_file():
            out.append(f"{twin.name}: missing")
        elif not notebook.is_file() or notebook.read_text(encoding="utf-8") != notebook_text(twin):
            out.append(f"{notebook.name}: not what {twin.name} says")
    return out


def sync(folder: Path) -> None:
    """Write every ``.ipynb`` of *folder* from its twin."""
    for stage in TWINS:
        (folder / f"{stage}.ipynb").write_text(notebook_text(folder / f"{stage}.py"), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run ``sync`` or ``check``."""
    folder = notebooks_folder()
    if arguments == ["sync"]:
        sync(folder)
    elif arguments != ["check"]:
        print("python -m lqw.pipeline.notebooks sync|check", file=sys.stderr)  # noqa: T201 - a command
        return Exit.USAGE
    found = drift(folder)
    for line in found:
        print(f"{line}\n  remedy: python -m lqw.pipeline.notebooks sync", file=sys.stderr)  # noqa: T201
    return Exit.RED if found else Exit.PASS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

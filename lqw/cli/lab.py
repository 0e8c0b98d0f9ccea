"""``lqw lab [RECEIPT…]``: the noise-band lab in JupyterLab, on a copy of its notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["lab"]

Places = Annotated[
    list[Path] | None, typer.Argument(help="Receipts or folders of them; without any: a synthetic history.")
]
Folder = Annotated[Path, typer.Option("--folder", help="Where the copy of the notebook lies; an old copy is kept.")]
Port = Annotated[int, typer.Option("--port", help="Port of the JupyterLab server.", min=1024, max=65535)]
Quiet = Annotated[bool, typer.Option("--no-browser", help="Start the server and print its address only.")]
Root = Annotated[bool, typer.Option("--allow-root", help="Handed to JupyterLab, which does not run as root otherwise.")]
NOTEBOOK = "noise_band_lab.ipynb"


def lab(
    receipts: Places = None,
    *,
    folder: Folder = Path("runs/lab"),
    port: Port = 8888,
    no_browser: Quiet = False,
    allow_root: Root = False,
) -> None:
    """Try other noise methods on past releases. For analysts: it never gates.

    Exit: 2 where the extra [lab] or a receipt is missing; else that of JupyterLab.
    """
    import importlib.util
    import os
    import shutil
    import sys

    from lqw.errors import UsageError
    from lqw.lab.guard import RECEIPTS_VARIABLE
    from lqw.pipeline.runs import notebooks_folder

    if any(importlib.util.find_spec(module) is None for module in ("jupyterlab", "ipywidgets")):
        raise UsageError("JupyterLab is not installed", remedy="pip install 'lqw[lab]' (in a checkout: -e '.[lab]')")
    source = notebooks_folder() / "sandbox" / NOTEBOOK
    missing = [path for path in [source, *(receipts or [])] if not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder", remedy="name receipts, such as receipts/HOST")
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / NOTEBOOK
    if not copy.exists():
        shutil.copyfile(source, copy)
    named = os.pathsep.join(str(path.resolve()) for path in receipts or [])
    command = [sys.executable, "-m", "jupyterlab", str(copy), f"--port={port}"]
    command += [f"--LabApp.default_url=/lab/tree/{NOTEBOOK}"]  # what is printed opens the notebook, too
    command += ["--no-browser"] if no_browser else []
    command += ["--allow-root"] if allow_root else []
    print(f"notebook {copy} (a copy: edit it as you like); run all cells")
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, RECEIPTS_VARIABLE: named})  # noqa: S606 - a list, no shell

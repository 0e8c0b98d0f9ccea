"""``lqw baseline adopt | show``: floors are measured and looked at here; nothing here lowers one."""

from pathlib import Path
from typing import Annotated

import typer

from lqw.cli.gate import Host, Params, Quiet, Resume, Run, Store

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The floors of a host, per epoch.")


@app.command()
def adopt(
    params: Params,
    *,
    host: Host = None,
    store: Store = None,
    run: Run = None,
    resume: Resume = None,
    quiet: Quiet = False,
) -> None:
    """Measure the floor of a release, and take its tokens as reference. Refused where the epoch has its floors."""
    from lqw.cli.gate import execute
    from lqw.outcomes import Purpose

    execute(Purpose.ADOPT, params, host=host, store=store, run=run, resume=resume, journal=None, quiet=quiet)


@app.command()
def show(host: str, store: Annotated[Path, typer.Option("--store")] = Path("receipts")) -> None:
    """Print floors, last values and what may still be given up, row by row."""
    import math

    from lqw.errors import UsageError
    from lqw.pipeline.shown import Table
    from lqw.ratchet import parse_baseline
    from lqw.receipt.store import Store as Receipts

    path = Receipts(store).baseline(host)
    if not path.is_file():
        raise UsageError(f"{path}: no such file", remedy=f"lqw baseline adopt PARAMS --host {host}")
    baseline = parse_baseline(path.read_bytes(), name=str(path))
    for epoch in baseline.epochs:
        rows = tuple(
            (
                str(row),
                str(entry.state),
                f"{math.exp(entry.floor.value):.3f}",
                entry.floor.release,
                str(entry.floor.n),
                "–" if entry.last is None else f"{math.exp(entry.last.value):.3f} ({entry.last.release})",
                f"{math.exp((entry.last or entry.floor).value - entry.first):.3f}",
            )
            for row, entry in epoch.rows.items()
        )
        header = ("row", "state", "floor", "set by", "pairs", "last", "of the first")
        print(Table(f"{baseline.host}, epoch {epoch.key.sha256[:12]} opened by {epoch.opened_by}", header, rows))

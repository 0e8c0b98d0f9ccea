"""``lqw gate PARAMS``: judge a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["gate"]

Params = Annotated[Path, typer.Argument(help="The release file: params/…/<version>.yaml", show_default=False)]
Host = Annotated[str | None, typer.Option("--host", help="Which of the release's hosts this machine is.")]
Store = Annotated[Path | None, typer.Option("--store", help="Where receipts, floors and the token reference lie.")]
Run = Annotated[Path | None, typer.Option("--run", help="Folder of the run; default: a new one under runs/.")]
Resume = Annotated[Path | None, typer.Option("--resume", help="Go on with this run folder; measures what is missing.")]
Replay = Annotated[Path | None, typer.Option("--journal", help="Judge a recorded samples.jsonl; nothing is measured.")]
JsonLog = Annotated[
    bool, typer.Option("--json-log", help="Each event of the run as a JSON object a line on stderr; no live display.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No live display: the verdict alone.")]


def gate(
    params: Params,
    *,
    host: Host = None,
    store: Store = None,
    run: Run = None,
    resume: Resume = None,
    journal: Replay = None,
    quiet: Quiet = False,
    json_log: JsonLog = False,
) -> None:
    """Measure a release, judge it against its floors, and leave a receipt and a report.

    Exit: 0 PASS · 1 RED · 2 bad parameters, nothing started · 3 UNDECIDED · 4 INVALID · 70 broken chain, not a
    verdict · 75 GPU busy · 130 interrupted.
    """
    from lqw.outcomes import Purpose

    execute(
        Purpose.GATE,
        params,
        host=host,
        store=store,
        run=run,
        resume=resume,
        journal=journal,
        quiet=quiet,
        json_log=json_log,
    )


def execute(
    purpose: str,
    params: Path,
    *,
    host: str | None,
    store: Path | None,
    run: Path | None,
    resume: Path | None,
    journal: Path | None,
    quiet: bool,
    json_log: bool = False,
) -> None:
    """Run one order and leave with its exit status."""
    from rich.console import Console

    from lqw.cli.said import say
    from lqw.errors import UsageError
    from lqw.outcomes import Purpose
    from lqw.pipeline.gate import Order, prepare
    from lqw.pipeline.gate import run as run_prepared

    given = [name for name, value in (("--run", run), ("--resume", resume)) if value] + ["--journal"] * bool(journal)
    if {"--resume", "--run"} <= set(given) or {"--resume", "--journal"} <= set(given):
        raise UsageError(f"{' and '.join(given)} exclude each other", remedy="give one of them")
    order = Order(params, Purpose(purpose), host=host, store=store, run=run, resume=resume, journal=journal)
    if quiet and json_log:
        raise UsageError("--quiet and --json-log exclude each other", remedy="give one of them")
    console = Console()
    shown = Console(stderr=True) if json_log else None if quiet else console
    finished = run_prepared(prepare(order), console=shown, form="json" if json_log else "live")
    say(console, finished)
    raise typer.Exit(int(finished.status))

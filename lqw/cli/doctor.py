"""``lqw doctor [PARAMS]``: whether this machine can measure, and this release be measured on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["doctor"]

Params = Annotated[Path | None, typer.Argument(help="A release file: its engines and models too.", show_default=False)]
Host = Annotated[str | None, typer.Option("--host", help="Which of the release's hosts this machine is.")]
Json = Annotated[bool, typer.Option("--json", help="The checks as JSON.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run folders go.")]

SYMBOLS = {"ok": "✓", "warn": "!", "bad": "✕", "skipped": "–"}


def doctor(params: Params = None, *, host: Host = None, runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Check disk, memory, ports, GPU, lock, programs, models, notebook kernel and the client's own error.

    Exit 0: nothing stands in the way. Exit 2: something does, and the command that mends it is named.
    """
    from lqw.errors import Exit
    from lqw.params import load_params
    from lqw.pipeline.doctor import machine
    from lqw.pipeline.doctor_release import release

    loaded = None if params is None else load_params(params, host=host)
    checks = machine(loaded, runs) + ([] if loaded is None else release(loaded))
    bad = sum(check.state == "bad" for check in checks)
    if as_json:
        import json

        print(json.dumps({"schema": "lqw-doctor/1", "bad": bad, "checks": [check.to_json() for check in checks]}))
    else:
        for check in checks:
            print(f"{SYMBOLS[check.state]} {check.state:7}  {check.name}: {check.seen}")
            if check.state in ("bad", "warn"):
                print(f"             {check.meaning}")
            if check.mend:
                print(f"             mend: {check.mend}")
        warned = sum(check.state == "warn" for check in checks)
        print(f"doctor: {len(checks)} checks, {bad} bad, {warned} to be warned of")
    raise typer.Exit(int(Exit.USAGE if bad else Exit.PASS))

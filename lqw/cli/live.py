"""``lqw selftest --live``: the mission's RED case on a real apr and a real GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.pipeline.live import LiveStep
    from lqw.pipeline.live_parts import Asked, Parts

__all__ = ["live"]


def live(asked: Asked, into: Path | None) -> None:
    """Find the parts, run the three releases, and leave: 0 as it must be, 1 not so, 2 cannot, else the run's status."""
    from lqw.pipeline.live_parts import find_parts
    from lqw.pipeline.runs import params_folder

    checkout = params_folder("protocols/live.yaml").parent
    proven(find_parts(asked, checkout / "runs" / "engines"), into or _new_place(checkout / "runs" / "selftest-live"))


def _new_place(folder: Path) -> Path:
    from datetime import UTC, datetime

    return folder / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def proven(parts: Parts, place: Path, *, protocol: Path | None = None) -> None:
    """Run the three releases in *place*, by *protocol* or ``live.yaml``; say how each ended; leave with the status."""
    from rich.console import Console

    from lqw.cli.said import say
    from lqw.errors import Exit
    from lqw.pipeline.live import STAGES, live_step, write_live

    console, begun = Console(), time.monotonic()
    write_live(parts, place, protocol=protocol)
    _line(console, f"host {parts.host.name}; {parts.healthy.binary}; {parts.comparator.binary}; {parts.model}")
    done: list[LiveStep] = []
    for stage in STAGES:
        console.rule(_TITLES[stage], align="left")
        step = live_step(parts, place, stage, console)
        say(console, step.finished)
        done.append(step)
        if step.finished.status not in (Exit.PASS, Exit.RED, Exit.UNDECIDED) or (stage == "floor" and step.problems):
            break
    console.rule("live selftest", align="left")
    for step in done:
        state = "FAIL" if step.problems else "ok"
        _line(console, f"{state:4}  {step.stage:9} {step.finished.outcome} (exit {int(step.finished.status)})")
        for row, text in step.red_rows.items():
            _line(console, f"        {row}: {text}")
        for problem in step.problems:
            _line(console, f"        {problem}")
    _line(console, f"took {time.monotonic() - begun:.0f} s; everything is in {place}")
    last = done[-1]
    whole = len(done) == len(STAGES)
    if not whole and last.finished.status not in (Exit.PASS, Exit.RED):
        raise typer.Exit(int(last.finished.status))
    raise typer.Exit(int(Exit.PASS if whole and not any(step.problems for step in done) else Exit.RED))


_TITLES = {
    "floor": "measure the floor of this apr",
    "unslowed": "gate the same apr again: must not go RED",
    "slowed": "gate it with its prefill forced to one token a step: must go RED",
}


def _line(console: object, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)  # type: ignore[attr-defined]

"""``lqw demo``: watch the gate let a healthy release pass and stop a sick one, on this machine, on a real model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from lqw.pipeline.gate import Finished

__all__ = ["demo"]

RELEASES = ("1.0.0", "1.1.0", "1.2.0-one-token-prefill")


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the run folders of earlier demos.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live display.")] = False,
) -> None:
    """Floor of 1.0.0, gate 1.1.0 (must PASS), gate 1.2.0 with a one-token prefill (must go RED). About four minutes.

    Exit 0 only if the first was PASS and the second was RED for that reason. Writes below runs/ only.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from lqw.errors import Exit
    from lqw.outcomes import Purpose
    from lqw.pipeline.runs import params_folder

    console = Console()
    begun = time.monotonic()
    place = params_folder("demo").parent / "runs" / "demo"
    if not keep:
        _forget(place)
    place = place / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    done: list[Finished] = []
    for release, wanted in zip(RELEASES, (Exit.PASS, Exit.PASS, Exit.RED), strict=True):
        purpose = Purpose.ADOPT if not done else Purpose.GATE
        finished = _one(console, place, release, purpose, quiet=quiet)
        done.append(finished)
        if finished.status is not wanted:
            console.print(f"\nlqw demo: {_unexpected(release, finished.status, wanted)}")
            raise typer.Exit(int(finished.status) if finished.status not in (Exit.PASS, Exit.RED) else int(Exit.RED))
    named = red_rows(done[-1])
    _summary(console, done, named, time.monotonic() - begun)
    right = any("/ttft@" in row for row in named) and any("/prefill@" in row for row in named)
    raise typer.Exit(int(Exit.PASS if right else Exit.RED))


def _unexpected(release: str, status: int, wanted: int) -> str:
    from lqw.errors import Exit

    if status == Exit.INTERRUPTED:
        return "interrupted; nothing was decided"
    text = f"{release} should have ended with exit {int(wanted)}, not {int(status)}"
    if status == Exit.UNDECIDED:
        text += (
            ".\nTwo engine threads on few cores suffer whenever another program runs: close what else is running "
            "and try again."
        )
    return text


def _forget(place: Path) -> None:
    """Remove earlier demos but the last two: a model file of 250 MB lies in none of them, journals are small."""
    import shutil

    for old in sorted(place.glob("2*Z"))[:-2]:
        shutil.rmtree(old, ignore_errors=True)


def _one(console: Console, place: Path, release: str, purpose: str, *, quiet: bool) -> Finished:
    from lqw.cli.said import say
    from lqw.outcomes import Purpose
    from lqw.pipeline.gate import Order, prepare, run
    from lqw.pipeline.runs import params_folder

    words = {"1.0.0": "measure the floor of", "1.1.0": "gate an equal release,"}
    console.rule(f"{words.get(release, 'gate a sick release,')} {release}", align="left")
    params = params_folder("demo") / "demo" / f"{release}.yaml"
    order = Order(params, Purpose(purpose), store=place / "store", run=place / release)
    finished = run(prepare(order), console=None if quiet else console)
    say(console, finished)
    return finished


def red_rows(finished: Finished) -> dict[str, str]:
    """Return the rows the receipt calls RED, with the judge's own clause."""
    from lqw.receipt import verify_receipt

    judgement = verify_receipt(finished.folder.receipt).judgement
    rows = judgement.rows if judgement is not None else ()
    return {str(row.row): row.text for row in rows if row.verdict == "RED"}


def _summary(console: Console, done: list[Finished], named: dict[str, str], seconds: float) -> None:
    floor, healthy, sick = done
    longest = [max((row for row in named if f"/{metric}@" in row), default="") for metric in ("ttft", "prefill")]
    worst = [f"{row.rpartition('/')[2]} {named[row]}" for row in longest if row]
    lines = [
        f"floor    {RELEASES[0]}: {floor.counts.removeprefix('rows: ')}",
        f"healthy  {RELEASES[1]}: {healthy.outcome} (exit {int(healthy.status)})",
        f"sick     {RELEASES[2]}: {sick.outcome} (exit {int(sick.status)}), {len(named)} rows below their floor",
        f"because  {'; '.join(worst) or 'no TTFT and prefill row: not for the reason it should'}",
        f"check    lqw verify {sick.stored}",
        f"took     {int(seconds) // 60}:{int(seconds) % 60:02d} here; the demo's margin class is wide, and says so",
    ]
    console.rule("summary", align="left")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print()
    for finished in done:
        console.print(str(finished.report), markup=False, highlight=False, soft_wrap=True)

"""``lqw calibrate``: the client's own error on this machine, now, from a light load to the heaviest it holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lqw.errors import Exit

if TYPE_CHECKING:
    from lqw.collect.calibrate import Calibration

__all__ = ["calibrate"]

HELD_MS = 1.0
"""A rate is held while 99 of 100 token gaps are known to this."""

GAPS_MS = (20.0, 10.0, 5.0, 2.0, 1.0)
TOKENS, ROUNDS = 64, 4


def calibrate(
    *,
    streams: Annotated[list[int] | None, typer.Option(min=1, max=256, help="Streams at once; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure the client against the null server, whose times are known, and print its errors.

    Exit 0 where TTFT of every load up to 500 tok/s a stream is known to 5 ms (p99), else 3: a run here would be void.
    """
    from lqw.collect.calibrate import Load, null_server
    from lqw.collect.calibrate import calibrate as measure

    found: list[Calibration] = []
    with (
        tempfile.TemporaryDirectory(prefix="lqw-calibrate-") as folder,
        null_server("calibrate", Path(folder) / "null_server.log") as target,
    ):
        for count in streams or [1, 4, 16]:
            found += [measure(target, Load(count, gap_ms, TOKENS, ROUNDS)) for gap_ms in GAPS_MS]
    void = any(one.too_late for one in found if one.load.gap_ms >= 2)  # noqa: PLR2004 - 500 tok/s
    highest = max((_rate(one) for one in found if one.itl_error_p99_ms <= HELD_MS), default=0.0)
    if as_json:
        body: dict[str, Any] = {"loads": [one.to_json() for one in found], "highest_rate_held": highest, "void": void}
        print(json.dumps(body, indent=1))
    else:
        _print(found, highest, void=void)
    if void:
        raise typer.Exit(int(Exit.UNDECIDED))


def _rate(one: Calibration) -> float:
    """Return the events a second of a load."""
    return one.load.streams * 1e3 / one.load.gap_ms


def _print(found: list[Calibration], highest: float, *, void: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="the client's own error, ms", title_justify="left")
    for name in ("streams", "tok/s each", "TTFT p50", "TTFT p99", "gap p50", "gap p99", "of a core"):
        table.add_column(name, justify="right")
    for one in found:
        errors = (one.ttft_error_p50_ms, one.ttft_error_p99_ms, one.itl_error_p50_ms, one.itl_error_p99_ms)
        shown = [f"{error:.3f}" for error in errors]
        table.add_row(str(one.load.streams), f"{1e3 / one.load.gap_ms:g}", *shown, f"{one.cpu_share:.0%}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"highest rate held (gap error p99 up to {HELD_MS:g} ms): {highest:,.0f} events/s")
    if void:
        console.print("VOID: TTFT error p99 above 5 ms at a rate engines reach; quiet the machine before a run")

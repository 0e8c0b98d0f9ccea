"""``lqw doctor [PARAMS]``: whether this machine can measure, and this release be measured on it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lqw import params as params_module

__all__ = ["doctor"]

Params = Annotated[Path | None, typer.Argument(help="A release file: its engines and models too.", show_default=False)]
Host = Annotated[str | None, typer.Option("--host", help="Which of the release's hosts this machine is.")]
Json = Annotated[bool, typer.Option("--json", help="The checks as JSON.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run folders go.")]

Roofline = Annotated[
    bool, typer.Option("--roofline", help="Measure copy bandwidth and matmul rate instead, and keep them.")
]

SYMBOLS = {"ok": "✓", "warn": "!", "bad": "✕", "skipped": "–"}
INDENT = 13


def doctor(
    params: Params = None,
    *,
    host: Host = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
    roofline: Roofline = False,
) -> None:
    """Check disk, memory, ports, GPU, lock, programs, models, notebook kernel and the client's own error.

    With ``--roofline`` nothing is checked: what the device can do at best is measured (seconds), and written to
    ``params/rooflines/HOST.json`` where a release is named; receipts then say how far each row is from it.

    Exit 0: nothing stands in the way. Exit 2: something does, and the command that mends it is named.
    """
    from lqw.errors import Exit
    from lqw.params import load_params
    from lqw.pipeline.doctor import machine
    from lqw.pipeline.doctor_release import release

    loaded = None if params is None else load_params(params, host=host)
    if roofline:
        _roofline(loaded)
        return
    checks = machine(loaded, runs) + ([] if loaded is None else release(loaded))
    bad = sum(check.state == "bad" for check in checks)
    if as_json:
        import json

        print(json.dumps({"schema": "lqw-doctor/1", "bad": bad, "checks": [check.to_json() for check in checks]}))
    else:
        for check in checks:
            _print(f"{SYMBOLS[check.state]} {check.state:7}  ", f"{check.name}: {check.seen}")
            if check.state in ("bad", "warn"):
                _print("             ", check.meaning)
            if check.mend:
                _print("             mend: ", check.mend)
        warned = sum(check.state == "warn" for check in checks)
        print(f"doctor: {len(checks)} checks, {bad} bad, {warned} warned of")
    raise typer.Exit(int(Exit.USAGE if bad else Exit.PASS))


def _print(first: str, said: str) -> None:
    """Print a line, broken between words and indented where a terminal is too narrow; whole where it is no terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    whole = textwrap.TextWrapper(width, first, " " * INDENT, break_long_words=False, break_on_hyphens=False)
    print(whole.fill(said))  # whole words: a path or a command is copied as it is


def _roofline(loaded: params_module.Params | None) -> None:
    """Measure, print, and keep where a release names the host."""
    from lqw.canonical import sha256_file
    from lqw.pipeline.roofline import keep_roofline, measure_roofline

    found = measure_roofline(*(("here", "cpu") if loaded is None else (loaded.host.name, loaded.host.compute)))
    print(f"{found.device} ({found.compute})")
    copy, matmul = found.copy_, found.matmul
    if copy is not None:
        print(f"  copy    {copy.bytes_s / 1e9:,.1f} GB/s: {copy.method}")
    if matmul is not None:
        print(f"  matmul  {matmul.flop_s / 1e12:,.3f} TFLOP/s: {matmul.method}")
    for part, reason in found.missing.items():
        print(f"  {part:6}  UNAVAILABLE: {reason}")
    if loaded is None:
        print("not kept: name a release file, whose host this is")
        return
    path = keep_roofline(found, Path(loaded.path))
    print(f"written: {path}, sha256 {sha256_file(path)}")

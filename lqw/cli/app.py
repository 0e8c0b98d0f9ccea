"""The ``lqw`` command. A command's module is imported when that command is called, and heavy imports wait inside it."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from lqw.cli.quick import verify_options
from lqw.cli.streams import flush, guard
from lqw.errors import Exit, LqwError, OutputError

if TYPE_CHECKING:
    import typer

__all__ = ["COMMANDS", "app_of", "main", "run"]

COMMANDS = {
    "gate": "gate",
    "bench": "bench",
    "baseline": "baseline",
    "demo": "demo",
    "doctor": "doctor",
    "selftest": "selftest",
    "verify": "verify",
    "tag": "tag",
    "hooks": "tag",
    "sign": "sign",
    "key": "sign",
    "show": "show",
    "report": "report",
    "power": "power",
    "lab": "lab",
    "synth": "synth",
    "calibrate": "calibrate",
    "parity": "parity",
    "reference": "reference",
}
"""Command → its module of :mod:`lqw.cli`. There a function of the command's name is it; else ``app`` is, a group."""

FEW_ROUNDS = (100_000, 20, 50)  # documents are large, and live as long as the process: seven in a hundred of its time


def app_of(name: str | None) -> typer.Typer:
    """Return the command line with one command of that name; with all of them where there is none (help, a typo)."""
    import typer

    app = typer.Typer(
        name="lqw",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="A release gate for LLM inference speed: paired ratios against llama.cpp, and a ratchet.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whole)
    for command in [name] if name in COMMANDS else COMMANDS:
        module = import_module(f"lqw.cli.{COMMANDS[command]}")
        if hasattr(module, command):
            app.command(command)(getattr(module, command))
        else:
            app.add_typer(module.app, name=command)
    return app


def _whole() -> None:
    """Keep the command's name on the command line, though it may be the only one."""


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status; every error becomes its message and its remedy."""
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        flush()
    except OutputError as err:  # the device is full: said where there is room, and never with a verdict's status
        status = err.exit_status
        with suppress(OutputError):
            print(f"lqw: {err}", file=sys.stderr, flush=True)
    return status


def _run(words: list[str]) -> int:
    try:
        options = verify_options(words[1:]) if words[:1] == ["verify"] else None
        if options is not None:
            from lqw.cli.judging import judged

            return judged(**options)
        app_of(words[0] if words else None)(words)  # ends in SystemExit: 2 for what it does not know, 130 for Ctrl-C
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.PASS
    except OutputError:
        raise
    except LqwError as err:
        print(f"lqw: {err}", file=sys.stderr)
        return err.exit_status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except Exception:  # noqa: BLE001 - the last line of defence: named, with its traceback, and never a verdict
        import traceback

        traceback.print_exc()
        print("lqw: internal error: NOT A VERDICT", file=sys.stderr)
        return Exit.INTERNAL
    return Exit.PASS


def main() -> None:
    """Enter from the console script.

    Pydantic's plugins are switched off: whatever else is installed has no say in what a receipt is, and looking for
    them takes longer than judging a small one.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(*FEW_ROUNDS)
    guard()
    status = run()
    if sys.argv[1:2] == ["verify"]:  # all is said and written; taking every object apart would take a tenth of the time
        os._exit(status)
    sys.exit(status)

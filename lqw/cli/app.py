"""The ``lqw`` command. Heavy imports wait inside the commands: ``lqw --help`` and ``lqw verify`` stay quick."""

from __future__ import annotations

import sys
import traceback

import typer

from lqw.cli import (
    baseline,
    calibrate,
    demo,
    doctor,
    gate,
    lab,
    parity,
    power,
    reference,
    report,
    selftest,
    show,
    sign,
    synth,
    tag,
    verify,
)
from lqw.errors import Exit, LqwError

__all__ = ["app", "main"]

app = typer.Typer(
    name="lqw",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A release gate for LLM inference speed: paired ratios against llama.cpp, and a ratchet.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("gate")(gate.gate)
app.add_typer(baseline.app, name="baseline")
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("selftest")(selftest.selftest)
app.command("verify")(verify.verify)
app.command("tag")(tag.tag)
app.add_typer(tag.app, name="hooks")
app.command("sign")(sign.sign)
app.add_typer(sign.app, name="key")
app.command("show")(show.show)
app.command("report")(report.report)
app.command("power")(power.power)
app.command("lab")(lab.lab)
app.command("synth")(synth.synth)
app.command("calibrate")(calibrate.calibrate)
app.add_typer(parity.app, name="parity")
app.add_typer(reference.app, name="reference")


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status; every error becomes its message and its remedy."""
    try:
        app(arguments)  # ends in SystemExit: 2 for a command line it does not know, 130 for Ctrl-C
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.PASS
    except LqwError as err:
        print(f"lqw: {err}", file=sys.stderr)
        return err.exit_status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except Exception:  # noqa: BLE001 - the last line of defence: named, with its traceback, and never a verdict
        traceback.print_exc()
        print("lqw: internal error: NOT A VERDICT", file=sys.stderr)
        return Exit.INTERNAL
    return Exit.PASS


def main() -> None:
    """Enter from the console script."""
    sys.exit(run())

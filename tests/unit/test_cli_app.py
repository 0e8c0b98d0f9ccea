"""The command line: exit statuses, messages with remedies, and nothing heavy before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console

from lqw.canonical import MAX_BYTES
from lqw.cli import app as cli
from lqw.cli.said import MAX_REASONS, say
from lqw.errors import Exit, HostBusy, IntegrityError, RatchetRed
from lqw.outcomes import Outcome
from lqw.pipeline.gate import Finished
from lqw.pipeline.runs import Folder

CASES = Path(__file__).parents[1] / "fixtures/selftest"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["gate"],
        ["gate", "--nope"],
        ["gate", "nope.yaml"],
        ["baseline", "show", "nope"],
        ["baseline", "adopt"],
    ],
)
def test_what_cannot_be_run_ends_in_2(arguments, capsys):
    assert cli.run(arguments) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["gate", "--help"], ["baseline", "--help"], ["selftest", "-h"]])
def test_help_ends_in_0(arguments, capsys):
    assert cli.run(arguments) == Exit.PASS
    assert capsys.readouterr().out != ""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HostBusy("held", remedy="wait"), 75),
        (IntegrityError("bad"), 4),
        (RatchetRed("red"), 1),
        (ValueError("x"), 70),
        (KeyboardInterrupt(), 130),
        (typer.Exit(3), 3),
    ],
)
def test_every_error_ends_in_its_status(monkeypatch, capsys, error, status):
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def only():
        raise error

    monkeypatch.setattr(cli, "app_of", lambda _: app)
    assert cli.run([]) == status
    said = capsys.readouterr().err
    assert ("remedy: wait" in said) == (status == 75)
    assert ("NOT A VERDICT" in said) == (status == 70)


def test_resume_run_and_journal_exclude_each_other(capsys):
    assert cli.run(["gate", "p.yaml", "--resume", "a", "--run", "b"]) == Exit.USAGE
    assert cli.run(["gate", "p.yaml", "--resume", "a", "--journal", "b"]) == Exit.USAGE
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("journal", "problem"),
    [(".", "a folder"), ("/dev/zero", "not a regular file"), ("absent", "no such file"), ("huge", "bytes, and no rec")],
)
def test_what_can_be_no_recorded_journal_is_named_and_not_read(journal, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "huge").open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    release = CASES / "params/demo/1.1.0.yaml"
    assert cli.run(["gate", str(release), "--journal", journal, "--run", "run"]) == Exit.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert f"{journal}: " in said
    assert problem in said
    assert not (tmp_path / "run").exists()


def test_a_command_is_found_by_its_name_alone_as_it_is_among_all():
    every = typer.main.get_command(cli.app_of(None)).commands
    assert set(every) == set(cli.COMMANDS)
    for name, command in every.items():
        (alone,) = typer.main.get_command(cli.app_of(name)).commands.values()
        assert (alone.name, alone.help) == (name, command.help)


def test_a_command_imports_no_other():
    code = "import sys, lqw.cli.app as cli; cli.run(['verify']); print(*(m for m in sys.modules if 'lqw.cli.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {f"lqw.cli.{name}" for name in ("app", "quick", "streams", "judging", "plain")}


def test_verifying_needs_no_typer():
    code = "import sys, lqw.cli.app as cli; cli.run(['verify', 'none.json']); print('typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_command_line_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "pandas", "matplotlib", "papermill", "IPython", "httpx", "xllamacpp"}
    code = f"import sys, lqw.cli.app; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_say_prints_verdict_counts_and_reasons_and_says_what_it_cut(tmp_path, capsys):
    reasons = tuple(f"reason {i}" for i in range(MAX_REASONS + 3))
    finished = Finished(
        Folder(tmp_path), Exit.RED, Outcome.RED, "it fell", "rows: planned 1", reasons, ("note",), tmp_path / "r"
    )
    say(Console(width=80), finished)
    said = capsys.readouterr().out
    for words in ("RED", "it fell", "rows: planned 1", "reason 19", "and 3 more", "note", "report"):
        assert words in said
    assert "reason 20" not in said
    assert "--resume" not in said


def test_say_tells_how_to_go_on_after_a_broken_chain_but_not_after_a_refusal(tmp_path, capsys):
    for status, goes_on in ((Exit.INTERNAL, True), (Exit.USAGE, False)):
        say(Console(width=80), Finished(Folder(tmp_path), status, Outcome.INCOMPLETE, "x", "rows: not judged", (), ()))
        assert ("--resume" in capsys.readouterr().out) is goes_on

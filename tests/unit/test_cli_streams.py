"""Where the output goes: a reader that left, a device that is full, an encoding that lacks characters; the quick parser."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from lqw.cli import app as cli
from lqw.cli import judging
from lqw.cli.quick import verify_options
from tests.support.command import LQW

RECEIPT = Path(__file__).parents[1] / "fixtures" / "receipts" / "lqw-receipt-1.json"


def _ended(*words, out, **environment):
    """Return exit status and standard error of a command whose standard output is *out*."""
    done = subprocess.run(
        [*LQW, *map(str, words)], stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_reader_that_left_changes_neither_status_nor_peace():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        assert _ended("show", RECEIPT, out=gone) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_device_without_room_is_named_and_is_never_a_verdict():
    with Path("/dev/full").open("wb") as full:
        status, said = _ended("verify", RECEIPT, out=full)
    assert status == 74
    assert said.startswith("lqw: standard output: No space left on device\n  remedy: ")


def test_an_encoding_that_lacks_a_character_shows_its_number(tmp_path):
    told = tmp_path / "told"
    with told.open("wb") as out:
        assert _ended("show", RECEIPT, out=out, PYTHONIOENCODING="ascii") == (0, "")
    assert b"\\u2713 PASS" in told.read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        "a.json", "a.json b.json --json", "--all", "--all --repo r --params p", "--tag v1.0.0 --at HEAD~1 --policy main",
        "--tag=v1.0.0 --day 2026-12-02", "--history --since abc --repo=r", "a.json --junit - --markdown m.md --link l",
        "--github a.json", "", "--tag v1 --tag v2", "--nope", "-h", "--tag", "-- a.json", "--tag -x", "--json=1", "--repo=",
        "--al", "- a.json",
    ],
)  # fmt: skip
def test_the_quick_parser_reads_what_typer_reads_or_nothing(line, monkeypatch):
    words, seen = line.split(), []
    defaults = judging.judged.__kwdefaults__
    monkeypatch.setattr(judging, "judged", lambda paths, **options: seen.append({**options, "paths": paths}) or 0)
    quick = verify_options(words)
    with suppress(SystemExit):
        cli.app_of("verify")(["verify", *words])
    if quick is not None:
        assert [{**defaults, "paths": None, **quick}] == seen


def test_plain_lines_are_read_quickly():
    assert verify_options(["--tag", "v1", "--repo", "r"]) == {"tag": "v1", "repo": Path("r")}
    assert verify_options(["a.json", "--json"]) == {"paths": [Path("a.json")], "as_json": True}

"""The documentation: every command in it is one, every link leads somewhere, the site builds without a warning."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from lqw.cli.app import app_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE = {"fields.md", "tamper.md", "tamper-beside.md"}  # written by programs, held to those by tests of their own
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _quoted(page):
    """Yield every line of a code block, continued lines joined, and every code span of *page*."""
    text = page.read_text(encoding="utf-8")
    for block in FENCE.findall(text):
        yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def _commands(program):
    """Return (page, words) of every call of *program* in the documentation."""
    found = []
    for page in PAGES:
        if page.name in MADE:
            continue
        for line in _quoted(page):
            for part in re.split(r"[;|]|&&", line.partition("#")[0]):
                words = shlex.split(part) if part.count('"') % 2 == 0 and "'" not in part else part.split()
                if words[:1] == [program] and len(words) > 1:
                    found.append((page.relative_to(ROOT).as_posix(), words[1:]))
    return found


def _known_options(words):
    """Return the options of the command that *words* begin with; a name that is no command fails."""
    command = typer.main.get_command(app_of(words[0]))
    for word in words:
        below = getattr(command, "commands", None)
        if below is None:
            break
        assert word in below, f"no such command: {' '.join(words)}"
        command = below[word]
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def test_every_command_of_the_documentation_is_one_with_those_options():
    calls = [(page, words) for page, words in _commands("lqw") if words[0] != "…"]
    assert len(calls) > 60, "the search itself has lost them"
    wrong = []
    for page, words in calls:
        try:
            known = _known_options(words)
        except AssertionError as err:
            wrong.append(f"{page}: {err}")
            continue
        unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - known
        wrong += [f"{page}: lqw {' '.join(words)}: {option}" for option in sorted(unknown)]
    assert wrong == []


def test_every_make_target_of_the_documentation_is_one():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {(page, word) for page, words in _commands("make") for word in words if re.fullmatch(r"[a-z-]+", word)}
    assert len(asked) > 8
    assert {(page, word) for page, word in asked if word not in targets} == set()


def test_every_parameter_file_named_is_there():
    named = {
        (page.name, path)
        for page in PAGES
        for path in re.findall(r"params/[\w./-]+\.yaml", page.read_text(encoding="utf-8"))
    }
    places = [ROOT, ROOT / "tests/fixtures/selftest"]  # the README changes into the second
    assert {
        path for _, path in named if not any((place / path).is_file() for place in places) and "NAME" not in path
    } <= {
        "params/demo/9.9.9-misspelt.yaml",  # the case of a file that is not there
        "params/signers/ada.yaml",  # which the reader makes
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_site_builds_without_a_warning(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", ROOT / "docs", tmp_path],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stderr) == (0, "")
    assert "<h1>lqw" in (tmp_path / "index.html").read_text(encoding="utf-8")

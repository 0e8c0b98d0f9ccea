"""``lqw tag`` and the pre-push hook against a real bare remote; what CI shows of a verdict."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lqw.cli.app import run
from lqw.errors import Exit
from lqw.release.findings import invalid
from lqw.release.git import Repository
from lqw.release.page import Page
from lqw.release.tagging import Blocked, check_push, install_hook
from lqw.report.ci import MARKER, comment_md, github_commands, page_junit
from tests.support.scratch import ENVIRONMENT, REPOSITORY, Scratch

HOOK = {**ENVIRONMENT, "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("scratch") / "passed").begin().adopt().passing()


@pytest.fixture
def scratch(passed, tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        if name.startswith("GIT_"):
            monkeypatch.setenv(name, value)
    copy = passed.copy(tmp_path / "repository")
    copy.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    copy.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    return copy


def remote_tags(scratch):
    return scratch.git("ls-remote", "--tags", "origin").split()


def push(scratch, *refs):
    ran = subprocess.run(
        ["git", "push", "-q", "origin", *refs], cwd=scratch.root, env=HOOK, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stderr


def test_a_tag_is_made_only_by_a_pass_and_then_gets_through_the_hook(scratch, capsys):
    repo = ["--repo", str(scratch.root)]
    assert run(["hooks", "install", *repo]) == Exit.PASS
    assert run(["hooks", "install", *repo]) == Exit.PASS, "twice is once"
    assert run(["tag", "v1.1.0", *repo]) == Exit.PASS
    assert "PASS: v1.1.0" in capsys.readouterr().out
    message = scratch.git("tag", "-l", "--format=%(contents)", "v1.1.0")
    receipt = (scratch.root / "receipts/lambda/1.1.0.json").read_bytes()
    sha256 = subprocess.run(["sha256sum"], input=receipt, capture_output=True, check=True).stdout.decode().split()[0]
    assert f"lqw-receipt lambda {sha256}" in message
    assert scratch.git("cat-file", "-t", "v1.1.0") == "tag"
    status, said = push(scratch, "main", "v1.1.0")
    assert (status, "v1.1.0 verified" in said) == (0, True), said
    assert any(ref.endswith("refs/tags/v1.1.0") for ref in remote_tags(scratch))
    assert run(["tag", "v1.1.0", *repo]) == Exit.USAGE, "a tag is never moved"


@pytest.mark.parametrize(("name", "status"), [("v9.9.9", Exit.UNDECIDED), ("release-1", Exit.USAGE)])
def test_no_verdict_no_tag(scratch, name, status):
    assert run(["tag", name, "--repo", str(scratch.root)]) == status
    assert scratch.git("tag", "-l", name) == ""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (["tag", "v1.1.0"], "not annotated"),
        (["tag", "-a", "v1.1.0", "-m", "by hand"], "names no receipt of lambda"),
        (["tag", "-a", "v1.2.0", "-m", "unmeasured"], "is of release 1.2.0"),
    ],
)
def test_a_tag_that_was_made_otherwise_is_not_pushed(scratch, make, words):
    scratch.git(*make)
    name = next(word for word in make if word.startswith("v"))
    sent = scratch.git("rev-parse", name)
    line = f"refs/tags/{name} {sent} refs/tags/{name} {'0' * 40}\n"
    with pytest.raises(Blocked, match=words):
        check_push(Repository(scratch.root), [line], policy=None, day="2026-06-01")


def test_a_tag_without_a_receipt_does_not_reach_the_remote(scratch):
    install_hook(Repository(scratch.root))
    scratch.git("tag", "-a", "v1.2.0", "-m", "unmeasured")
    status, said = push(scratch, "v1.2.0")
    assert status != 0
    assert "is of release 1.2.0" in said
    assert remote_tags(scratch) == []


def test_the_hook_runs_no_code_of_the_repository_that_is_pushed(scratch):
    """A module of the pushed tree by the name of one that lqw imports would answer in its place."""
    for name in ("json.py", "yaml.py", "pydantic.py", "lqw/__init__.py", "lqw/cli/__init__.py"):
        scratch.write(name, "import os\nos._exit(0)\n")
    install_hook(Repository(scratch.root))
    scratch.git("tag", "-a", "v1.2.0", "-m", "unmeasured")
    status, said = push(scratch, "v1.2.0")
    assert (status != 0, "is of release 1.2.0" in said) == (True, True), said
    assert remote_tags(scratch) == []


def test_the_hook_lets_branches_and_other_tags_go(scratch):
    install_hook(Repository(scratch.root))
    scratch.git("tag", "nightly")
    assert push(scratch, "main", "nightly") == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(delete) {zero} refs/tags/v1.1.0 {sha}", "neither deleted nor moved"),
        ("refs/tags/v1.1.0 {sha} refs/tags/v1.1.0 {sha}", "neither deleted nor moved"),
        ("refs/tags/v1.1.0 {sha} refs/tags/v1.1.1 {zero}", "under its own name"),
        ("refs/heads/main {sha} refs/tags/v1.1.0 {zero}", "under its own name"),
    ],
)
def test_the_hook_neither_moves_nor_deletes_nor_renames(scratch, line, words):
    with pytest.raises(Blocked, match=words):
        check_push(
            Repository(scratch.root), [line.format(sha=scratch.head, zero="0" * 40)], policy=None, day="2026-06-01"
        )


def test_another_hook_is_left_alone(scratch):
    place = scratch.write(".git/hooks/pre-push", "#!/bin/sh\nexit 0\n")
    assert run(["hooks", "install", "--repo", str(scratch.root)]) == Exit.USAGE
    assert place.read_text() == "#!/bin/sh\nexit 0\n"
    place.unlink()
    place.symlink_to("/dev/null")
    assert run(["hooks", "install", "--repo", str(scratch.root)]) == Exit.INVALID
    place.unlink()
    scratch.git("config", "core.hooksPath", str(scratch.root.parent / "elsewhere"))
    assert run(["hooks", "install", "--repo", str(scratch.root)]) == Exit.USAGE


def test_verify_shows_a_tag_in_every_form(scratch, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    for name, value in (("SERVER_URL", "https://git.example"), ("REPOSITORY", "o/r"), ("RUN_ID", "7")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    forms = ["--markdown", str(tmp_path / "comment.md"), "--junit", str(tmp_path / "junit.xml"), "--github"]
    assert run(["verify", "--tag", "v1.1.0", "--repo", str(scratch.root), *forms, "--json"]) == Exit.PASS
    out = capsys.readouterr().out
    assert out.startswith("::notice title=lqw v1.1.0%3A PASS::PASS")
    body = json.loads(out[out.index("{") :])
    assert (body["outcome"], body["receipts"][0]["counts"]["measured"]) == ("PASS", 2)
    text = (tmp_path / "comment.md").read_text()
    assert text == (tmp_path / "summary.md").read_text()
    for words in (
        MARKER,
        "## ✓ PASS v1.1.0",
        "rows: planned 2",
        "Since the first release",
        "(https://git.example/o/r/",
    ):
        assert words in text
    assert len(text.splitlines()) <= 60
    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
    assert [(suite.get("tests"), suite.get("failures")) for suite in root] == [("2", "0"), ("1", "0")]


def test_verify_shows_receipts_and_history_too(scratch, tmp_path, capsys):
    repo = ["--repo", str(scratch.root)]
    assert run(["verify", "--all", *repo, "--markdown", "-"]) == Exit.PASS
    assert "PASS: all 2 receipts of the store are what they were: 1 FLOOR, 1 PASS" in capsys.readouterr().out
    assert run(["verify", "--history", *repo]) == Exit.PASS
    (scratch.root / "receipts/lambda/1.0.0.json").unlink()
    commit = scratch.commit("tidy")
    capsys.readouterr()
    assert run(["verify", "--history", *repo, "--github"]) == Exit.INVALID
    assert f"deleted in commit {commit[:12]}" in capsys.readouterr().out
    for wrong in ([], ["--all", "--history"], ["--tag", "v1.1.0", "--day", "soon"], ["--all", "--repo", str(tmp_path)]):
        assert run(["verify", *wrong, *([] if "--repo" in wrong else repo)]) == Exit.USAGE


HOSTILE = (
    "\x1b[2J<script>alert(1)</script>\u202e ::error::pwned\n::set-env name=PATH::/tmp\r| a | [x](javascript:1) 100%"
)


def test_hostile_words_are_harmless_in_every_form():
    page = Page(HOSTILE, Exit.INVALID, HOSTILE, (), (invalid("lost", HOSTILE, HOSTILE),), (("a", HOSTILE),), (HOSTILE,))
    for line in github_commands(page):
        assert line.isprintable()
        assert line.count("::") >= 2
        assert line.startswith("::error title=")
        assert "100%25" in line or "100%" not in line
    text = comment_md(page)
    assert "<script>" not in re.sub(r"`[^`]*`", "", text)  # in a code span it is shown
    assert not re.search(r"(?<!\\)\](?=\()", re.sub(r"`[^`]*`", "", text))
    assert "\x1b" not in text
    assert "\u202e" not in text
    root = ET.fromstring(page_junit(page).encode())  # noqa: S314 - our own text
    assert root[0].get("errors") == "1"


def test_verify_tag_loads_nothing_heavy():
    heavy = (
        "papermill",
        "matplotlib",
        "pandas",
        "httpx",
        "IPython",
        "psutil",
        "scipy.stats",
        "lqw.report",
        "rich.markup",
    )
    code = (
        f"import sys, lqw.cli.tag, lqw.release.tag, lqw.release.page; print([m for m in {heavy!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=HOOK)
    assert ran.stdout.strip() == "[]"
    assert Path(os.devnull).exists()

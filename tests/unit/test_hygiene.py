"""Rules of the house that a reader would otherwise have to check by eye."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_MODULE_LINES = 320


def _tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _text_files():
    for path in _tracked():
        if path.suffix in {
            ".py",
            ".md",
            ".yaml",
            ".yml",
            ".toml",
            ".ipynb",
            ".sh",
            ".j2",
            ".css",
            ".json",
            ".lock",
            "",
        }:
            yield path, path.read_text(encoding="utf-8", errors="replace")


def test_top_level_is_the_agreed_layout():
    entries = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    allowed = {
        "notebooks", "lqw", "params", "receipts", "reports", "tests", "docs", "examples", ".ci", ".gitignore",
        "environment.yml", "pyproject.toml", "requirements.lock", "Makefile", "README.md", "CHANGELOG.md", "LICENSE",
    }  # fmt: skip
    assert entries <= allowed, entries - allowed


def test_no_machine_path_and_no_registry_host_is_committed():
    banned = re.compile(
        "|".join(
            [
                "/" + "work/",
                "/" + "root/",
                "pypi" + r"\.org",
                "npm" + r"js\.org",
                "crates" + r"\.io",
                "debian" + r"\.org",
            ]
        )
    )
    found = [
        f"{path.relative_to(ROOT)}: {m.group()}" for path, text in _text_files() for m in [banned.search(text)] if m
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["lqw"])
def test_modules_stay_readable(folder):
    long = {
        str(p.relative_to(ROOT)): n
        for p in (ROOT / folder).rglob("*.py")
        if (n := len(p.read_text().splitlines())) > MAX_MODULE_LINES
    }
    assert long == {}, "split what has grown past one screenful of thought"


def test_no_test_is_skipped_without_a_reason():
    bare = re.compile(r"pytest\.skip\(\s*\)|mark\.skip\b(?!if)(?!\()|mark\.xfail\b(?!\()")
    assert [
        str(p) for p, text in _text_files() if p.suffix == ".py" and p.name != "test_hygiene.py" and bare.search(text)
    ] == []

"""docs/pitfalls.md: every failure of the collection stands there once; the tests it and bad-engines.md name are there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
KNOWN = 68  # failures of the collection
LINE = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
TESTS = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def _tests_of(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_failure_stands_there_once_and_is_held_by_tests_that_exist():
    lines = LINE.findall((ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8"))
    assert sorted(int(number) for number, *_ in lines) == list(range(1, KNOWN + 1))
    for number, _, _, held in lines:
        named = TESTS.findall(held)
        assert named, f"{number} is held by no test"
        assert [name for file, name in named if name not in _tests_of(file)] == [], number


def test_each_bad_engine_tried_by_hand_is_held_by_tests_that_exist():
    page = (ROOT / "docs" / "measured" / "bad-engines.md").read_text(encoding="utf-8")
    header, _, *cases = [line for line in page.splitlines() if line.startswith("|")]
    assert header.count("|") == 6
    assert len(cases) == 19
    for case in cases:
        named = TESTS.findall(case.rpartition(" | ")[2])
        assert named, f"held by no test: {case}"
        assert [name for file, name in named if name not in _tests_of(file)] == [], case

"""What a mutant changes, as one line of text that stays the same when mutants are numbered anew."""

from __future__ import annotations

import re
from difflib import unified_diff
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["change_of", "difference", "function_of", "module_of"]

CONTEXT = 2  # words before the change
NOTHING = "left out"
_DEF = re.compile(r"^( *)(?:async )?def (\w+)\(")


def module_of(name: str) -> str:
    """Return the module of a mutant, from the package: ``verdict.judge``."""
    return name.rpartition(".")[0].removeprefix("lqw.")


def function_of(name: str) -> str:
    """Return module and function of a mutant: ``ratchet.baseline.RowEntry.floor_on``, ``verdict.judge._replay``."""
    function = re.sub(r"__mutmut_\d+$", "", name.rpartition(".")[2])
    function = function[2:] if function.startswith("x_") else function.removeprefix("xǁ").replace("ǁ", ".")
    return f"{module_of(name)}.{function}"


def difference(place: Path, name: str) -> tuple[list[str], list[str]]:
    """Return the lines a mutant takes away and those it puts in."""
    module, _, function = name.rpartition(".")
    bodies = _bodies(place / "mutants" / f"{module.replace('.', '/')}.py")
    original = re.sub(r"_\d+$", "_orig", function)
    plain = function_of(name).rpartition(".")[2]  # a wrapper stands under that name; mutants have numbers
    one, other = ([line.replace(at, plain) for line in bodies.get(at, [])] for at in (original, function))
    lines = [line for line in unified_diff(one, other, n=0, lineterm="") if line[:3] not in ("+++", "---")]
    return [line[1:] for line in lines if line[0] == "-"], [line[1:] for line in lines if line[0] == "+"]


def change_of(place: Path, name: str) -> str:
    """Return the change as ``old → new``: the words that differ, and two before them."""
    old, new = (" ".join(lines).split() for lines in difference(place, name))
    short = min(len(old), len(new))
    start = next((i for i in range(short) if old[i] != new[i]), short)
    end = next((i for i in range(short - start) if old[-1 - i] != new[-1 - i]), short - start)
    start = max(start - CONTEXT, 0)
    was, now = (" ".join(words[start : len(words) - end]) for words in (old, new))
    return f"{was} → {now or NOTHING}"


@cache
def _bodies(path: Path) -> dict[str, list[str]]:
    """Return every function of a file of mutants by its name."""
    out: dict[str, list[str]] = {}
    body: list[str] = []
    indent = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _DEF.match(line)
        if found and (not body or len(found[1]) <= indent):
            indent, body = len(found[1]), []
            out[found[2]] = body
        elif body and line.strip() and len(line) - len(line.lstrip()) <= indent and line.lstrip()[0] not in ")#":
            body = []
            continue
        if found or body:
            body.append(line)
    return out

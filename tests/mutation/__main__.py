"""``make mutants``: change lqw.verdict and lqw.ratchet one place at a time; the tests must notice.

``python -m tests.mutation [--share 0.3] [--seed 1] [--only 'lqw.verdict.confirm.*'] [--place runs/mutation]`` copies the
tree, lets mutmut (its settings are in pyproject.toml) make the mutants, runs a sample of them drawn from the seed, and
prints the score and every survivor. A second call with the same place goes on where the first one stopped. Exit 1 below 90 %.
"""

# ruff: noqa: T201 - a script that prints what it found

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("lqw", "tests", "params", "pyproject.toml")
LEAST = 0.90
KILLED = frozenset({1, 3, -24, 24, 36, 152, 255})  # a test failed; or the mutant never ended
SURVIVED = 0
UNTESTED = (5, 33)


def copy_to(place: Path) -> None:
    """Bring the tree in *place* up to date; what mutmut keeps beside it stays."""
    place.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source, target = ROOT / name, place / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)


def mutmut(place: Path, names: list[str]) -> None:
    """Run mutmut on *names*; none of its own exit codes says more than its results do."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count() or 1), *names]
    with (place / "mutmut.log").open("ab") as log:
        subprocess.run(command, cwd=place, env=environment, stdout=log, stderr=log, check=False)


def results(place: Path) -> dict[str, int | None]:
    """Return the exit code of every mutant; None where it was not run."""
    out: dict[str, int | None] = {}
    for meta in sorted((place / "mutants").rglob("*.meta")):
        out |= json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
    return out


def difference(place: Path, name: str) -> str:
    """Return what a mutant changes, as the lines it takes away and puts in."""
    module, _, function = name.rpartition(".")
    text = (place / "mutants" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    one, other = (_body(text, re.sub(r"_\d+$", "_orig", function)), _body(text, function))
    lines = difflib.unified_diff(one, other, n=0, lineterm="")
    return "\n".join(
        line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---") and "__mutmut_" not in line
    )


def _body(text: str, function: str) -> list[str]:
    found = re.search(rf"^( *)def {function}\(", text, re.MULTILINE)
    if found is None:
        return []
    first, *rest = text[found.start() :].splitlines()
    out = [first]
    for line in rest:
        if line.strip() and len(line) - len(line.lstrip()) <= len(found[1]) and line.lstrip()[0] not in ")#":
            break
        out.append(line)
    return out


def main() -> int:
    """Run the sample and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the mutants that is run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", help="pattern of the mutants' names")
    parser.add_argument("--place", type=Path, default=ROOT / "runs" / "mutation")
    options = parser.parse_args()
    place = options.place.resolve()
    copy_to(place)
    mutmut(place, ["lqw.verdict.order.x__duplicates__mutmut_1"])  # makes them all, runs one
    names = sorted(fnmatch.filter(results(place), options.only))
    if not names:
        print(f"mutmut made no mutants: see {place / 'mutmut.log'}")
        return 2
    drawn = set(random.Random(options.seed).sample(names, round(options.share * len(names))))  # noqa: S311 - a sample
    done = results(place)
    mutmut(place, sorted(name for name in drawn if done[name] is None))
    codes = {name: code for name, code in results(place).items() if name in drawn}
    killed = [name for name, code in codes.items() if code in KILLED]
    lived = [name for name, code in codes.items() if code == SURVIVED or code in UNTESTED]
    other = [name for name in codes if name not in {*killed, *lived}]
    for name in lived:
        print(f"survived: {name}\n{difference(place, name)}")
    by_module = Counter(name.rpartition(".")[0] for name in lived)
    for module, count in sorted(by_module.items()):
        print(f"{count:4} {module}")
    judged = len(killed) + len(lived)
    share = len(killed) / judged if judged else 0.0
    print(f"{len(names)} mutants, {len(drawn)} drawn (seed {options.seed}), {judged} judged, {len(other)} not run")
    print(f"killed {len(killed)} of {judged}: {share:.1%}")
    return 0 if share >= LEAST and not other else 1


if __name__ == "__main__":
    sys.exit(main())

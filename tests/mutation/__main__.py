"""``make mutants``: change lqw.verdict and lqw.ratchet one place at a time; the tests must notice.

``python -m tests.mutation [--share 0.3] [--seed 1] [--only 'lqw.verdict.confirm.*'] [--place runs/mutation]`` copies the
tree, lets mutmut (its settings are in pyproject.toml) make the mutants, runs a sample of them drawn from the seed, and
prints the score. Every survivor stands in survivors.toml with its reason: one that does not is named, and so is a listed one
that is killed by now. A second call with the same place goes on where the first one stopped; ``--again`` runs what lived
once more, against the tests of today. Exit 1 below 90 % and with an unlisted survivor.
"""

# ruff: noqa: T201 - a script that prints what it found

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.mutation.changes import change_of, function_of, module_of
from tests.mutation.survivors import Lives, read_list

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


def unlisted(lived: Counter[Lives], listed: Counter[Lives]) -> list[str]:
    """Return the survivors that the list lacks."""
    return [str(one) for one in sorted((lived - listed).elements())]


def outlived(lived: Counter[Lives], killed: Counter[Lives], listed: Counter[Lives]) -> list[str]:
    """Return the listed survivors that this run saw killed."""
    return [str(one) for one in sorted(((listed - lived) & killed).elements())]


def main() -> int:
    """Run the sample and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the mutants that is run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", help="pattern of the mutants' names")
    parser.add_argument("--place", type=Path, default=ROOT / "runs" / "mutation")
    parser.add_argument("--again", action="store_true", help="run once more what lived")
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
    mutmut(place, sorted(name for name in drawn if done[name] is None or (options.again and done[name] == SURVIVED)))
    codes = {name: code for name, code in results(place).items() if name in drawn}
    killed = [name for name, code in codes.items() if code in KILLED]
    lived = [name for name, code in codes.items() if code == SURVIVED or code in UNTESTED]
    return told(place, names, killed, lived, others=len(codes) - len(killed) - len(lived))


def told(place: Path, names: list[str], killed: list[str], lived: list[str], *, others: int) -> int:
    """Print scores, unlisted survivors and listed ones that were killed; return the exit status."""
    here, dead = (Counter(Lives(function_of(n), change_of(place, n)) for n in group) for group in (lived, killed))
    listed = read_list().lives
    new = unlisted(here, listed)
    for heading, lines in (("not listed", new), ("listed, but killed", outlived(here, dead, listed))):
        print(*(f"{heading}: {line}" for line in lines), sep="\n", end="\n" if lines else "")
    alive, judged = Counter(map(module_of, lived)), Counter(map(module_of, (*lived, *killed)))
    for module, count in sorted(judged.items()):
        print(f'"{module}" = [{count - alive[module]}, {count}]')
    share = len(killed) / judged.total() if judged else 0.0
    print(f"{len(names)} mutants, {judged.total()} judged, {others} not run, {len(lived)} live, {len(new)} not listed")
    print(f"killed {len(killed)} of {judged.total()}: {share:.1%}")
    return 0 if share >= LEAST and not others and not new else 1


if __name__ == "__main__":
    sys.exit(main())

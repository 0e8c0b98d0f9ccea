"""The RED proof: recorded journals through the real notebooks 20–40, without an engine.

A gate that is always green fails the cases that must be RED or void; one that is always red fails the healthy one.
Every case is a folder: ``samples.jsonl``, ``baseline.json``, ``reference.json`` (where there was one) and
``expected.json``: ``{"exit": 1, "outcome": "RED", "red_rows": […], "void_rows": […]}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lqw
from lqw.canonical import read_json
from lqw.errors import UsageError
from lqw.pipeline.runs import Folder

__all__ = ["CaseResult", "cases_folder", "judge_case", "main", "run_cases"]

AT_ONCE = 2
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one case gave, and every way in which that is not what was expected."""

    name: str
    problems: tuple[str, ...]
    seconds: float
    said: str


def cases_folder() -> Path:
    """Return the folder of the committed cases."""
    folder = Path(lqw.__file__).parents[1] / "tests" / "fixtures" / "selftest"
    if not folder.is_dir():
        raise UsageError(f"{folder}: no recorded journals", remedy="run `lqw selftest` in a checkout of the repository")
    return folder


def judge_case(case: Path, into: Path) -> dict[str, Any]:
    """Replay one case in this process's main thread; return what came out, in the shape of ``expected.json``."""
    from lqw.pipeline.gate import replay_into, run, store_beside  # noqa: PLC0415 - the parent starts children only
    from lqw.receipt import verify_receipt  # noqa: PLC0415

    journal = case / "samples.jsonl"
    store = store_beside(journal, into / "store")
    folder = Folder(into / "run")
    finished = run(replay_into(folder, journal, store))
    judgement = verify_receipt(folder.receipt).judgement if folder.receipt.is_file() else None
    rows = judgement.rows if judgement is not None else ()
    return {
        "exit": int(finished.status),
        "outcome": str(finished.outcome),
        "red_rows": sorted(str(row.row) for row in rows if row.verdict == "RED"),
        "void_rows": sorted(str(row.row) for row in rows if row.verdict == "VOID"),
        "said": " | ".join((finished.sentence, finished.counts, *finished.notes)),
    }


def _run_case(case: Path, into: Path) -> CaseResult:
    import time  # noqa: PLC0415

    begun = time.monotonic()
    expected = read_json(case / "expected.json")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lqw.pipeline.selftest", str(case), str(into)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # two cases at a time on two cores
        )
        got = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
        failure = "" if got else f"ended with {done.returncode}: {done.stderr.strip()[-500:]}"
    except subprocess.TimeoutExpired:
        got, failure = {}, f"did not end within {TIMEOUT_S:g} s"
    problems = (
        [failure]
        if failure
        else [
            f"{name}: {got.get(name)!r}, expected {wanted!r}"
            for name, wanted in expected.items()
            if got.get(name) != wanted
        ]
    )
    said = str(got.get("said", ""))
    return CaseResult(case.name, (*problems, *((said,) if problems and said else ())), time.monotonic() - begun, said)


def run_cases(folder: Path, into: Path) -> list[CaseResult]:
    """Run every case, two at a time.

    Raises
    ------
    UsageError
        There is no case: zero cases prove nothing.
    """
    cases = sorted(path.parent for path in folder.glob("*/expected.json"))
    outcomes = {read_json(case / "expected.json")["outcome"] for case in cases}
    if not {"PASS", "RED", "UNDECIDED"} <= outcomes:
        raise UsageError(
            f"{folder}: cases for {sorted(outcomes)} only; a proof needs PASS, RED and UNDECIDED",
            remedy="restore tests/fixtures/selftest from git",
        )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda case: _run_case(case, into / case.name), cases))


def main(arguments: list[str]) -> int:
    """Judge one case and print its result as the last line."""
    case, into = map(Path, arguments)
    into.mkdir(parents=True, exist_ok=True)
    print(json.dumps(judge_case(case, into)))  # noqa: T201 - the parent reads it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

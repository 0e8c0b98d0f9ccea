"""``lqw verify`` against a bare Python that reads and hashes the same file; ``make bench`` writes docs/benchmarks/verify.md."""

import gc
import itertools
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from lqw.cli.app import FEW_ROUNDS
from lqw.release.many import verify_many
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params
from tests.support.scratch import REPOSITORY, Scratch

PAGE = REPOSITORY / "docs" / "benchmarks" / "verify.md"
REPEATS = 7
MANY = 128  # receipts, enough to start every processor
READ_AND_HASH = "import json,hashlib,sys;d=open(sys.argv[1],'rb').read();json.loads(d);hashlib.sha256(d).hexdigest()"
LQW = [sys.executable, "-c", "from lqw.cli.app import main; main()", "verify"]
STARTS = (
    ("python, nothing else", "pass"),
    ("python and numpy", "import numpy"),
    ("python and pydantic", "import pydantic.main"),
    ("python and typer", "import typer"),
)
HEAD = """# How long `lqw verify` takes

Made by `make bench`; nothing here is a test. Machine: {machine}; {version}. When it began, {load:.1f} processes were
running or waiting beside it (load of the last minute){loud}.
Each line is a fresh process, median and quickest of {repeats}. "Read + hash" is
`python -c "{bare}"` on the same file. Files are in the page cache, byte code is written, as an installed package has it.

"""
QUIET = 0.5  # processes beside it


def _machine():
    """Return the processor's name and how many of them this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def _seconds(command):
    """Return median and least wall time of a command, each in a fresh interpreter."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - begun)
        assert done.returncode == 0, command
    return statistics.median(taken), min(taken)


def _line(what, path, ours, bare):
    (median, least), (reading, _) = ours, bare
    return f"| {what} | {path.stat().st_size:,} | {median:.2f} s | {least:.2f} s | {reading:.3f} s | {median / reading:.1f}× |"


def _many(what, paths, bare):
    """Return a line: receipts a second by one process and by every processor; no answer is remembered.

    *bare* is the time of a bare Python for one of them.
    """
    paths = [path for _, path in zip(range(MANY), itertools.cycle(paths), strict=False)]
    alone = []
    for path in paths[:: max(1, MANY // 32)]:
        begun = time.perf_counter()
        verify_many([path])
        alone.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    assert len(verify_many(paths)) == MANY
    rate, size = MANY / (time.perf_counter() - begun), sum(path.stat().st_size for path in paths) / MANY
    mean = statistics.mean(alone)
    return f"| {what} | {size:,.0f} | {mean * 1e3:.0f} ms | {1 / mean:.0f} | {rate:.0f} | {rate * bare:.1f}× |"


def page(place):
    """Measure; return the page."""
    load = os.getloadavg()[0]
    gc.set_threshold(*FEW_ROUNDS)  # as the command does
    scratch = Scratch(place / "release", more_models=29).begin().adopt()
    scratch.release("1.1.0")
    large = scratch.measure("1.1.0")
    scratch.commit("receipt of 1.1.0")
    store = adopt_floor(place / "store", synthetic_params(release="1.0.0", models=["m"]))
    small = place / "small.json"
    small.write_bytes(gate_receipt(store, synthetic_params(release="1.1.0", models=["m"])))
    own = sorted(path for path in (REPOSITORY / "receipts" / "h200").glob("*.json") if path.name[0].isdecimal())
    middle = sorted(own, key=lambda path: path.stat().st_size)[len(own) // 2]
    bare = {path: _seconds([sys.executable, "-c", READ_AND_HASH, str(path)]) for path in (small, large, middle)}
    repo = ["--repo", str(scratch.root)]
    lines = ["| command | bytes | lqw | quickest | read + hash | ratio |", "|---|---|---|---|---|---|"]
    lines += [
        _line(f"`lqw verify FILE`, {n} rows", p, _seconds([*LQW, str(p)]), bare[p])
        for n, p in ((8, small), (60, large))
    ]
    for what, options in (
        ("`lqw verify --tag`, 60 rows, and its floor's receipt", ["--tag", "v1.1.0"]),
        ("`lqw verify --history`", ["--history"]),
    ):
        lines.append(_line(what, large, _seconds([*LQW, *repo, *options]), bare[large]))
    lines += ["", "What a start alone takes:", "", "| start | seconds |", "|---|---|"]
    lines += [f"| {what} | {_seconds([sys.executable, '-c', code])[0]:.2f} |" for what, code in STARTS]
    lines += ["", f"Many at once ({MANY} of them, copies or in turn, `verify_many`, as `--all` calls it):", ""]
    lines += [
        "| receipt | bytes | each, by one process | a second, by one | a second, by all processors | of a bare process that reads and hashes one |",
        "|---|---|---|---|---|---|",
        _many("8 rows", [small], bare[small][0]),
        _many("60 rows", [large], bare[large][0]),
        _many(f"the {len(own)} of this repository", own, bare[middle][0]),
    ]
    head = HEAD.format(
        repeats=REPEATS,
        machine=_machine(),
        version=f"Python {platform.python_version()}",
        bare=READ_AND_HASH,
        load=load,
        loud="" if load < QUIET else ": **it was not alone**, so that every time is longer than it would be",
    )
    return head + "\n".join(lines) + "\n"


def write(place, target=PAGE):
    """Measure, write the page, and return it. What is written by hand below the tables stays."""
    text, kept = page(Path(place)), ""
    if target.is_file():
        _, mark, rest = target.read_text().partition("\n## ")
        kept = mark + rest
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + kept)
    return text

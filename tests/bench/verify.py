"""``lqw verify`` against a bare Python that reads and hashes the same file; ``make bench`` writes docs/benchmarks/verify.md."""

import gc
import itertools
import os
import platform
import resource
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
ALONE = 32  # of them by one process
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
Each line is a fresh process, {repeats} times. "Read + hash" is
`python -c "{bare}"` on the same file, run in turn with it; the ratio is of processor times. Files are in the page cache, byte code is written, as an installed package has it.

"""
QUIET = 0.5  # processes beside it


def _machine():
    """Return the processor's name and how many of them this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def _run(command):
    """Return wall time and processor time of a command in a fresh interpreter, what it waited for included."""
    begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    wall, now = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, command
    return wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def _line(what, path, command):
    """Run a command and a bare Python on the same file in turn: whatever else the machine does, it does to both."""
    bare = [sys.executable, "-c", READ_AND_HASH, str(path)]
    runs = [(_run(command), _run(bare)) for _ in range(REPEATS)]
    walls, used, reading = [one[0] for one, _ in runs], [one[1] for one, _ in runs], [other[1] for _, other in runs]
    ratio = statistics.median(one[1] / other[1] for one, other in runs)
    return (
        f"| {what} | {path.stat().st_size:,} | {statistics.median(walls):.2f} s | {min(walls):.2f} s "
        f"| {statistics.median(used):.2f} s | {statistics.median(reading):.3f} s | {ratio:.1f}× |"
    )


def _many(what, paths):
    """Return a line: processor time of each in one process, and receipts a second; no answer is remembered."""
    paths = [path for _, path in zip(range(MANY), itertools.cycle(paths), strict=False)]
    begun, used = time.perf_counter(), time.process_time()
    some = paths[:: MANY // ALONE][:ALONE]
    verify_many(some, processes=1)
    alone, used = (time.perf_counter() - begun) / len(some), (time.process_time() - used) / len(some)
    begun = time.perf_counter()
    assert len(verify_many(paths)) == MANY
    rate, size = MANY / (time.perf_counter() - begun), sum(path.stat().st_size for path in paths) / MANY
    reading = statistics.median(
        _run([sys.executable, "-c", READ_AND_HASH, str(path)])[0] for path in paths[: max(REPEATS, len(set(paths)))]
    )
    return f"| {what} | {size:,.0f} | {used * 1e3:.0f} ms | {1 / alone:.0f} | {rate:.0f} | {rate * reading:.1f}× |"


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
    repo = ["--repo", str(scratch.root)]
    lines = [
        "| command | bytes | median | quickest | processor time | that of read + hash | ratio |",
        "|---|---|---|---|---|---|---|",
        _line("`lqw verify FILE`, 8 rows", small, [*LQW, str(small)]),
        _line("`lqw verify FILE`, 60 rows", large, [*LQW, str(large)]),
        _line("`lqw verify --tag`, 60 rows, and its floor's receipt", large, [*LQW, *repo, "--tag", "v1.1.0"]),
        _line("`lqw verify --history`", large, [*LQW, *repo, "--history"]),
    ]
    lines += ["", "What a start alone takes:", "", "| start | median | processor time |", "|---|---|---|"]
    for what, code in STARTS:
        runs = [_run([sys.executable, "-c", code]) for _ in range(REPEATS)]
        wall, used = (statistics.median(one[at] for one in runs) for at in (0, 1))
        lines.append(f"| {what} | {wall:.2f} s | {used:.2f} s |")
    lines += [
        "",
        f"Many at once ({MANY} of them, copies or in turn, `verify_many`, as `--all` calls it):",
        "",
        "| receipt | bytes | processor time of each | a second, by one | a second, by all | of bare processes, one each |",
        "|---|---|---|---|---|---|",
        _many("8 rows", [small]),
        _many("60 rows", [large]),
        _many(f"the {len(own)} of this repository", own),
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

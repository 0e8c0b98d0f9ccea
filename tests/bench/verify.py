"""``lqw verify`` against a bare Python that reads and hashes the same file; ``make bench`` writes docs/benchmarks/verify.md."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

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

Made by `make bench`; nothing here is a test. Each line is a fresh process, median of {repeats}, on {processors} processors
({version}). "Read + hash" is
`python -c "{bare}"` on the same file. Files are in the page cache, byte code is written, as an installed package has it.

"""


def _seconds(command):
    """Return the median wall time of a command, each in a fresh interpreter."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - begun)
        assert done.returncode == 0, command
    return statistics.median(taken)


def _line(what, path, ours, bare):
    return f"| {what} | {path.stat().st_size:,} | {ours:.2f} s | {bare:.3f} s | {ours / bare:.1f}× |"


def _rate(path):
    """Return receipts a second, of many copies, judged by every processor; no answer is remembered."""
    begun = time.perf_counter()
    done = verify_many([path] * MANY)
    assert len(done) == MANY
    return MANY / (time.perf_counter() - begun)


def page(place):
    """Measure; return the page."""
    scratch = Scratch(place / "release", more_models=29).begin().adopt()
    scratch.release("1.1.0")
    large = scratch.measure("1.1.0")
    scratch.commit("receipt of 1.1.0")
    store = adopt_floor(place / "store", synthetic_params(release="1.0.0", models=["m"]))
    small = place / "small.json"
    small.write_bytes(gate_receipt(store, synthetic_params(release="1.1.0", models=["m"])))
    bare = {path: _seconds([sys.executable, "-c", READ_AND_HASH, str(path)]) for path in (small, large)}
    repo = ["--repo", str(scratch.root)]
    lines = ["| command | bytes | lqw | read + hash | ratio |", "|---|---|---|---|---|"]
    lines += [
        _line(f"`lqw verify FILE`, {n} rows", p, _seconds([*LQW, str(p)]), bare[p])
        for n, p in ((8, small), (60, large))
    ]
    for what, options in (
        ("`lqw verify --tag`, 60 rows", ["--tag", "v1.1.0"]),
        ("`lqw verify --history`", ["--history"]),
    ):
        lines.append(_line(what, large, _seconds([*LQW, *repo, *options]), bare[large]))
    lines += ["", "What a start alone takes:", "", "| start | seconds |", "|---|---|"]
    lines += [f"| {what} | {_seconds([sys.executable, '-c', code]):.2f} |" for what, code in STARTS]
    lines += ["", f"Many at once ({MANY} copies, `verify_many`, as `--all` calls it):", ""]
    lines += [
        "| receipt | bytes | receipts a second | of a bare process that reads and hashes one |",
        "|---|---|---|---|",
    ]
    for n, path in ((8, small), (60, large)):
        rate = _rate(path)
        lines.append(f"| {n} rows | {path.stat().st_size:,} | {rate:.0f} | {rate * bare[path]:.1f} × |")
    head = HEAD.format(
        repeats=REPEATS,
        processors=len(os.sched_getaffinity(0)),
        version=f"Python {sys.version.split()[0]}",
        bare=READ_AND_HASH,
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

"""``make bench``: a cold ``lqw verify`` against a bare Python that reads and hashes the same file; the client's error; the lab."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lqw.collect.calibrate import Load, calibrate, null_server
from lqw.release.many import verify_many
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params
from tests.bench.lab import answers
from tests.support.scratch import Scratch

REPEATS = 5
MANY = 64  # receipts, enough to start every processor
READ_AND_HASH = "import json,hashlib,sys;d=open(sys.argv[1],'rb').read();json.loads(d);hashlib.sha256(d).hexdigest()"
LOADS = (Load(streams=4, gap_ms=5.0, tokens=200, rounds=5), Load(streams=16, gap_ms=2.0, tokens=500, rounds=3))


def _seconds(command):
    """Return the median wall time of a command, all interpreters cold."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _verify(place):
    table = Table("receipt", "bytes", "lqw verify, s", "read + hash, s", "ratio", title="cold verify, median of 5")
    verify = [sys.executable, "-c", "from lqw.cli.app import main; main()", "verify"]
    for models in (1, 5):
        names = [f"m{index}" for index in range(models)]
        floor = synthetic_params(release="1.0.0", models=names)
        store = adopt_floor(place / str(models), floor)
        receipt = place / f"{models}.json"
        receipt.write_bytes(gate_receipt(store, synthetic_params(release="1.1.0", models=names)))
        ours = _seconds([*verify, str(receipt)])
        bare = _seconds([sys.executable, "-c", READ_AND_HASH, str(receipt)])
        table.add_row(
            f"{models} models", f"{receipt.stat().st_size:,}", f"{ours:.2f}", f"{bare:.3f}", f"{ours / bare:.1f}×"
        )
    return table


def _release(place):
    """Return a table of ``lqw verify --tag`` on a release of 60 rows, and of ``--all`` on many receipts."""
    table = Table("what", "bytes", "lqw", "read + hash, s", "ratio", title="a release in git, median of 5, cold")
    scratch = Scratch(place / "release", more_models=29).begin().adopt()
    scratch.release("1.1.0")
    receipt = scratch.measure("1.1.0")
    scratch.commit("receipt of 1.1.0")
    verify = [sys.executable, "-c", "from lqw.cli.app import main; main()", "verify", "--repo", str(scratch.root)]
    bare = _seconds([sys.executable, "-c", READ_AND_HASH, str(receipt)])
    size = f"{receipt.stat().st_size:,}"
    for what, options in (("--tag v1.1.0, 60 rows", ["--tag", "v1.1.0"]), ("--history", ["--history"])):
        ours = _seconds([*verify, *options])
        table.add_row(what, size, f"{ours:.2f} s", f"{bare:.3f}", f"{ours / bare:.1f}×")
    small = place / "1.json"
    for what, path in (("--all, 60 rows each", receipt), ("--all, 8 rows each", small)):
        begun = time.perf_counter()
        verify_many([path] * MANY)
        rate = MANY / (time.perf_counter() - begun)
        table.add_row(
            what, f"{path.stat().st_size:,}", f"{rate:.0f} receipts/s", f"{bare:.3f}", f"{rate * bare:.2f} a read"
        )
    return table


def _client(place):
    table = Table(
        "load", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "CPU", title="client error against the null server, ms"
    )
    with null_server("bench", place / "null.log") as target:
        for load in LOADS:
            found = calibrate(target, load)
            table.add_row(
                f"{load.streams} × {1e3 / load.gap_ms:.0f} tok/s",
                f"{found.ttft_error_p50_ms:.2f}", f"{found.ttft_error_p99_ms:.2f}",
                f"{found.itl_error_p50_ms:.3f}", f"{found.itl_error_p99_ms:.3f}", f"{found.cpu_share:.0%}",
            )  # fmt: skip
    return table


def main():
    """Print the tables."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        console.print(_verify(place))
        console.print(_release(place))
        console.print(_client(place))
    console.print(answers())


main()

"""``make bench``: ``lqw verify`` against a bare Python that reads and hashes the same file; the client's error; the lab."""

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lqw.collect.calibrate import Load, calibrate, null_server
from tests.bench import verify
from tests.bench.lab import answers

LOADS = (Load(streams=4, gap_ms=5.0, tokens=200, rounds=5), Load(streams=16, gap_ms=2.0, tokens=500, rounds=3))


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
        console.print(verify.write(place), markup=False, highlight=False, soft_wrap=True)
        console.print(_client(place))
    console.print(answers())


main()

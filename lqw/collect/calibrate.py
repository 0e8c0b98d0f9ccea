"""The client's own error, measured against the null server before every run, at the run's worst load.

Error of TTFT: what the client measured minus what the server says lay between the request's arrival and the sending of
the first event. Error of a gap: the client's gap between two events minus the server's. Both ends of the loopback are
in it, and so is whatever else the machine was doing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import lqw
from lqw.collect.transport import Exchange, Target, encode_request, exchange_together, quiet
from lqw.collect.wire import read_response
from lqw.host.ports import free_port
from lqw.host.supervise import Child, start
from lqw.metrics.checks import SATURATED_SHARE, VOID_TTFT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Calibration", "Load", "calibrate", "calibrate_patiently", "null_server"]

READY_S = 5.0
ATTEMPTS = 3


_ERRORS = ("ttft_error_p50_ms", "ttft_error_p99_ms", "itl_error_p50_ms", "itl_error_p99_ms", "cpu_share")


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: *rounds* batches of *streams* streams of *tokens* events, *gap_ms* apart, after *ttft_ms*."""

    streams: int
    gap_ms: float
    tokens: int
    rounds: int
    ttft_ms: float = 20.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Errors in ms; ``cpu_share`` is the client's CPU time over wall time while it waited for streams."""

    load: Load
    ttft_error_p50_ms: float
    ttft_error_p99_ms: float
    itl_error_p50_ms: float
    itl_error_p99_ms: float
    cpu_share: float
    earlier_ttft_error_p99_ms: tuple[float, ...] = ()  # attempts that were too late and were repeated
    unstamped: int = 0  # reads that the kernel did not stamp: the client's own delay is in them
    of: int = 1  # calibrations of the run, of which this is the worst: one more for a resume that came late

    @property
    def too_late(self) -> bool:
        """Return whether TTFT rows of this run would be void (MEASUREMENT, "Calibration")."""
        return self.ttft_error_p99_ms > VOID_TTFT_MS

    @property
    def flags(self) -> list[str]:
        """Return what a reader must be warned of."""
        out = [f"the worst of {self.of}: the run was resumed"] if self.of > 1 else []
        out += [f"repeated after a TTFT error p99 of {seen:.2f} ms" for seen in self.earlier_ttft_error_p99_ms]
        if self.too_late:
            out.append(f"TTFT error p99 {self.ttft_error_p99_ms:.2f} ms exceeds {VOID_TTFT_MS:g} ms")
        if self.unstamped:
            out.append(f"{self.unstamped} reads without the kernel's stamp: the client's own delay is in them")
        if self.cpu_share > SATURATED_SHARE:
            out.append(f"the client used {self.cpu_share:.0%} of a core")
        return out

    def to_json(self) -> dict[str, object]:
        """Return the form that collect.json and the receipt carry."""
        load = {name: getattr(self.load, name) for name in Load.__dataclass_fields__}
        errors = {name: round(getattr(self, name), 4) for name in _ERRORS}
        return {**errors, **load, "flags": "; ".join(self.flags) or "none"}


def _quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that *share* of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def errors_of(exchange: Exchange) -> tuple[float, list[float]]:
    """Return the TTFT error and the errors of all gaps of one exchange with the null server, ms."""
    events = [(e.stamp_ns, json.loads(e.data)) for e in read_response(exchange.stamps, exchange.reads).events]
    told = [(stamp, int(v["sent_ns"]), int(v["got_ns"])) for stamp, v in events if "sent_ns" in v]
    stamp, sent, got = told[0]
    ttft = (stamp - exchange.sent_ns) - (sent - got)
    gaps = [((after[0] - before[0]) - (after[1] - before[1])) / 1e6 for before, after in itertools.pairwise(told)]
    return ttft / 1e6, gaps


@contextlib.contextmanager
def null_server(run_id: str, log_path: Path) -> Iterator[Target]:
    """Start the null server and yield where it listens; it is gone afterwards."""
    port = free_port()
    command = [sys.executable, "-P", "-S", "-m", "lqw.testing.null_server", str(port)]
    env = {"PYTHONPATH": str(Path(lqw.__file__).parents[1])}
    child = start(command, env=env, log_path=log_path, run_id=run_id)
    try:
        target = Target("127.0.0.1", port)
        _await(target, child)
        yield target
    finally:
        child.stop(signals=())


def _await(target: Target, child: Child) -> None:
    import socket  # noqa: PLC0415 - only to knock

    end = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection((target.host, target.port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > end or child.returncode() is not None:
                raise
            time.sleep(0.002)
        else:
            return


def calibrate(target: Target, load: Load) -> Calibration:
    """Measure the client's error against a running null server, with the transport that times engines."""
    wish = {"ttft_ms": load.ttft_ms, "gap_ms": load.gap_ms, "n": load.tokens}
    payloads = [encode_request(target, "/completion", json.dumps(wish).encode())] * load.streams
    exchange_together(target, payloads, timeout_s=READY_S)  # a warm-up round
    raw: list[Exchange] = []
    with quiet():
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(load.rounds):
            raw += exchange_together(target, payloads, timeout_s=READY_S + load.tokens * load.gap_ms / 1e3)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    ttft, gaps = [], []
    for one in raw:
        error, between = errors_of(one)
        ttft.append(abs(error))
        gaps += [abs(gap) for gap in between]
    return Calibration(
        load=load,
        ttft_error_p50_ms=_quantile(ttft, 0.5),
        ttft_error_p99_ms=_quantile(ttft, 0.99),
        itl_error_p50_ms=_quantile(gaps, 0.5),
        itl_error_p99_ms=_quantile(gaps, 0.99),
        cpu_share=cpu / wall,
        unstamped=sum(one.unstamped for one in raw),
    )


def calibrate_patiently(target: Target, load: Load) -> Calibration:
    """Calibrate, and repeat up to twice what was too late: one burst of other work on the machine is not the client.

    The attempts that were too late stand in the flags of the one that counts; three in a row void the run.
    """
    late: list[float] = []
    while True:
        found = calibrate(target, load)
        if not found.too_late or len(late) == ATTEMPTS - 1:
            return replace(found, earlier_ttft_error_p99_ms=tuple(late))
        late.append(found.ttft_error_p99_ms)

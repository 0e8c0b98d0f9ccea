"""Stamps of arrivals: the kernel's, on our clock; ours where there is none, and where the wall clock stepped."""

import socket
import struct
import time

import pytest

from lqw.collect import transport
from lqw.collect.calibrate import Load, calibrate, null_server
from lqw.collect.transport import encode_request, exchange
from lqw.host.arrival import ROOM_BYTES, arrived_ns, ask_kernel

MS = 1_000_000
NOW, WALL = 5_000 * MS, 1_700_000_000_000 * MS


@pytest.fixture
def _clocks(monkeypatch):
    monkeypatch.setattr(time, "perf_counter_ns", lambda: NOW)
    monkeypatch.setattr(time, "time_ns", lambda: WALL)


def stamp(wall_ns):
    return [(socket.SOL_SOCKET, 35, struct.pack("@ll", *divmod(wall_ns, 1_000_000_000)))]


@pytest.mark.usefixtures("_clocks")
@pytest.mark.parametrize(
    ("beside", "earliest", "expected"),
    [
        (stamp(WALL - 3 * MS), 0, NOW - 3 * MS),
        (stamp(WALL - 3 * MS), NOW - 3 * MS, NOW - 3 * MS),
        (stamp(WALL - 3 * MS), NOW - 2 * MS, NOW),  # before what came before: the wall clock went on by a leap
        (stamp(WALL + 1), 0, NOW),  # in the future: it was put back
        ([], 0, NOW),
    ],
    ids=["late by 3 ms", "just after what came before", "leapt ahead", "put back", "no stamp"],
)
def test_the_time_since_the_arrival_is_taken_off(beside, earliest, expected):
    assert arrived_ns(beside, earliest) == expected


def test_a_client_that_reads_late_knows_when_it_arrived():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        ask_kernel(ours)
        theirs, _ = listener.accept()
        with theirs:
            before = time.perf_counter_ns()
            theirs.sendall(b"token")
            after = time.perf_counter_ns()
            time.sleep(0.2)
            data, beside, _, _ = ours.recvmsg(65_536, ROOM_BYTES)
            assert (data, len(beside)) == (b"token", 1)
            # Both clocks are read in turn, and a send may return after what it sent has arrived: a fifth of the sleep.
            assert before - 5 * MS <= arrived_ns(beside) <= after + 40 * MS


def test_where_the_kernel_does_not_stamp_the_calibration_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "ask_kernel", lambda sock: None)
    with null_server("unstamped", tmp_path / "log") as target:
        wish = b'{"ttft_ms": 1.0, "gap_ms": 1.0, "n": 3}'
        raw = exchange(target, encode_request(target, "/completion", wish), timeout_s=20.0)
        found = calibrate(target, Load(streams=1, gap_ms=1.0, tokens=3, rounds=1, ttft_ms=1.0))
    assert raw.unstamped == len(raw.reads) > 0
    assert found.unstamped > 0
    assert "reads without the kernel's stamp" in found.to_json()["flags"]

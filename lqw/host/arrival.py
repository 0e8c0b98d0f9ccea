"""When a read arrived: the kernel's own stamp of its last segment, on the clock of everything else.

A thread that waits for a token wakes late: by 50 to 200 µs on an idle machine, by milliseconds where sixteen of them
share an interpreter. The kernel stamps a segment when it comes in (``SO_TIMESTAMPNS``), and the client asks for that
stamp with each read. It is wall clock, which may step; so it is never kept: only the time since the arrival is taken
from it, right after the read, and taken off ``perf_counter_ns``.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import time

__all__ = ["ROOM_BYTES", "arrived_ns", "ask_kernel"]

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h, x86-64 and arm64 alike; the socket module has no name for it
_TIMESPEC = struct.Struct("@ll")
ROOM_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
"""Room for the stamp beside a read."""

TRIES = 50


@functools.cache
def _keep_stamping() -> socket.socket:
    """Return a socket that keeps the kernel stamping while this process lives.

    The kernel begins some time after the first socket asks, and stops with the last one: the first reads of a stream
    would have no stamp. So one socket asks for good, and sends itself words until one is stamped.
    """
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keeper.settimeout(0.05)
    with contextlib.suppress(OSError):  # no loopback, or a filter on it: the streams ask for themselves all the same
        keeper.bind(("127.0.0.1", 0))
        keeper.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for _ in range(TRIES):
            keeper.sendto(b"now", keeper.getsockname())
            if keeper.recvmsg(8, ROOM_BYTES)[1]:
                break
            time.sleep(0.001)
    return keeper


def ask_kernel(sock: socket.socket) -> None:
    """Have the kernel stamp what arrives on *sock*; where it cannot, reads are stamped after they return."""
    _keep_stamping()
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def arrived_ns(beside: list[tuple[int, int, bytes]], earliest_ns: int = 0) -> int:
    """Return when the read that has just returned arrived, ``perf_counter_ns``.

    Parameters
    ----------
    beside : list of (level, type, bytes)
        The ancillary data of ``recvmsg``; without a stamp in it, now counts.
    earliest_ns : int
        What came before it: the read before, or the request. An arrival before that, or after now, is a wall clock
        that stepped between the arrival and the read: now counts then too.
    """
    if not beside:
        return time.perf_counter_ns()
    # In this order a thread that is put aside between the clocks stamps too late, as without the kernel; never early.
    wall, now = time.time_ns(), time.perf_counter_ns()
    seconds, rest = _TIMESPEC.unpack(beside[0][2])
    arrived = now - wall + seconds * 1_000_000_000 + rest
    return arrived if earliest_ns <= arrived <= now else now

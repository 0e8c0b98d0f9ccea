"""The client of timed requests: blocking sockets, one thread a stream, each read stamped when the kernel had it.

Inside the timed part nothing is parsed, decoded or logged: reads are kept as they came and looked at afterwards
(:mod:`lqw.collect.wire`); what a long stream received waits on disk. The body is encoded before, the connection is
open before the clock starts, Nagle's algorithm is off and the garbage collector stands still. What is left of the
client's own delay, a thread that wakes late, is taken off by the kernel's stamp (:mod:`lqw.host.arrival`).
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import socket
import struct
import tempfile
import threading
import time
from array import array
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from lqw.host.arrival import ROOM_BYTES, arrived_ns, ask_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Exchange", "Target", "encode_request", "exchange", "exchange_together", "quiet"]

READ_BYTES = 65_536
CONNECT_TIMEOUT_S = 5.0
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""Ends a chunked body; an engine that ignores ``Connection: close`` is not waited for after it."""
SPOOL_BYTES = 262_144
"""What a stream may hold before it goes to disk: far more than any request of a protocol; writing it takes 0.2 ms."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server listens."""

    host: str
    port: int


@dataclass(slots=True)
class Exchange:
    """One request as it happened on the wire; stamps are ``perf_counter_ns``.

    Attributes
    ----------
    due_ns : int
        When the plan wanted it sent.
    connect_ns : int
        How long opening the connection took; it ended before ``sent_ns``.
    sent_ns : int
        t0, just before the encoded bytes went out.
    stamps, reads : list
        Arrival (ns) and bytes of each read, in order; of a read of several segments, the last one's arrival.
    closed_ns : int
        When the stream was over: end of stream, last chunk, or the error.
    error : {"", "connect", "reset", "stall", "timeout"}
        What ended it other than the server: ``stall`` is silence for the whole time allowed, ``timeout`` a stream
        that still ran when the time was up.
    detail : str
        The error in words.
    unstamped : int
        Reads that the kernel did not stamp: they have the client's own stamp, taken when the read returned.
    """

    due_ns: int = 0
    connect_ns: int = 0
    sent_ns: int = 0
    stamps: list[int] = field(default_factory=list)
    reads: list[bytes] = field(default_factory=list)
    closed_ns: int = 0
    error: str = ""
    detail: str = ""
    unstamped: int = 0


def encode_request(target: Target, path: str, body: bytes) -> bytes:
    """Return head and body of a POST as the bytes that will be sent."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {target.host}:{target.port}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the garbage collector still: everything alive is frozen, and nothing is collected until the end."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def _connect(target: Target, out: Exchange, timeout_s: float) -> socket.socket | None:
    began = time.perf_counter_ns()
    try:
        sock = socket.create_connection((target.host, target.port), timeout=CONNECT_TIMEOUT_S)
    except OSError as err:
        out.connect_ns = time.perf_counter_ns() - began
        out.sent_ns = out.closed_ns = time.perf_counter_ns()
        out.error, out.detail = "connect", f"no connection to port {target.port}: {err}"
        return None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_kernel(sock)
    # A blocking socket with a kernel timeout costs one system call a read; Python's own timeouts cost two.
    sock.settimeout(None)
    whole, part = divmod(timeout_s, 1.0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(whole), int(part * 1e6)))
    out.connect_ns = time.perf_counter_ns() - began
    return sock


class _Spool:
    """Where a long stream leaves its reads and stamps while it runs: memory does not grow with it."""

    def __init__(self) -> None:
        self._files: tuple[IO[bytes], IO[bytes]] | None = None  # made when a stream turns out to be long

    def take(self, out: Exchange) -> None:
        """Move the reads of *out* here."""
        if self._files is None:
            self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed when given back
        pairs = zip(out.stamps, map(len, out.reads), strict=True)
        self._files[0].write(b"".join(out.reads))
        self._files[1].write(array("q", itertools.chain.from_iterable(pairs)).tobytes())
        out.stamps.clear()
        out.reads.clear()

    def give_back(self, out: Exchange) -> None:
        """Put all reads back into *out*, in their order; the stream is over and no clock runs."""
        if self._files is None:
            return
        numbers, (data, pairs) = array("q"), self._files
        with data, pairs:
            data.seek(0)
            pairs.seek(0)
            numbers.frombytes(pairs.read())
            out.reads[:0] = [data.read(size) for size in numbers[1::2]]
        out.stamps[:0] = numbers[::2]


def _receive(sock: socket.socket, out: Exchange, spool: _Spool, deadline_ns: int) -> None:
    recvmsg = sock.recvmsg
    stamps, reads = out.stamps, out.reads
    stamp, tail, held = out.sent_ns, b"", 0
    while True:
        data, beside, _, _ = recvmsg(READ_BYTES, ROOM_BYTES)
        if not data:
            return
        stamp = arrived_ns(beside, stamp)
        if not beside:
            out.unstamped += 1
        stamps.append(stamp)
        reads.append(data)
        held += len(data)
        if held > SPOOL_BYTES:
            spool.take(out)
            held = 0
        tail = data[-7:] if len(data) >= len(LAST_CHUNK) else (tail + data)[-7:]
        if tail == LAST_CHUNK:
            return
        if stamp > deadline_ns:
            out.error, out.detail = "timeout", "the stream still ran when the request's time was up"
            return


def _run(sock: socket.socket, payload: bytes, out: Exchange, timeout_s: float) -> None:
    spool = _Spool()
    try:
        out.sent_ns = time.perf_counter_ns()
        sock.sendall(payload)
        _receive(sock, out, spool, out.sent_ns + int(timeout_s * 1e9))
    except BlockingIOError:
        out.error, out.detail = "stall", f"nothing arrived for {timeout_s:g} s"
    except OSError as err:
        out.error, out.detail = "reset", f"{type(err).__name__}: {err}"
    finally:
        out.closed_ns = time.perf_counter_ns()
        sock.close()
        spool.give_back(out)


def exchange(target: Target, payload: bytes, *, timeout_s: float) -> Exchange:
    """Send one encoded request over a connection of its own and keep what comes back; never raises OSError.

    Parameters
    ----------
    target : Target
    payload : bytes
        From :func:`encode_request`.
    timeout_s : float
        Longest silence, and longest stream, in seconds.
    """
    out = Exchange()
    sock = _connect(target, out, timeout_s)
    out.due_ns = time.perf_counter_ns()
    if sock is not None:
        _run(sock, payload, out, timeout_s)
    return out


def exchange_together(target: Target, payloads: Sequence[bytes], *, timeout_s: float) -> list[Exchange]:
    """Send all requests at one moment, one thread a stream, and return the exchanges in order of *payloads*.

    All connections are open before the barrier falls; ``due_ns`` is the moment it fell for the first of them.
    """
    outs = [Exchange() for _ in payloads]
    sockets = [_connect(target, out, timeout_s) for out in outs]
    fell: list[int] = []
    barrier = threading.Barrier(len(outs), action=lambda: fell.append(time.perf_counter_ns()))

    def stream(index: int) -> None:
        barrier.wait()
        sock = sockets[index]
        if sock is not None:
            _run(sock, payloads[index], outs[index], timeout_s)

    threads = [
        threading.Thread(target=stream, args=(i,), name=f"lqw-stream-{i}", daemon=True) for i in range(len(outs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        out.due_ns = fell[0]
    return outs

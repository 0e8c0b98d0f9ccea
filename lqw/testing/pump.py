"""The null server's fast mode: one thread, answers made before, every send stamped; it holds far more events a second.

``python -m lqw.testing.pump PORT TTFT_MS GAP_MS STATS_FILE`` answers ``/v1/completions``, ``/v1/chat/completions`` and
``/v1/models``; ``/book.txt`` is text that a client may make prompts of. When a stream is through, a JSON line goes to
STATS_FILE: ``{"got": ns, "sent": [ns of each token], "late": [ns after it was due]}``, ``perf_counter_ns`` all; ``got``
is when the request came in, by the kernel's stamp, and not when this process woke for it. Where the pump falls behind,
all tokens of a stream that are due go out in one send and get that send's stamp: stamps stay true, and ``late`` says
what the pump itself holds. Several pumps may share a port.
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from lqw.host.arrival import ROOM_BYTES, arrived_ns, ask_kernel
from lqw.testing.null_server import HEAD, MODEL, answer, openai_events, openai_whole, openai_words

MODELS = b'{"object":"list","data":[{"id":"%s","object":"model"}]}' % MODEL.encode()
BOOK = " ".join(f"w{i * i % 499}" for i in range(20_000)).encode()
SPIN_NS = 60_000
"""A sleep overshoots by about this much: the rest is spent looking."""

LOOK_NS = 500_000
"""While tokens are due, requests wait this long at most."""


@dataclass(slots=True)
class Stream:
    """One answer under way; ``sent`` and ``late`` in ns, one of each a token."""

    sock: socket.socket
    event: bytes
    end: bytes
    count: int
    got: int
    sent: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


class Pump:
    """Sends what is due, reads what comes; nothing else runs in this process."""

    def __init__(self, port: int, ttft_ms: float, gap_ms: float, stats: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512, reuse_port=True)
        self._ttft_ns, self._gap_ns = int(ttft_ms * 1e6), int(gap_ms * 1e6)
        self._stats = Path(stats)
        self._open: dict[socket.socket, bytearray] = {self._listener: bytearray()}
        self._due: list[tuple[int, int, Stream]] = []
        self._number = 0

    def run(self) -> None:
        """Serve until killed."""
        looked = 0
        while True:
            now = time.perf_counter_ns()
            left = self._due[0][0] - now if self._due else 1_000_000_000
            if left <= 0:
                self._send(now)
                if now - looked < LOOK_NS:
                    continue
            looked = now
            for sock in select.select(list(self._open), [], [], max(0, left - SPIN_NS) / 1e9)[0]:
                self._read(sock)

    def _send(self, now: int) -> None:
        due, number, stream = heapq.heappop(self._due)
        many = min(1 + (now - due) // self._gap_ns, stream.count - len(stream.sent))
        last = len(stream.sent) + many == stream.count
        data = stream.event * many + stream.end if last else stream.event * many
        stamp = time.perf_counter_ns()
        try:
            stream.sock.sendall(data)
        except OSError:
            return  # the client went away
        stream.sent += [stamp] * many
        stream.late += [stamp - due - step * self._gap_ns for step in range(many)]
        if last:
            told = {"got": stream.got, "sent": stream.sent, "late": stream.late}
            with self._stats.open("a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
        else:
            heapq.heappush(self._due, (due + many * self._gap_ns, number, stream))

    def _read(self, sock: socket.socket) -> None:
        if sock is self._listener:
            new, _ = sock.accept()
            new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_kernel(new)
            self._open[new] = bytearray()
            return
        try:
            part, beside, _, _ = sock.recvmsg(65_536, ROOM_BYTES)
        except OSError:
            part = b""
        if not part:
            del self._open[sock]
            sock.close()
            return
        got = arrived_ns(beside)
        data = self._open[sock]
        data += part
        head, mark, body = bytes(data).partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        length = next((int(one.split(b":")[1]) for one in lines if one.lower().startswith(b"content-length:")), 0)
        if mark and len(body) >= length:
            data.clear()
            self._answer(sock, lines[0].split()[1].decode(), body, got)

    def _answer(self, sock: socket.socket, path: str, body: bytes, got: int) -> None:
        if not body:
            answer(sock, BOOK if path == "/book.txt" else MODELS)
            return
        wish, chat = json.loads(body), "chat" in path
        count, base, named, usage = openai_words(wish, got, chat=chat)
        if not wish.get("stream"):
            answer(sock, openai_whole(count, base, named, usage, chat=chat))
            return
        event, end = openai_events(base, named, usage, chat=chat)
        sock.sendall(HEAD + b"\r\n")
        self._number += 1
        heapq.heappush(self._due, (got + self._ttft_ns, self._number, Stream(sock, event, end, count, got)))


if __name__ == "__main__":
    Pump(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]).run()

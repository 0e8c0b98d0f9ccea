"""A server that computes nothing: tokens at known times, each event carrying the moment it was sent.

The client is calibrated against it: what it says took longer than this server says is the client's own error. It runs
in a process of its own and needs the standard library only (``python -I -S null_server.py PORT``). A request's JSON
body says what to send::

    {"ttft_ms": 50.0, "gap_ms": 2.0, "n": 64}

The answer is a llama-server stream (SSE in chunks). Every event carries ``got_ns``, when the request was read, and
``sent_ns``, taken just before the send; both are ``perf_counter_ns``, one clock for all processes of a machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
HEALTH = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def _read_request(sock: socket.socket) -> bytes:
    """Return the body of the request, or nothing for one without."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65_536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":", 1)[1])
    while len(body) < length:
        body += sock.recv(65_536)
    return body


def _event(fields: str) -> bytes:
    text = f'data: {{"content":"x",{fields}}}\n\n'
    return f"{len(text):x}\r\n{text}\r\n".encode()


def _sleep_until(due_ns: int) -> None:
    left = due_ns - time.perf_counter_ns()
    if left > 0:
        time.sleep(left / 1e9)


def _serve(sock: socket.socket) -> None:
    with contextlib.closing(sock), contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = _read_request(sock)
        got = time.perf_counter_ns()
        if not body:
            sock.sendall(HEALTH)
            return
        wish = json.loads(body)
        count, gap_ns = int(wish["n"]), float(wish["gap_ms"]) * 1e6
        first_ns = got + float(wish["ttft_ms"]) * 1e6
        sock.sendall(HEAD)
        for number in range(1, count + 1):
            _sleep_until(int(first_ns + (number - 1) * gap_ns))
            sent = time.perf_counter_ns()
            sock.sendall(
                _event(f'"tokens":[1],"stop":false,"tokens_predicted":{number},"got_ns":{got},"sent_ns":{sent}')
            )
        last = f'"tokens":[],"stop":true,"tokens_predicted":{count},"timings":{{"predicted_n":{count}}}'
        sock.sendall(_event(last) + b"0\r\n\r\n")


def main(port: int) -> None:
    """Serve on the loopback until killed, one thread a connection."""
    with socket.create_server(("127.0.0.1", port), backlog=256) as listener:
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_serve, args=(sock,), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""A server that computes nothing: tokens at known times, each event carrying the moment it was sent.

The client is calibrated against it: what it says took longer than this server says is the client's own error. It runs
in a process of its own and needs the standard library only
(``python -P -S -m lqw.testing.null_server PORT [TTFT_MS GAP_MS]``).

``/completion`` takes ``{"ttft_ms": 50.0, "gap_ms": 2.0, "n": 64}`` and answers as llama-server does (SSE in chunks).
Every event carries ``got_ns``, when the request came in by the kernel's stamp, and ``sent_ns``, taken just before the
send; both are ``perf_counter_ns``, one clock for all processes of a machine. ``/v1/completions``,
``/v1/chat/completions`` and ``/v1/models`` are OpenAI's, for clients that are not ours: times are the command line's, a
token is a word, and the connection is kept. ``/stats`` tells, and forgets, ``[got_ns, first_sent_ns, last_sent_ns,
tokens]`` of each stream.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time

from lqw.host.arrival import ROOM_BYTES, arrived_ns, ask_kernel

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
CLOSE = b"Connection: close\r\n\r\n"
MODEL = "null"
STATS: list[list[int]] = []
DEFAULTS = {"ttft_ms": 20.0, "gap_ms": 2.0}


def _read_request(sock: socket.socket) -> tuple[str, bytes, int] | None:
    """Return path and body of the next request and when its last byte came in, or None where the connection ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        part, beside, _, _ = sock.recvmsg(65_536, ROOM_BYTES)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = 0
    for line in lines:
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":", 1)[1])
    while len(body) < length:
        part, beside, _, _ = sock.recvmsg(65_536, ROOM_BYTES)
        if not part:
            return None
        body += part
    return lines[0].split()[1].decode(), body, arrived_ns(beside)


def _chunk(text: str) -> bytes:
    return f"{len(text):x}\r\n{text}\r\n".encode()


def _sleep_until(due_ns: float) -> None:
    left = due_ns - time.perf_counter_ns()
    if left > 0:
        time.sleep(left / 1e9)


def answer(sock: socket.socket, body: bytes, *, close: bool = False) -> None:
    """Send an answer of JSON."""
    kept = b"Connection: close\r\n" if close else b""
    kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    sock.sendall(kind + kept + b"\r\n" + body)


def _llama(sock: socket.socket, wish: dict[str, object], got: int) -> None:
    """Send the stream of ``/completion``; the connection is closed afterwards."""
    count, gap_ns = int(str(wish["n"])), float(str(wish["gap_ms"])) * 1e6
    first_ns = got + float(str(wish["ttft_ms"])) * 1e6
    sock.sendall(HEAD + CLOSE)
    for number in range(1, count + 1):
        _sleep_until(first_ns + (number - 1) * gap_ns)
        sent = time.perf_counter_ns()
        fields = f'"tokens":[1],"stop":false,"tokens_predicted":{number},"got_ns":{got},"sent_ns":{sent}'
        sock.sendall(_chunk(f'data: {{"content":"x",{fields}}}\n\n'))
    last = f'"tokens":[],"stop":true,"tokens_predicted":{count},"timings":{{"predicted_n":{count}}}'
    sock.sendall(_chunk(f'data: {{"content":"x",{last}}}\n\n') + b"0\r\n\r\n")


def _words(wish: dict[str, object]) -> int:
    """Return how many words a prompt has, of completions or of chat."""
    messages = wish.get("messages")
    if isinstance(messages, list):
        parts = [one["content"] for one in messages]
        texts = [p if isinstance(p, str) else " ".join(str(q.get("text", "")) for q in p) for p in parts]
        return len(" ".join(texts).split())
    prompt = wish.get("prompt", "")
    return len(prompt if isinstance(prompt, list) else str(prompt).split())


def openai_words(wish: dict[str, object], got: int, *, chat: bool) -> tuple[int, str, str, str]:
    """Return how many tokens are asked for, and the parts that every chunk of the answer shares."""
    asked = wish.get("max_completion_tokens") or wish.get("max_tokens") or 16
    count, prompt = int(str(asked)), _words(wish)
    base = f'"id":"null-{got}","object":"{"chat.completion" if chat else "text_completion"}'
    usage = f'"usage":{{"prompt_tokens":{prompt},"completion_tokens":{count},"total_tokens":{prompt + count}}}'
    return count, base, f'"created":1,"model":"{MODEL}"', usage


def openai_events(base: str, named: str, usage: str, *, chat: bool) -> tuple[bytes, bytes]:
    """Return the chunk of one token, and all that follows the last token, as bytes to be sent."""
    start = f'data: {{{base}{".chunk" if chat else ""}",{named},"choices":['
    text = '"delta":{"role":"assistant","content":"x "}' if chat else '"text":"x "'
    event = _chunk(f'{start}{{"index":0,{text},"finish_reason":null}}]}}\n\n')
    end = '"delta":{}' if chat else '"text":""'
    last = _chunk(f'{start}{{"index":0,{end},"finish_reason":"length"}}]}}\n\n')
    last += _chunk(f"{start}],{usage}}}\n\n") + _chunk("data: [DONE]\n\n") + b"0\r\n\r\n"
    return event, last


def openai_whole(count: int, base: str, named: str, usage: str, *, chat: bool) -> bytes:
    """Return an answer that is not streamed."""
    said = json.dumps("x " * count)
    text = f'"message":{{"role":"assistant","content":{said}}}' if chat else f'"text":{said}'
    return f'{{{base}",{named},"choices":[{{"index":0,{text},"finish_reason":"length"}}],{usage}}}'.encode()


def _openai(sock: socket.socket, wish: dict[str, object], got: int, *, chat: bool) -> None:
    """Send an OpenAI answer, streamed or whole, and keep the connection."""
    count, base, named, usage = openai_words(wish, got, chat=chat)
    if not wish.get("stream"):
        answer(sock, openai_whole(count, base, named, usage, chat=chat))
        return
    event, last = openai_events(base, named, usage, chat=chat)
    times = {name: float(str(wish.get(name, default))) * 1e6 for name, default in DEFAULTS.items()}
    sock.sendall(HEAD + b"\r\n")
    first = sent = 0
    for number in range(count):
        _sleep_until(got + times["ttft_ms"] + number * times["gap_ms"])
        sent = time.perf_counter_ns()
        first = first or sent
        sock.sendall(event)
    sock.sendall(last)
    STATS.append([got, first, sent, count])


def _serve(sock: socket.socket) -> None:
    with contextlib.closing(sock), contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_kernel(sock)
        while (request := _read_request(sock)) is not None:
            path, body, got = request
            route = path.partition("?")[0]
            if route == "/v1/models":
                answer(sock, b'{"object":"list","data":[{"id":"%s","object":"model"}]}' % MODEL.encode())
            elif route == "/stats":
                told, STATS[:] = list(STATS), []
                answer(sock, json.dumps(told).encode())
            elif route in ("/v1/completions", "/v1/chat/completions"):
                _openai(sock, json.loads(body), got, chat="chat" in route)
            elif body:
                _llama(sock, json.loads(body), got)
                return
            else:
                answer(sock, b"{}", close=True)
                return


def main(port: int) -> None:
    """Serve on the loopback until killed, one thread a connection."""
    with socket.create_server(("127.0.0.1", port), backlog=256) as listener:
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_serve, args=(sock,), daemon=True).start()


if __name__ == "__main__":
    if len(sys.argv) > 2:  # noqa: PLR2004 - times for clients that cannot ask for their own
        DEFAULTS["ttft_ms"], DEFAULTS["gap_ms"] = float(sys.argv[2]), float(sys.argv[3])
    main(int(sys.argv[1]))

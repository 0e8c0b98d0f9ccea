"""From raw reads to events, after the fact and at byte level: HTTP/1.1 head, chunked bodies, SSE and NDJSON.

Nothing is assumed about where a read ends: an event may be split anywhere, inside a chunk header, a line end or a
multi-byte character. Every event carries the stamp of the read that completed it.
"""

from __future__ import annotations

import bisect
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Event", "Response", "WireError", "read_response"]

_EOL = re.compile(rb"\r\n|\n|\r")
MAX_CHUNK_HEX = 16


class WireError(ValueError):
    """The bytes are not an HTTP/1.1 response; the message says where they stop being one."""


@dataclass(frozen=True, slots=True)
class Event:
    """One SSE event or NDJSON line: its data, when it was complete (ns), and in which read."""

    data: bytes
    stamp_ns: int
    read: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """A parsed response.

    ``complete`` says whether the body reached its own end (last chunk, content length, or close where neither is
    given). ``events`` is empty unless the body is an event stream or NDJSON; ``body`` is the decoded body.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    events: tuple[Event, ...]
    complete: bool


class _Clock:
    """Which read, and so which stamp, a byte of the concatenated response arrived in."""

    def __init__(self, stamps: Sequence[int], reads: Sequence[bytes]) -> None:
        self._ends = list(itertools.accumulate(map(len, reads)))
        self._stamps = stamps

    def read_of(self, offset: int) -> int:
        return bisect.bisect_right(self._ends, offset)

    def stamp(self, read: int) -> int:
        return self._stamps[read]


class _Body:
    """A decoded body that remembers where each of its bytes stood in the raw response."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._starts: list[int] = []  # offset of each part in the body
        self._raw: list[int] = []  # offset of each part in the raw response
        self._size = 0

    def add(self, part: bytes, raw_offset: int) -> None:
        if part:
            self._parts.append(part)
            self._starts.append(self._size)
            self._raw.append(raw_offset)
            self._size += len(part)

    def raw_offset(self, offset: int) -> int:
        index = bisect.bisect_right(self._starts, offset) - 1
        return self._raw[index] + offset - self._starts[index]

    def join(self) -> bytes:
        return b"".join(self._parts)


def _head(raw: bytes) -> tuple[int, dict[str, str], int]:
    end = raw.find(b"\r\n\r\n")
    if end < 0:
        raise WireError(f"no end of the response's head in {len(raw)} bytes")
    lines = raw[:end].decode("latin-1").split("\r\n")
    match = re.fullmatch(r"HTTP/1\.[01] (\d{3})(?: .*)?", lines[0])
    if match is None:
        raise WireError(f"not an HTTP/1.1 status line: {lines[0][:80]!r}")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise WireError(f"not a header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    return int(match[1]), headers, end + 4


def _dechunk(raw: bytes, at: int, body: _Body) -> bool:
    """Append the chunks from *at* on to *body*; return whether the last chunk was there."""
    while True:
        eol = raw.find(b"\r\n", at)
        if eol < 0:
            return False
        digits = raw[at:eol].split(b";", 1)[0].strip()
        if not digits or len(digits) > MAX_CHUNK_HEX or re.fullmatch(rb"[0-9a-fA-F]+", digits) is None:
            raise WireError(f"not a chunk size at byte {at}: {raw[at:eol][:20]!r}")
        size, start = int(digits, 16), eol + 2
        if size == 0:
            return True
        body.add(raw[start : start + size], start)
        at = start + size
        if len(raw) < at + 2:
            return False
        if raw[at : at + 2] != b"\r\n":
            raise WireError(f"chunk of {size} bytes at byte {eol} does not end where it says")
        at += 2


def _decode(raw: bytes, headers: dict[str, str], at: int) -> tuple[_Body, bool]:
    body = _Body()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return body, _dechunk(raw, at, body)
    length = headers.get("content-length", "")
    if length.isdecimal():
        body.add(raw[at : at + int(length)], at)
        return body, len(raw) - at >= int(length)
    body.add(raw[at:], at)
    return body, True


def _sse(body: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield (event name, data, offset of the byte that completed it); an event without its blank line is none."""
    data: list[bytes] = []
    name, at = "", 3 if body.startswith(b"\xef\xbb\xbf") else 0
    for match in _EOL.finditer(body, at):
        line = body[at : match.start()]
        at = match.end()
        if not line:
            if data:
                yield name, b"\n".join(data), match.end() - 1
            data, name = [], ""
            continue
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"error":  # older llama-server: a field of its own instead of data
            data.append(b'{"error":' + value + b"}")
        elif key == b"event":
            name = value.decode("utf-8", "replace")


def _ndjson(body: bytes) -> Iterator[tuple[str, bytes, int]]:
    at = 0
    for match in re.finditer(rb"[^\n]+", body):
        line = match[0].strip()
        at = min(match.end(), len(body) - 1)
        if line:
            yield "", line, at


def read_response(stamps: Sequence[int], reads: Sequence[bytes]) -> Response:
    """Parse what a timed exchange received.

    Parameters
    ----------
    stamps : sequence of int
        Arrival of each read, ns.
    reads : sequence of bytes
        The reads, as long as *stamps*, none of them empty.

    Raises
    ------
    WireError
        When the bytes are not an HTTP/1.1 response, or its chunks contradict themselves.
    """
    raw, clock = b"".join(reads), _Clock(stamps, reads)
    status, headers, at = _head(raw)
    body, complete = _decode(raw, headers, at)
    text = body.join()
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    split = _sse if kind == "text/event-stream" else _ndjson if kind == "application/x-ndjson" else None
    events = []
    for name, data, offset in split(text) if split else ():
        read = clock.read_of(body.raw_offset(offset))
        events.append(Event(data, clock.stamp(read), read, name))
    return Response(status, headers, text, tuple(events), complete)

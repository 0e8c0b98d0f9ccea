"""What a request's own data say against its times: two clocks that part, tokens that came in bursts (MEASUREMENT)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from lqw.metrics.values import ttft_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lqw.metrics.registry import RowId
    from lqw.samples import RequestSample, ServedRecord

__all__ = [
    "ALONE",
    "SATURATED_SHARE",
    "STREAMED",
    "VOID_TTFT_MS",
    "Bursts",
    "Clocks",
    "bursts_of",
    "clocks_of",
    "timed_of",
]

ALONE = ("cold", "cached")
"""Steps of one request at a time, whose rows are times to the first token."""

STREAMED = ("decode", "agg")

CLOCK_SHARE = 0.05
CLOCK_MS = 3.0
BURST_SHARE = 0.2
FIRST_SHARE = 0.5
VOID_TTFT_MS = 5.0
"""99th percentile of the client's TTFT error, ms, beyond which what it timed says nothing."""

SATURATED_SHARE = 0.8
"""Share of a core above which the client itself may be what was measured."""

MIN_CHUNKS = 16
"""Chunks of a stream below which "several in one read" says nothing."""


def timed_of(row: RowId, starts: Iterable[ServedRecord]) -> Iterator[RequestSample]:
    """Yield the timed requests behind a row."""
    step = row.step_id
    for start in starts:
        yield from (one for one in start.requests if one.step == step and one.role == "timed")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Requests whose time to the first token and the server's own prompt time part by more than 5 % + 3 ms."""

    asked: int  # requests of which both are known
    parted: int
    worst_ms: float  # the largest difference among all, client minus server

    def __str__(self) -> str:
        """Return a clause: who, how many, by how much."""
        return (
            f"the server's own prompt time and ours part in {self.parted} of {self.asked} requests, by up to "
            f"{self.worst_ms:+.1f} ms (allowed: {CLOCK_SHARE:.0%} + {CLOCK_MS:g} ms)"
        )


def clocks_of(requests: Iterable[RequestSample]) -> Clocks:
    """Compare both clocks of requests that were asked alone: beside others a request waits, rightly, before its own."""
    differences = [
        (ttft_ms(one), ttft_ms(one) - one.timings.prompt_ms)
        for one in requests
        if one.failure is None and one.ttft_ns and one.timings is not None and one.timings.prompt_ms is not None
    ]
    parted = sum(abs(apart) > CLOCK_SHARE * ours + CLOCK_MS for ours, apart in differences)
    return Clocks(len(differences), parted, max((apart for _, apart in differences), key=abs, default=0.0))


@dataclass(frozen=True, slots=True)
class Bursts:
    """How the tokens of streams came: one a read, or several at once (a proxy that buffers, a stream replayed)."""

    reads: int  # reads that carried tokens
    several: int  # of which with more than one event
    streams: int
    at_once: int  # streams whose first read held more than half of the tokens

    @property
    def seen(self) -> bool:
        """Return whether more than a fifth of the reads carried several events, or a first read most of a stream."""
        return self.at_once > 0 or self.several > BURST_SHARE * self.reads

    def __str__(self) -> str:
        """Return a clause with both figures."""
        return (
            f"{self.several} of {self.reads} reads carried several tokens (allowed: {BURST_SHARE:.0%}); in "
            f"{self.at_once} of {self.streams} streams the first read held more than {FIRST_SHARE:.0%} of them"
        )


def bursts_of(requests: Iterable[RequestSample]) -> Bursts:
    """Count the reads of streams; events of one read carry one stamp, so that the gap between them is exactly 0."""
    reads = several = streams = at_once = 0
    for one in requests:
        if one.failure is None and len(one.chunk_tokens) >= MIN_CHUNKS:
            told = _reads(one)
            streams += 1
            reads += told.reads
            several += told.several
            at_once += told.first > FIRST_SHARE * told.tokens
    return Bursts(reads, several, streams, at_once)


class _Reads(NamedTuple):
    reads: int
    several: int  # of which with more than one event
    first: int  # tokens of the first one
    tokens: int  # of all


def _reads(request: RequestSample) -> _Reads:
    gaps = request.gaps_ns[: len(request.chunk_tokens) - 1]
    tokens = request.chunk_tokens[: len(gaps) + 1]
    if 0 not in gaps:  # the usual stream: each event was read alone
        return _Reads(len(tokens), 0, tokens[0], sum(tokens))
    begins = [0, *(at for at, gap in enumerate(gaps, 1) if gap != 0), len(tokens)]
    several = sum(end - begin > 1 for begin, end in pairwise(begins))
    return _Reads(len(begins) - 1, several, sum(tokens[: begins[1]]), sum(tokens))

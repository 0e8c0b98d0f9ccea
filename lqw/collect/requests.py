"""From a raw exchange to a :class:`lqw.samples.RequestSample`: every demand of MEASUREMENT, each with its reason."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lqw.canonical import sha256_bytes, sha256_json
from lqw.collect.streams import Told, understand
from lqw.collect.wire import Response, WireError, read_response
from lqw.correctness.detectors import longest_run
from lqw.outcomes import Reason
from lqw.samples import Failure, RequestSample, ServerTimings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.collect.transport import Exchange
    from lqw.engines.base import Route

__all__ = ["Asked", "answer_sha256", "sample_of"]

REUSE_SLACK = 8
"""Tokens of a primed prefix that an engine may evaluate again (MEASUREMENT, "TTFT cached")."""

STREAMED_FROM = 16
"""Below this many tokens "the first came with the last" says nothing."""

BUFFERED_SHARE = 0.95
_OK = 200
_WIRE = {
    "connect": Reason.CONNECTION_RESET,
    "reset": Reason.CONNECTION_RESET,
    "stall": Reason.TIMEOUT,
    "timeout": Reason.TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request was to be.

    ``reuse`` is the length of the primed prefix on a cached row, 0 where nothing may be reused, and None where
    reuse does not matter (priming).
    """

    step: str
    role: Literal["warmup", "prime", "timed"]
    repeat: int
    stream: int
    prompt_ids: tuple[int, ...]
    want_tokens: int
    reuse: int | None
    prompt_text: str | None = None
    route: Route = "completion"


def _failures(asked: Asked, told: Told, exchange: Exchange) -> Iterator[Failure]:
    """Yield what is wrong with a stream that came to its end, most basic first."""
    if not told.stamps_ns:
        yield Failure(reason=Reason.SHORT_OUTPUT, detail=f"no token of {asked.want_tokens} came")
        return
    yield from _count_failures(asked, told)
    yield from _prompt_failures(asked, told)
    wall, first = told.stamps_ns[-1] - exchange.sent_ns, told.stamps_ns[0] - exchange.sent_ns
    if asked.want_tokens >= STREAMED_FROM and first >= BUFFERED_SHARE * wall:
        detail = f"the first token came after {first / 1e6:.1f} ms of {wall / 1e6:.1f} ms: buffered or replayed"
        yield Failure(reason=Reason.NOT_STREAMED, detail=detail)


def _count_failures(asked: Asked, told: Told) -> Iterator[Failure]:
    counts = dict(told.counts) or {"events": sum(told.tokens)}
    if len(told.ids) > max(counts.values()):
        counts["ids"] = len(told.ids)  # fewer is lawful: streams leave out ids that end inside a character
    if len(set(counts.values())) > 1:
        detail = ", ".join(f"{source} {count}" for source, count in sorted(counts.items()))
        yield Failure(reason=Reason.COUNT_MISMATCH, detail=f"generated tokens by {detail}")
    elif asked.want_tokens not in counts.values():
        detail = f"{next(iter(counts.values()))} tokens of {asked.want_tokens}; the length was forced"
        yield Failure(reason=Reason.SHORT_OUTPUT, detail=detail)


def _prompt_failures(asked: Asked, told: Told) -> Iterator[Failure]:
    wrong = {source: n for source, n in told.prompt_tokens.items() if n != len(asked.prompt_ids)}
    if wrong:
        detail = ", ".join(f"{source} {count}" for source, count in sorted(wrong.items()))
        yield Failure(
            reason=Reason.PROMPT_LENGTH, detail=f"asked {len(asked.prompt_ids)} tokens; the server counted {detail}"
        )
    reused = told.timings.cache_n if told.timings is not None else None
    if asked.reuse == 0 and reused:
        yield Failure(reason=Reason.NOT_COLD, detail=f"{reused} of {len(asked.prompt_ids)} tokens came from a cache")
    elif asked.reuse and (reused is None or reused < asked.reuse - REUSE_SLACK):
        seen = "told nothing of reuse" if reused is None else f"reused {reused}"
        detail = f"{seen} of {asked.reuse} primed tokens; at least {asked.reuse - REUSE_SLACK} are needed"
        yield Failure(reason=Reason.NO_REUSE, detail=detail)


def _shown(body: bytes) -> str:
    return " ".join(body[:400].decode("utf-8", "replace").split())


def _stream_failure(exchange: Exchange, response: Response, told: Told) -> Failure | None:
    """Return why the stream as such is broken, or None."""
    if exchange.error:
        return Failure(reason=_WIRE[exchange.error], detail=exchange.detail)
    if response.status != _OK:
        return Failure(reason=Reason.HTTP_ERROR, detail=f"status {response.status}: {_shown(response.body)}")
    if told.error:
        return Failure(reason=Reason.HTTP_ERROR, detail=f"error inside a 200: {told.error}"[:4000])
    if not response.events and response.body:
        kind = response.headers.get("content-type", "without a type")
        return Failure(reason=Reason.NOT_STREAMED, detail=f"one answer of {kind} instead of a stream")
    if not (told.finished and response.complete):
        what = "its last event" if response.complete else "its last chunk"
        return Failure(reason=Reason.STREAM_BROKEN, detail=f"the stream ended without {what}")
    return None


def _understood(exchange: Exchange, stream_format: str) -> tuple[Response | None, Told, Failure | None]:
    if not exchange.reads:
        reason = _WIRE.get(exchange.error, Reason.STREAM_BROKEN)
        return None, Told(), Failure(reason=reason, detail=exchange.detail or "closed without an answer")
    try:
        response = read_response(exchange.stamps, exchange.reads)
    except WireError as err:
        reason = _WIRE.get(exchange.error, Reason.STREAM_BROKEN)
        return None, Told(), Failure(reason=reason, detail=f"{err} {exchange.detail}".strip())
    told = understand(response.events, stream_format)
    return response, told, _stream_failure(exchange, response, told)


def answer_sha256(text: str, route: Route) -> str:
    """Return the hash of an answer; of a chat without the space around it, which apr cuts off where nothing streams."""
    return sha256_bytes((text.strip() if route == "chat" else text).encode())


def sample_of(
    exchange: Exchange, asked: Asked, stream_format: str, origin_ns: int, *, cached_tokens: int | None = None
) -> RequestSample:
    """Return the sample of one exchange; what is wrong with it is in its ``failure``.

    Parameters
    ----------
    exchange : Exchange
        Stamps in ns of ``perf_counter_ns``.
    asked : Asked
        What it was to be.
    stream_format : str
        A key of :data:`lqw.collect.streams.FORMATS`.
    origin_ns : int
        ``perf_counter_ns`` of the engine start: stamps of a sample are relative to it.
    cached_tokens : int, optional
        How many tokens the engine's log says it reused, for engines that tell it nowhere else.
    """
    response, told, failure = _understood(exchange, stream_format)
    if cached_tokens is not None and (told.timings is None or told.timings.cache_n is None):
        told.timings = (told.timings or ServerTimings()).model_copy(update={"cache_n": cached_tokens})
    if failure is None:
        failure = next(_failures(asked, told, exchange), None)
    stamps = told.stamps_ns
    return RequestSample(
        step=asked.step,
        role=asked.role,
        repeat=asked.repeat,
        stream=asked.stream,
        prompt_tokens=len(asked.prompt_ids),
        prompt_sha256=sha256_json(list(asked.prompt_ids)),
        want_tokens=asked.want_tokens,
        due_ns=exchange.due_ns - origin_ns,
        sent_ns=exchange.sent_ns - origin_ns,
        connect_ns=exchange.connect_ns,
        ttft_ns=stamps[0] - exchange.sent_ns if stamps else None,
        gaps_ns=[after - before for before, after in itertools.pairwise(stamps)],
        chunk_tokens=told.tokens,
        end_ns=exchange.closed_ns - origin_ns,
        burst_reads=sum(1 for events in Counter(told.reads).values() if events > 1),
        status=response.status if response is not None else None,
        text_sha256=answer_sha256(told.text, asked.route) if stamps else None,
        ids_sha256=sha256_json(told.ids) if stamps and len(told.ids) == sum(told.tokens) else None,
        constant_run=longest_run(told.ids or told.text.split()) if stamps else None,
        timings=told.timings,
        failure=failure,
    )

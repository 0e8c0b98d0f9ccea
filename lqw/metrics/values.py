"""From raw stamps to the value of a row in one start: the formulas of MEASUREMENT, pure.

A value is in the metric's unit (ms, tok/s, bytes). What has no valid value is a
:class:`lqw.samples.Failure`, never a number and never absent.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from lqw.metrics.registry import Combine, RowId
from lqw.outcomes import Reason
from lqw.samples import Failure, RequestSample, ServedRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CommonWindow",
    "RowValue",
    "batches_of",
    "common_window",
    "decode_tok_s",
    "most_at_once",
    "start_values",
    "ttft_ms",
    "whole_batch_tok_s",
]

NS_PER_MS = 1e6
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class RowValue:
    """The value of one row in one start, or why there is none; ``extras`` are cross-checks, never gated."""

    value: float | None
    failure: Failure | None = None
    extras: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommonWindow:
    """The time in which all streams of a batch were producing."""

    seconds: float
    tokens: float

    @property
    def tok_s(self) -> float:
        """Return the aggregate rate inside the window."""
        return self.tokens / self.seconds


def ttft_ms(request: RequestSample) -> float:
    """Return the time from send to the first generated token, ms."""
    if request.ttft_ns is None:
        raise ValueError("request has no first token")
    return request.ttft_ns / NS_PER_MS


def decode_tok_s(request: RequestSample) -> float:
    """Return (n_end − n_first_chunk) / (t_last − t_first), tok/s; NaN where only one chunk came.

    The n−1 rule: the tokens of the first chunk were there when the clock started.
    """
    seconds = sum(request.gaps_ns) / NS_PER_S
    return sum(request.chunk_tokens[1:]) / seconds if seconds > 0 else math.nan


def _first_ns(request: RequestSample) -> int:
    return request.sent_ns + (request.ttft_ns or 0)


def _last_ns(request: RequestSample) -> int:
    return _first_ns(request) + sum(request.gaps_ns)


def _arrivals(request: RequestSample) -> list[int]:
    return list(accumulate(request.gaps_ns, initial=_first_ns(request)))


def _cumulative(stamps: list[int], counts: list[int], at: float) -> float:
    """Tokens that had arrived at time *at*, linear between arrivals (a chunk fills the gap before it)."""
    whole = bisect_right(stamps, at)
    total = float(sum(counts[:whole]))
    if 0 < whole < len(stamps):
        total += counts[whole] * (at - stamps[whole - 1]) / (stamps[whole] - stamps[whole - 1])
    return total


def common_window(batch: Sequence[RequestSample]) -> CommonWindow | None:
    """Return the window last stream's first token → first stream's last token; None where there is none."""
    stamps = [_arrivals(request) for request in batch]
    opens, closes = max(s[0] for s in stamps), min(s[-1] for s in stamps)
    if closes <= opens:
        return None
    tokens = sum(
        _cumulative(s, request.chunk_tokens, closes) - _cumulative(s, request.chunk_tokens, opens)
        for s, request in zip(stamps, batch, strict=True)
    )
    return CommonWindow((closes - opens) / NS_PER_S, tokens)


def most_at_once(batch: Sequence[RequestSample]) -> int:
    """Return how many streams sent tokens at the same time at most: what a serialising server reached."""
    spans = [(_first_ns(request), _last_ns(request)) for request in batch]
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def combined(rule: Combine, values: Sequence[float]) -> float:
    """Return the one value of several by the rule of their metric."""
    if rule is Combine.GEOMEAN:
        return math.exp(statistics.fmean(math.log(value) for value in values))
    return statistics.median(values) if rule is Combine.MEDIAN else max(values)


def batches_of(requests: Sequence[RequestSample]) -> list[list[RequestSample]]:
    """Return the requests of a step by repeat: those that were sent at one moment."""
    out: dict[int, list[RequestSample]] = {}
    for request in requests:
        out.setdefault(request.repeat, []).append(request)
    return list(out.values())


def whole_batch_tok_s(batch: Sequence[RequestSample]) -> float:
    """Return all tokens of a batch by the time from its first request to its last token (ADR 12)."""
    first, last = min(r.sent_ns for r in batch), max(map(_last_ns, batch))
    return sum(sum(r.chunk_tokens) for r in batch) / ((last - first) / NS_PER_S)


def _whole(row: RowId, requests: list[RequestSample]) -> RowValue:
    batches = batches_of(requests)
    short = next((len(batch) for batch in batches if len(batch) != row.size), None)
    if short is not None:
        detail = f"a batch has {short} streams, the row {row.size}"
        return RowValue(None, Failure(reason=Reason.NOT_CONCURRENT, detail=detail))
    extras = {"streams_at_once": float(min(map(most_at_once, batches)))}
    return RowValue(combined(Combine.GEOMEAN, list(map(whole_batch_tok_s, batches))), extras=extras)


def _aggregate(row: RowId, requests: list[RequestSample], min_window_s: float) -> RowValue:
    rates, whole = [], []
    for batch in batches_of(requests):
        window = common_window(batch) if len(batch) == row.size else None
        if window is None or window.seconds < min_window_s or window.tokens <= 0:
            seen = "no time" if window is None else f"{window.seconds:.3f} s"
            most = most_at_once(batch)
            detail = f"at most {most} of {row.size} streams ran at once, all for {seen}; {min_window_s:g} s are needed"
            return RowValue(None, Failure(reason=Reason.NOT_CONCURRENT, detail=detail))
        rates.append(window.tok_s)
        whole.append(whole_batch_tok_s(batch))
    extras = {"whole_batch_tok_s": combined(Combine.GEOMEAN, whole)}
    return RowValue(combined(Combine.GEOMEAN, rates), extras=extras)


def _requests_value(row: RowId, requests: list[RequestSample], min_window_s: float) -> RowValue:
    failed = next((request for request in requests if request.failure), None)
    if failed is not None and failed.failure is not None:
        where = f"{failed.step} {failed.role} request {failed.repeat}, stream {failed.stream}"
        detail = f"{where}: {failed.failure.detail}"[:4000]
        return RowValue(None, failed.failure.model_copy(update={"detail": detail}))
    for request in requests:  # a clock that stood still or ran backwards times nothing, whatever the row is made of
        if request.ttft_ns is None or request.ttft_ns <= 0 or min(request.gaps_ns, default=0) < 0:
            seen = f"first token after {request.ttft_ns} ns, shortest gap {min(request.gaps_ns, default=None)} ns"
            detail = f"{request.step} {request.role} request {request.repeat}, stream {request.stream}: {seen}"
            return RowValue(None, Failure(reason=Reason.NOT_FINITE, detail=detail))
    if row.metric == "agg_whole":
        return _whole(row, requests)
    if row.metric == "agg":
        return _aggregate(row, requests, min_window_s)
    if row.metric == "decode":
        values = [decode_tok_s(request) for request in requests]
    elif row.metric == "prefill":
        values = [request.prompt_tokens / (ttft_ms(request) / 1e3) for request in requests]
    else:
        values = [ttft_ms(request) for request in requests]
    if not all(math.isfinite(value) and value > 0 for value in values):
        return RowValue(None, Failure(reason=Reason.NOT_FINITE, detail=f"values {values} are not all positive"))
    server = [r.timings.prompt_ms for r in requests if r.timings is not None and r.timings.prompt_ms is not None]
    extras = {"server_prompt_ms": statistics.median(server)} if server and row.kind.step == "cold" else {}
    return RowValue(combined(row.kind.combine, values), extras=extras)


def _memory_value(row: RowId, record: ServedRecord) -> RowValue:
    peaks = record.memory
    value = None if peaks is None else peaks.rss_anon_bytes if row.metric == "rss_peak" else peaks.vram_bytes
    if value is None or value <= 0:
        return RowValue(None, Failure(reason=Reason.NO_MEMORY_READING, detail=f"no {row.metric} reading of this start"))
    return RowValue(float(value))


def start_values(record: ServedRecord, rows: Sequence[RowId], *, min_window_s: float) -> dict[RowId, RowValue]:
    """Return the value of every row of *rows* that this start can speak for.

    Parameters
    ----------
    record : ServedRecord
    rows : sequence of RowId
        Planned rows; those of other models and those whose step this start was not asked are left out.
    min_window_s : float
        The shortest common window of an aggregate row, seconds.

    Returns
    -------
    dict of RowId to RowValue
        A start that failed answers every row of its model with its own failure. A failed warm-up or priming request
        fails its row too: what was measured after it is not what was planned.
    """
    out: dict[RowId, RowValue] = {}
    by_step: dict[str, list[RequestSample]] = {}
    for request in record.requests:
        by_step.setdefault(request.step, []).append(request)
    for row in rows:
        if row.model != record.model:
            continue
        if record.failure is not None:
            out[row] = RowValue(None, record.failure)
            continue
        if row.kind.step == "memory":
            out[row] = _memory_value(row, record)
            continue
        step = row.step_id
        asked = by_step.get(step)
        if not asked:
            lacks = next((facts for facts in record.steps if facts.step == step and not facts.path), None)
            if lacks is not None:
                out[row] = RowValue(None, Failure(reason=Reason.UNSUPPORTED, detail=lacks.said))
            continue
        broken = [request for request in asked if request.failure and request.role != "timed"]
        timed = broken or [request for request in asked if request.role == "timed"]
        if not timed:
            out[row] = RowValue(None, Failure(reason=Reason.MISSING_REQUESTS, detail=f"no timed request of {step}"))
            continue
        out[row] = _requests_value(row, timed, min_window_s)
    return out

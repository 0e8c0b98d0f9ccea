"""What was seen of single requests and steps, and the memory meanwhile.

Stamps are whole nanoseconds of ``perf_counter_ns`` relative to ``origin`` of their start, so they stay far below 2^53.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lqw.samples.base import Failure, Many, Record

__all__ = ["MemoryPeaks", "RequestSample", "ServerTimings", "StepFacts", "Unstreamed"]


class ServerTimings(Record):
    """The engine's own count and clock for one request; a cross-check, never the row's value."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class RequestSample(Record):
    """One HTTP request. ``gaps_ns[i]`` lies between token chunk i and i+1; ``chunk_tokens`` counts ids per chunk."""

    step: str  # StepSpec.step_id
    role: Literal["warmup", "prime", "timed"]
    repeat: int = Field(ge=0)
    stream: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)  # N that was asked for
    prompt_sha256: str
    want_tokens: int = Field(ge=0)
    due_ns: int = Field(ge=0)  # when the plan wanted it sent (no coordinated omission hidden)
    sent_ns: int = Field(ge=0)  # t0: just before the encoded bytes went out
    connect_ns: int = Field(ge=0)  # how long opening the connection took; never part of TTFT
    ttft_ns: int | None = None
    gaps_ns: Many[int] = Field(default=[])
    chunk_tokens: Many[int] = Field(default=[])
    end_ns: int | None = None  # last byte, relative to the start's origin
    burst_reads: int = Field(default=0, ge=0)  # reads that carried several events
    status: int | None = None
    text_sha256: str | None = None
    ids_sha256: str | None = None
    constant_run: int | None = None  # longest run of one token (of one word, where the stream has no ids)
    timings: ServerTimings | None = None
    failure: Failure | None = None


class MemoryPeaks(Record):
    """Peaks over the server's process tree, sampled while it served."""

    rss_anon_bytes: int | None = None
    rss_file_bytes: int | None = None
    vm_hwm_bytes: int | None = None
    vram_bytes: int | None = None
    vram_method: Literal["nvml_process", "nvml_device_delta", "unified_meminfo"] | None = None
    samples: int = Field(default=0, ge=0)


class Unstreamed(Record):
    """One prompt answered without streaming: the time of one token and of ``tokens``; their difference is decoding."""

    tokens: int = Field(ge=2)
    one_ns: int = Field(gt=0)
    all_ns: int = Field(gt=0)
    again: bool = False  # the same was asked just before the first time: both reuse the prompt, or neither does

    @model_validator(mode="after")
    def _longer(self) -> Unstreamed:
        if self.all_ns <= self.one_ns:
            raise ValueError("all_ns is not above one_ns: the longer answer took no longer")
        return self

    @property
    def tok_s(self) -> float:
        """Return the rate of decoding, (n − 1) / (T(n) − T(1)), tok/s."""
        return (self.tokens - 1) / ((self.all_ns - self.one_ns) / 1e9)


class StepFacts(Record):
    """How a step of a start was asked, and who computed it; looked at when its requests were over, none in flight."""

    step: str
    path: str = Field(max_length=200)  # the HTTP route of its requests; empty: not asked, the engine has no such route
    used_gpu: bool | None = None  # None: on a processor, or nothing tells
    said: str = Field(default="", max_length=400)  # by what that is known, or why it was not asked
    formed: int | None = Field(default=None, ge=1)  # of many streams: the largest batch, by the engine's log
    unstreamed: Unstreamed | None = None  # beside a decode step, where streams are dear

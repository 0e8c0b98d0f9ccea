"""Running the steps of one start: warm-ups and timed requests, in the order the protocol lists them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lqw.collect.requests import Asked, sample_of
from lqw.collect.transport import Target, encode_request, exchange, exchange_together
from lqw.engines.base import Prompt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.collect.prompts import PromptSet
    from lqw.collect.transport import Exchange
    from lqw.engines.base import HttpRequest
    from lqw.engines.running import RunningEngine
    from lqw.params import StepSpec
    from lqw.samples import RequestSample

__all__ = ["CACHED_SLOT", "Asker", "run_step"]

CACHED_SLOT = 0
"""Priming and extension must meet in one slot; every launch has this one."""

_Role = Literal["warmup", "prime", "timed"]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one running engine; stamps of its samples are relative to ``origin_ns``.

    ``end_s`` is the ``time.monotonic`` after which nothing may last, where there is such a moment.
    """

    running: RunningEngine
    prompts: PromptSet
    origin_ns: int
    timeout_s: float
    end_s: float | None = None

    @property
    def _target(self) -> Target:
        return Target(self.running.host, self.running.port)

    def limit_s(self) -> float:
        """Return how long the next request may be silent, or last, seconds."""
        return self.timeout_s if self.end_s is None else max(0.1, min(self.timeout_s, self.end_s - time.monotonic()))

    def request(self, kind: str, asked: Asked, *, stream: bool, want_tokens: int | None = None) -> HttpRequest:
        """Return the request of one ask; *want_tokens* instead of its own, where given."""
        cached = kind == "cached"
        return self.running.request_body(
            kind,
            Prompt(asked.prompt_ids, asked.prompt_text),
            asked.want_tokens if want_tokens is None else want_tokens,
            cache=cached,
            stream=stream,
            slot=CACHED_SLOT if cached else None,
            route=asked.route,
        )

    def _payload(self, kind: str, asked: Asked) -> bytes:
        request = self.request(kind, asked, stream=True)
        return encode_request(self._target, request.path, request.body)

    def one(self, kind: str, asked: Asked) -> RequestSample:
        """Send one request and return its sample."""
        payload, log = self._payload(kind, asked), self.running.log_mark()
        raw = exchange(self._target, payload, timeout_s=self.limit_s())
        return self._sample(raw, asked, self.running.cached_tokens(log) if asked.reuse else None)

    def together(self, kind: str, batch: list[Asked]) -> list[RequestSample]:
        """Send a batch at one moment and return its samples."""
        payloads = [self._payload(kind, asked) for asked in batch]
        raw = exchange_together(self._target, payloads, timeout_s=self.limit_s())
        return [self._sample(one, asked) for one, asked in zip(raw, batch, strict=True)]

    def _sample(self, raw: Exchange, asked: Asked, cached_tokens: int | None = None) -> RequestSample:
        form = self.running.format_of(asked.route)
        return sample_of(raw, asked, form, self.origin_ns, cached_tokens=cached_tokens)

    def asked(self, step: StepSpec, role: _Role, repeat: int, stream: int = 0) -> Asked:
        """Return what the request of this step, role, repeat and stream is to be."""
        prime = role == "prime"
        key = (step.step_id, role, 0 if prime else repeat, stream)
        return Asked(
            step=step.step_id,
            role=role,
            repeat=repeat,
            stream=stream,
            prompt_ids=self.prompts.ids[key],
            prompt_text=self.prompts.texts.get(key),
            want_tokens=1 if prime else step.output_tokens,
            reuse=None if prime else step.prompt_tokens if step.kind == "cached" else 0,
            route=step.route,
        )


def _rounds(step: StepSpec) -> Iterator[tuple[_Role, int]]:
    yield from (("warmup", repeat) for repeat in range(step.warmups))
    yield from (("timed", repeat) for repeat in range(step.repeats))


def run_step(asker: Asker, step: StepSpec) -> Iterator[list[RequestSample]]:
    """Yield the samples of each round of *step*, ending early once one failed: its row has failed with it.

    ``cold`` and ``decode`` send one request a round, ``agg`` all streams at one moment, ``cached`` an extension of
    the primed prefix, primed once or, with ``reprime``, before every round.
    """
    primed = 0
    for number, (role, repeat) in enumerate(_rounds(step)):
        samples: list[RequestSample] = []
        if step.kind == "cached" and (number == 0 or step.reprime):
            samples.append(asker.one(step.kind, asker.asked(step, "prime", primed)))
            primed += 1
        if not any(sample.failure for sample in samples):
            batch = [asker.asked(step, role, repeat, stream) for stream in range(step.streams)]
            samples += asker.together(step.kind, batch) if len(batch) > 1 else [asker.one(step.kind, batch[0])]
        yield samples
        if any(sample.failure for sample in samples):
            return

"""Untimed answers to prompts that are timed, one step for each shape: the timed ones must carry their hash."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lqw.canonical import sha256_json
from lqw.collect.requests import answer_sha256
from lqw.collect.steps import CACHED_SLOT
from lqw.correctness.shapes import CACHED, SINGLE, streams_of
from lqw.engines.base import Prompt
from lqw.engines.together import together
from lqw.samples import Twin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.collect.prompts import Key, PromptSet
    from lqw.engines.running import RunningEngine
    from lqw.params import ProtocolSpec, StepSpec
    from lqw.samples import Answer

__all__ = ["take_twins", "twin_step"]


def twin_step(protocol: ProtocolSpec, shape: str) -> StepSpec | None:
    """Return the step whose timed answers have untimed twins at *shape*, or None.

    Of one stream that is decode, else the shortest cold one: it has the most tokens, or costs the least. With a cached
    prefix the shortest, of c streams the one of c.
    """
    steps = protocol.steps
    if shape == SINGLE:
        fits = [step for step in steps if step.kind in ("decode", "cold")]
    elif shape == CACHED:
        fits = [step for step in steps if step.kind == "cached"]
    else:
        fits = [step for step in steps if step.kind == "agg" and step.streams == streams_of(shape)]
    return min(fits, key=lambda step: (step.kind != "decode", step.peak_tokens), default=None)


def take_twins(protocol: ProtocolSpec, running: RunningEngine, prompts: PromptSet, shape: str) -> Iterator[Twin]:
    """Yield the twins of the first timed round at *shape*, asked as it is: primed, or all streams at one moment."""
    step = twin_step(protocol, shape)
    if step is None:
        return
    ask = partial(
        running.answer,
        name=step.step_id,
        shape=shape,
        cache=shape == CACHED,
        slot=CACHED_SLOT if shape == CACHED else None,
        timeout_s=protocol.request_timeout_s,
        route=step.route,
    )
    if shape == CACHED:
        primed = ask(_prompt(prompts, (step.step_id, "prime", 0, 0)), 1)
        if primed.failure is not None:
            yield _twin(step, prompts, 0, primed)
            return
    asks = [
        partial(ask, _prompt(prompts, (step.step_id, "timed", 0, stream)), step.output_tokens, stream=stream)
        for stream in range(step.streams)
    ]
    for stream, answer in enumerate(together(asks)):
        yield _twin(step, prompts, stream, answer)


def _prompt(prompts: PromptSet, key: Key) -> Prompt:
    return Prompt(prompts.ids[key], prompts.texts.get(key))


def _twin(step: StepSpec, prompts: PromptSet, stream: int, answer: Answer) -> Twin:
    return Twin(
        step=step.step_id,
        prompt_sha256=sha256_json(list(prompts.ids[step.step_id, "timed", 0, stream])),
        want_tokens=step.output_tokens,
        text_sha256=None if answer.failure else answer_sha256(answer.text, step.route),
        ids_sha256=None if answer.ids is None or answer.failure else sha256_json(answer.ids),
        failure=answer.failure,
    )

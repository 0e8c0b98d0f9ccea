"""The subject's untimed answers: to the fixed prompts at every shape the gate times, and to prompts that are timed.

Shapes that one launch times are asked of one start, with the slots of that launch: serially cold, serially with a
cached prefix, and with all streams in flight, always: a stream without a prompt of its own repeats another's.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from lqw.collect.arms import Found, Site, utc_now
from lqw.collect.steps import CACHED_SLOT
from lqw.collect.twins import take_twins, twin_step
from lqw.collect.watch import StartWatch
from lqw.correctness.shapes import CACHED, SINGLE, other_shapes, shape_of, streams_of
from lqw.engines.base import Prompt, StartRequest
from lqw.engines.starting import start_engine
from lqw.engines.together import together
from lqw.outcomes import Arm
from lqw.samples import Failure, IdentityRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lqw.engines.running import RunningEngine
    from lqw.samples import Answer

__all__ = ["identity_start"]

SPARE_TOKENS = 512
"""Context a prompt may take besides its answer; the fixed prompts are far shorter."""

SPARE_PER_TWIN = 64
"""The same for prompts that are timed too, whose length is known."""

Asked = dict[str, Prompt]


def identity_start(site: Site, model: str, position: int, *, margins: bool = False) -> IdentityRecord:
    """Start the subject for each shape and return its greedy answers.

    *margins* asks for each serial token's lead over its runner-up once: for a run that a reference is adopted from.
    The server sorts its vocabulary for it, token by token.

    Raises
    ------
    HostBusy
        Somebody else computed on the GPU meanwhile.
    """
    began_utc, began, found = utc_now(), time.perf_counter(), Found()
    with StartWatch(site.gpu) as watch:
        found.failure = _prompts_first(site, model)
        for start in _starts(site):
            if found.failure is None:
                _at(site, model, start, found, margins=margins)
    watch.require_alone()
    return IdentityRecord(
        model=model,
        position=position,
        started_utc=began_utc,
        wall_s=time.perf_counter() - began,
        engine=found.engine,
        answers=found.answers,
        twins=found.twins,
        failure=found.failure,
    )


class _Start(NamedTuple):
    """One start: its slots, and the shapes asked of it."""

    slots: int
    shapes: tuple[str, ...]


def _starts(site: Site) -> list[_Start]:
    """Return the starts, narrowest first; a shape is asked where the narrowest launch that times it has it."""
    protocol = site.params.protocol
    slots_of: dict[str, int] = {}
    for launch in sorted(protocol.launches, key=lambda launch: launch.slots):
        for step in launch.steps:
            slots_of.setdefault(shape_of(step.kind, step.streams), launch.slots)
    slots_of.setdefault(SINGLE, 1)
    shapes = (SINGLE, *other_shapes((step.kind, step.streams) for step in protocol.steps))
    return [
        _Start(slots, tuple(shape for shape in shapes if slots_of[shape] == slots))
        for slots in sorted(set(slots_of.values()))
    ]


def _prompts_first(site: Site, model: str) -> Failure | None:
    """Have the comparator make the prompts where the subject takes text only: its tokenizer need not be exact."""
    if site.engine(Arm.SUBJECT).takes == "ids" or site.prompts.get(model) is not None:
        return None
    outcome = _start_alone(site, model, Arm.COMPARATOR, "prompts", _Start(1, ()))
    if isinstance(outcome, Failure):
        return outcome
    with outcome as running:
        made = site.prompts_for(model, running)
    return made if isinstance(made, Failure) else None


def _start_alone(site: Site, model: str, arm: Arm, name: str, start: _Start) -> RunningEngine | Failure:
    """Start an arm for what is not timed, with room for the twins of its shapes."""
    protocol = site.params.protocol
    steps = [step for shape in start.shapes if (step := twin_step(protocol, shape)) is not None]
    needed = max((step.peak_tokens for step in steps), default=0) + SPARE_PER_TWIN
    return start_engine(
        site.engine(arm),
        StartRequest(
            spec=site.spec(arm),
            model_path=site.models[model],
            slots=start.slots,
            context_tokens_per_slot=max(needed, protocol.identity.output_tokens + SPARE_TOKENS),
            compute=site.params.host.compute,
            run_id=site.run_id,
            log_path=site.log_path(f"{model}/{name}"),
            timeout_s=protocol.start_timeout_s,
            arm=arm,
        ),
    )


def _at(site: Site, model: str, start: _Start, found: Found, *, margins: bool) -> None:
    """Start the subject and ask it at each shape of the start."""
    outcome = _start_alone(site, model, Arm.SUBJECT, f"identity_{'_'.join(start.shapes)}", start)
    if isinstance(outcome, Failure):
        found.failure = outcome
        return
    with outcome as running:
        found.engine = found.engine or running.facts
        _ask(site, running, model, start.shapes, found, margins=margins)
        found.failure = found.failure or running.moved_off()
        left = running.stop()
    found.failure = found.failure or left


def _ask(site: Site, running: RunningEngine, model: str, shapes: Sequence[str], found: Found, *, margins: bool) -> None:
    prompts = site.prompts_for(model, running)  # made here, so that no timed start has to
    asked = prompts if isinstance(prompts, Failure) else _identity_prompts(site, running)
    if isinstance(prompts, Failure) or isinstance(asked, Failure):
        found.failure = prompts if isinstance(prompts, Failure) else asked if isinstance(asked, Failure) else None
        return
    again = {name: asked[name] for name in site.params.protocol.identity.at_shapes or asked}
    for shape in shapes:
        if shape == SINGLE:
            answers = _serially(site, running, asked, margins=margins)
        elif shape == CACHED:
            answers = _cached(site, running, again)
        else:
            answers = _in_parallel(site, running, again, shape)
        _take(running, answers, found)
        if found.failure is not None:
            return
        found.twins += take_twins(site.params.protocol, running, prompts, shape)


def _identity_prompts(site: Site, running: RunningEngine) -> Asked | Failure:
    asked: Asked = {}
    for name, text in site.params.prompts.items():
        ids = running.tokenize(text) if running.engine.takes == "ids" else []
        if isinstance(ids, Failure):
            return ids
        asked[name] = Prompt(tuple(ids), text)
    return asked


def _take(running: RunningEngine, answers: Iterator[Answer], found: Found) -> None:
    """Keep answers as they come; the death of the engine ends them."""
    for answer in answers:
        found.answers.append(answer)
        if answer.failure is not None and (died := running.died(answer.failure)) is not None:
            found.failure = died
            return


def _serially(site: Site, running: RunningEngine, asked: Mapping[str, Prompt], *, margins: bool) -> Iterator[Answer]:
    protocol = site.params.protocol
    for repeat in range(protocol.identity.repeats):
        for name, prompt in asked.items():
            yield running.answer(
                prompt,
                protocol.identity.output_tokens,
                name=name,
                repeat=repeat,
                margins=margins and repeat == 0,
                timeout_s=protocol.request_timeout_s,
            )


def _cached(site: Site, running: RunningEngine, asked: Mapping[str, Prompt]) -> Iterator[Answer]:
    """Prime with the first half of each prompt, then ask the whole: the recipe of the timed rows."""
    protocol = site.params.protocol
    ask = partial(running.answer, shape=CACHED, cache=True, slot=CACHED_SLOT, timeout_s=protocol.request_timeout_s)
    for repeat in range(protocol.identity.repeats):
        for name, prompt in asked.items():
            text = prompt.text or ""
            half = Prompt(prompt.ids[: len(prompt.ids) // 2], text[: len(text) // 2])
            primed = ask(half, 1, name=name, repeat=repeat)
            yield primed if primed.failure else ask(prompt, protocol.identity.output_tokens, name=name, repeat=repeat)


def _in_parallel(site: Site, running: RunningEngine, asked: Mapping[str, Prompt], shape: str) -> Iterator[Answer]:
    """Ask with all streams in flight until every prompt has its answers; ``repeat`` counts those to one prompt.

    By the route that the shape is timed by: on a GPU apr forms batches of chats only.
    """
    protocol, streams = site.params.protocol, streams_of(shape)
    timed = twin_step(protocol, shape)
    counted, turn = dict.fromkeys(asked, 0), cycle(asked.items())
    while min(counted.values()) < protocol.identity.repeats:
        asks = []
        for stream in range(streams):
            name, prompt = next(turn)
            ask = partial(
                running.answer,
                prompt,
                protocol.identity.output_tokens,
                name=name,
                shape=shape,
                repeat=counted[name],
                stream=stream,
                timeout_s=protocol.request_timeout_s,
                route="completion" if timed is None else timed.route,
            )
            counted[name] += 1
            asks.append(ask)
        yield from together(asks)

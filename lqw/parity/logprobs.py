"""The record of one stream where no tool takes it: two llama.cpp compared by the log-probabilities they serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.engines.base import Prompt
from lqw.engines.control import Control, ControlError
from lqw.engines.logprobs import head_of, with_probs
from lqw.errors import UsageError
from lqw.parity.envelope import Taken
from lqw.parity.hardware import hardware, utc_now
from lqw.parity.heads import METHOD, record_of
from lqw.parity.start import EngineFailed, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.parity.start import Wanted
    from lqw.parity.witness import Target
    from lqw.samples import EngineFacts

__all__ = ["HEAD_TOKENS", "record_by_logprobs"]

HEAD_TOKENS = 64  # likeliest tokens of each position


def record_by_logprobs(subject: Wanted, reference: Wanted, prompt: str, positions: int) -> Taken:
    """Start the reference, take its greedy continuation and its heads; then the subject's heads on the same tokens.

    Every position is one request for one token whose prefix is in the slot's cache: the shape of one stream.

    Raises
    ------
    UsageError
        Both sides are one program with one set of settings, or an engine that serves no log-probabilities.
    EngineFailed
        One of them does not start or does not answer: there is no receipt.
    """
    began = utc_now()
    if _said(subject) == _said(reference):
        raise _nothing_compared()
    with started(reference) as target:
        ids, context = _continuation(target, prompt, positions)
        first, other = _heads(target, ids, context), target.facts
    with started(subject) as target:
        second, facts = _heads(target, ids, context), target.facts
    if facts.binary_sha256 == other.binary_sha256 and _how(subject) == _how(reference):
        raise _nothing_compared()
    return Taken(
        raw=record_of(subject.model.name, first, second, arms={"cpu": _described(other), "gpu": _described(facts)}),
        version=facts.build,
        backend=facts.compute,
        comparator={"kind": METHOD, "sha": other.binary_sha256},
        command=facts.command,
        binary_sha256=facts.binary_sha256,
        started_utc=began,
        hardware=hardware(subject.model, cuda=facts.compute == "cuda"),
    )


def _continuation(target: Target, prompt: str, positions: int) -> tuple[list[int], int]:
    """Return the ids of prompt and greedy answer, and how many are the prompt's."""
    if target.engine.stream_format != "llama":
        raise UsageError(
            f"{target.engine.name} serves no log-probabilities that are understood here",
            remedy="compare two llama.cpp: --engine and --against llama_server or embedded",
        )
    try:
        ids = target.tokenize(prompt)
    except ControlError as err:
        raise EngineFailed(f"{target.engine.name}: {err.failure.detail}", remedy="see its log") from err
    answer = target.ask(Prompt(tuple(ids), prompt), positions, 0, "single")
    generated = answer.ids or []
    if answer.failure is not None or len(generated) != positions:
        why = answer.failure.detail if answer.failure else f"{len(generated)} of {positions} tokens"
        raise EngineFailed(f"{target.engine.name} gave no continuation: {why}", remedy="see its log")
    return [*ids, *generated], len(ids)


def _heads(target: Target, ids: Sequence[int], context: int) -> list[dict[int, float]]:
    """Return the heads of the distributions that follow ``ids[:n]``, n from *context* on."""
    name, out = target.engine.name, []
    with Control(target.host, target.port, timeout_s=600.0) as control:
        for end in range(context, len(ids)):
            asked = target.engine.request_body("identity", Prompt(tuple(ids[:end])), 1, cache=True, stream=False)
            request = with_probs(asked, HEAD_TOKENS)
            try:
                head = head_of(control.post(request.path, request.body))
            except ControlError as err:
                raise EngineFailed(f"{name}: {err.failure.detail}", remedy="see its log") from err
            if len(head) < 2:  # noqa: PLR2004 - one token has no correlation
                raise EngineFailed(f"{name} gives no log-probabilities", remedy="use a build whose n_probs works")
            out.append(head)
    return out


def _how(wanted: Wanted) -> tuple[object, ...]:
    return wanted.compute, wanted.spec.settings, wanted.spec.env


def _said(wanted: Wanted) -> tuple[object, ...]:
    return wanted.spec.engine, wanted.spec.binary, *_how(wanted)


def _nothing_compared() -> UsageError:
    return UsageError(
        "both sides are one program with one set of settings: nothing is compared",
        remedy="name another build (--against-binary), backend (--against-compute) or setting (--against-set)",
    )


def _described(facts: EngineFacts) -> str:
    return f"{facts.engine} {facts.build} on {facts.compute}, binary {facts.binary_sha256[:12]}"

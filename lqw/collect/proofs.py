"""What is looked at after each step of a start: its route, who computed it, and decoding without a stream beside it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lqw.engines.control import Control, ControlError
from lqw.outcomes import Reason
from lqw.samples import Failure, StepFacts, Unstreamed

if TYPE_CHECKING:
    from lqw.collect.steps import Asker
    from lqw.engines.base import Engine
    from lqw.params import StepSpec

__all__ = ["not_offloaded", "step_facts", "unasked"]


def step_facts(asker: Asker, step: StepSpec, *, mark: int, unstreamed: bool) -> StepFacts:
    """Return the facts of a step whose requests are over.

    Parameters
    ----------
    asker : Asker
    step : StepSpec
    mark : int
        Of the log (:meth:`lqw.engines.running.RunningEngine.log_mark`), before the step.
    unstreamed : bool
        Whether a decode step is answered without streaming too.
    """
    formed = asker.running.formed(mark) if step.kind == "agg" else None
    used, said = asker.running.used_gpu()
    return StepFacts(
        step=step.step_id,
        path=asker.request(step.kind, asker.asked(step, "timed", 0), stream=True).path,
        used_gpu=used,
        said=said,
        formed=formed,
        unstreamed=_unstreamed(asker, step) if unstreamed and step.kind == "decode" else None,
    )


def unasked(engine: Engine, step: StepSpec) -> StepFacts:
    """Return the facts of a step that an engine has no route for, and was not asked: a path of no letters, and why."""
    return StepFacts(step=step.step_id, path="", said=f"{engine.name} has no {step.route} route, which the row goes by")


def not_offloaded(facts: StepFacts) -> Failure | None:
    """Return NO_OFFLOAD where a step was not served by the GPU: an engine may leave it at any request."""
    if facts.used_gpu is not False:
        return None
    return Failure(reason=Reason.NO_OFFLOAD, detail=f"{facts.step}: {facts.said}")


def _unstreamed(asker: Asker, step: StepSpec) -> Unstreamed | None:
    """Return T(1) and T(n) of the step's first prompt; None where one failed, was cut short, or they do not differ.

    The one token is asked twice and its second time counts: an engine whose reuse cannot be turned off (apr) pays for
    the prompt the first time and reuses it then, so that T(1) would hold a prefill that T(n) does not. What is left is
    decoding. No clock of the server, no stream: whole answers, so that a difference of n − 1 tokens is timed.
    """
    times: list[int] = []
    for tokens in (1, 1, step.output_tokens):
        request = asker.request(step.kind, asker.asked(step, "timed", 0), stream=False, want_tokens=tokens)
        began = time.perf_counter_ns()
        try:
            with Control(asker.running.host, asker.running.port, timeout_s=asker.limit_s()) as control:
                said = control.post(request.path, request.body)
        except ControlError:
            return None
        times.append(time.perf_counter_ns() - began)
        if _generated(said) != tokens:
            return None
    _, one, all_of_them = times
    if all_of_them <= one:
        return None
    return Unstreamed(tokens=step.output_tokens, one_ns=one, all_ns=all_of_them, again=True)


def _generated(said: Any) -> int | None:
    """Return how many tokens an answer says it has: ``usage``, or llama-server's own word."""
    usage = said.get("usage") if isinstance(said, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else said.get("tokens_predicted")
    return count if isinstance(count, int) else None

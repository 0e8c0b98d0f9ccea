"""Taking a serving witness: c simultaneous greedy requests against the single stream, at the batch that formed.

The single stream is asked twice first: an engine that disagrees with itself is no reference. One request before these
is thrown away: engines check themselves at it, and those that keep prefixes answer every later one from theirs. All
requests of a band carry the same prompt, so every slot must give the reference's tokens (PARITY, "Measuring it here").
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lqw.canonical import sha256_json
from lqw.correctness.detectors import CONSTANT_RUN, longest_run
from lqw.engines.control import Control, ControlError
from lqw.engines.together import together
from lqw.parity.bands import common_prefix
from lqw.parity.commits import commit_of
from lqw.parity.serving import BATCH, PROBE, WITNESS_VERSION
from lqw.parity.telemetry import Formed, LlamaTelemetry, LogTelemetry
from lqw.samples import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lqw.engines.base import Engine, HttpRequest, Prompt
    from lqw.engines.running import RunningEngine
    from lqw.parity.telemetry import Telemetry
    from lqw.samples import EngineFacts

__all__ = ["Target", "judge_band", "take_witness"]

SAMPLER = ("temperature", "top_k", "ignore_eos", "cache_prompt", "seed")


@dataclass(frozen=True, slots=True)
class Target:
    """A running engine, started here or found running."""

    engine: Engine
    host: str
    port: int
    facts: EngineFacts
    log_path: Path | None = None

    @classmethod
    def of(cls, running: RunningEngine) -> Target:
        """Return the target of an engine started here."""
        return cls(running.engine, running.host, running.port, running.facts, running.log_path)

    def telemetry(self) -> Telemetry | None:
        """Return what can tell the batch this engine forms, or None."""
        if self.engine.stream_format == "llama":
            return LlamaTelemetry(self.host, self.port)
        return None if self.log_path is None else LogTelemetry(self.log_path)

    def tokenize(self, text: str) -> list[int]:
        """Return the ids the engine would serve *text* with; ControlError where it does not answer."""
        with Control(self.host, self.port) as control:
            return self.engine.tokenize(control, text)

    def request(self, prompt: Prompt, tokens: int) -> HttpRequest:
        """Return the request of every answer."""
        return self.engine.request_body("witness", prompt, tokens, cache=False, stream=False)

    def ask(self, prompt: Prompt, tokens: int, slot: int, shape: str) -> Answer:
        """Return one greedy answer; a failed request is an answer with a failure."""
        blank = Answer(prompt="witness", shape=shape, repeat=slot, text="")
        request = self.request(prompt, tokens)
        try:
            with Control(self.host, self.port, timeout_s=600.0) as control:
                return self.engine.answer(control, request, blank)
        except ControlError as err:
            return blank.model_copy(update={"failure": err.failure})


def _together(target: Target, prompt: Prompt, tokens: int, c: int) -> list[Answer]:
    """Return c answers whose requests left together."""
    shape = f"agg@{c}"
    return together([partial(target.ask, prompt, tokens, index, shape) for index in range(c)])


def _slot(answer: Answer, reference: Sequence[int], first: Sequence[int]) -> dict[str, Any]:
    ids = answer.ids or []
    return {
        "i": answer.repeat,
        "agree_to": common_prefix(ids, reference),
        "intra_agree_to": common_prefix(ids, first),
        "completion_tokens": len(ids),
        "constant_run": longest_run(ids),
        "finish_reason": answer.finish if answer.failure is None else answer.failure.detail[:200],
        "refused": answer.failure is not None,
        "ids": ids,
    }


def judge_band(c: int, answers: Sequence[Answer], reference: Sequence[int], formed: Formed) -> dict[str, Any]:
    """Return one band of the witness from its answers and what the server says it formed. Pure.

    FAIL where any slot's tokens are garbage or not the reference's; UNMEASURABLE, with its reason, where requests
    were refused, ids are missing, telemetry is silent or tells of more requests than there were, or no batch formed;
    else PASS.
    """
    first: Sequence[int] = next((answer.ids for answer in answers if answer.ids), [])
    slots = [_slot(answer, reference, first) for answer in answers]
    served = [slot for slot in slots if not slot["refused"]]
    astray = [slot for slot in served if slot["ids"] and slot["ids"] != list(reference)]
    run = max((slot["constant_run"] for slot in slots), default=0)
    result, reason = "PASS", None
    if astray or run >= CONSTANT_RUN:
        result = "FAIL"
        equal = len(served) - len(astray)
        reason = f"{equal} of {c} answers equal the single stream's" + (
            f", one token repeated {run} times" if run >= CONSTANT_RUN else ""
        )
    elif len(served) < c:
        result, reason = "UNMEASURABLE", f"{c - len(served)} of {c} requests were refused: {_refusal(slots)}"
    elif any(not slot["ids"] for slot in served):
        result, reason = "UNMEASURABLE", "the engine gives no token ids to compare"
    elif formed.batch is None:
        result, reason = "UNMEASURABLE", formed.detail
    elif formed.requests is not None and formed.requests > c:
        result = "UNMEASURABLE"
        reason = f"{formed.detail}: {formed.requests} requests in them, {c} were sent: some lines are not of these"
    elif c >= BATCH > formed.batch:
        result, reason = "UNMEASURABLE", f"no batch formed: {formed.detail}"
    return {
        "c": c,
        "m_formed": formed.batch if formed.batch is not None or result == "UNMEASURABLE" else 0,
        "result": result,
        "reason": reason,
        "divergence_at": min((slot["agree_to"] for slot in astray), default=None),
        "max_constant_run": run,
        "telemetry": formed.detail,
        "slots": slots,
    }


def _refusal(slots: Sequence[dict[str, Any]]) -> str:
    return next((str(slot["finish_reason"]) for slot in slots if slot["refused"]), "")


def _band(target: Target, prompt: Prompt, tokens: int, c: int, reference: Sequence[int]) -> dict[str, Any]:
    telemetry = target.telemetry()
    if telemetry is None:
        return judge_band(c, _together(target, prompt, tokens, c), reference, Formed(None, "no telemetry to read"))
    telemetry.begin()
    answers = _together(target, prompt, tokens, c)
    return judge_band(c, answers, reference, telemetry.end())


def _unstable(first: Answer, second: Answer) -> str | None:
    """Return why two answers of the single stream are no reference, or None."""
    failed = first.failure or second.failure
    if failed is not None:
        return failed.detail[:200]
    if not first.ids or not second.ids:
        return "the engine gives no token ids"
    return None if first.ids == second.ids else f"two answers part at token {common_prefix(first.ids, second.ids)}"


def take_witness(
    target: Target, prompt: Prompt, concurrencies: Sequence[int], *, tokens: int, host: str, model: dict[str, str]
) -> dict[str, Any]:
    """Return a serving witness (``witness_version`` 2) of a running engine.

    Parameters
    ----------
    target : Target
        The engine; its slots must suffice for the largest concurrency, or its requests queue (and no batch forms).
    prompt : Prompt
        Token ids, and text for engines that take none.
    concurrencies : sequence of int
        Requests at once, one band each.
    tokens : int
        Length of every answer.
    host : str
        The host's name, normalised.
    model : dict
        ``path`` (name of the file) and ``sha256`` of its bytes.

    Returns
    -------
    dict
        ``exit`` is 0 where every band passed, 1 where one failed, 3 where one could not be measured. The judge is
        :func:`lqw.parity.serving.judge_serving`, which trusts none of these words.
    """
    _, first, second = (target.ask(prompt, tokens, repeat, "single") for repeat in range(3))
    request = target.request(prompt, tokens)
    body = json.loads(request.body)
    reference = first.ids or []
    unstable = _unstable(first, second)
    stable = unstable is None
    bands = [_band(target, prompt, tokens, c, reference) for c in concurrencies] if stable else []
    results = {band["result"] for band in bands}
    return {
        "witness_version": WITNESS_VERSION,
        "probe": PROBE,
        "generated_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "engine": target.facts.engine,
        "bands": bands,
        "binary_sha256": target.facts.binary_sha256,
        "commit": commit_of(target.facts.version, target.facts.build),
        "env": dict(target.facts.env),
        "settings": dict(target.facts.settings),
        "exit": 1 if "FAIL" in results else 0 if results == {"PASS"} else 3,
        "host": host,
        "model": dict(model),
        "prompt_sha256": sha256_json(list(prompt.ids)),
        "reference": {"stable": stable, "reason": unstable, "tokens": len(reference), "ids": reference},
        "route": request.path,
        "sampler": {name: body[name] for name in SAMPLER if name in body},
    }

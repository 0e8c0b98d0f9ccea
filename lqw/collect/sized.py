"""Prompts as text for an engine whose tokenizer cannot be asked: sized by the engine's own count of each text.

A text is words of the corpus and, for the last few tokens, a filler word; how many tokens it is, is what the engine
says when it is sent one. Every prompt of a start begins with two letters of its own, so that no prefix is shared.
The letters are taken to be as long as one another; each timed request still proves its length by the engine's count.
"""

from __future__ import annotations

import itertools
import math
from functools import cache, partial
from typing import TYPE_CHECKING

from lqw.collect.prompts import PromptSet, due
from lqw.engines.base import Prompt
from lqw.engines.control import Control, ControlError
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lqw.collect.prompts import Key
    from lqw.engines.base import Route
    from lqw.engines.running import RunningEngine
    from lqw.params import ProtocolSpec, StepSpec

    Count = Callable[[str, Route], int | Failure]

__all__ = ["counted_by", "sized_prompts"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FILLER = " a"
PROBE = "Q Q"
FINE = 48  # tokens: as near as this, fillers do the rest
TRIES = 12


class _Unfit(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class _Sizer:
    """Finds the words after a lead that make a text of so many tokens, by asking."""

    def __init__(self, corpus: str, count: Count, route: Route) -> None:
        self._words, self._count, self._route = corpus.split(), count, route
        few = 64
        self._per_word = max(self._ask(" ".join(self._words[:few])) / few, 0.5)

    def _ask(self, text: str) -> int:
        seen = self._count(text, self._route)
        if isinstance(seen, Failure):
            raise _Unfit(seen)
        return seen

    def _body(self, words: int, fillers: int) -> str:
        text = "".join(f" {word}" for word in itertools.islice(itertools.cycle(self._words), words))
        return text + FILLER * fillers

    def body(self, before: str, tokens: int) -> str:
        """Return what follows *before* and a lead, so that all of it is *tokens* long."""
        base = self._ask(before + PROBE)
        words, fillers = max(0, int((tokens - base) / self._per_word)), 0
        for _ in range(TRIES):
            seen = self._ask(before + PROBE + self._body(words, fillers))
            short = tokens - seen
            if short == 0:
                return self._body(words, fillers)
            if short > FINE:
                words += max(1, int(short / self._per_word))
            elif fillers + short >= 0:
                fillers += short
            else:
                words, fillers = max(0, words - math.ceil(-short / self._per_word) - 1), 0
        detail = f"no text of {tokens} tokens by the engine's own count, in {TRIES} tries"
        raise _Unfit(Failure(reason=Reason.PROMPT_LENGTH, detail=detail))


def _of_step(step: StepSpec, sizer: _Sizer, leads: itertools.count[int]) -> dict[Key, tuple[int, str]]:
    prefix, longer = "", step.prompt_tokens
    out: dict[Key, tuple[int, str]] = {}
    if step.kind == "cached":
        prefix = _lead(next(leads)) + sizer.body("", step.prompt_tokens)
        out[step.step_id, "prime", 0, 0] = step.prompt_tokens, prefix
        prefix, longer = prefix + " ", step.prompt_tokens + step.suffix_tokens
    body = sizer.body(prefix, longer)
    for step_id, role, repeat, stream, _ in due(step):
        if role != "prime":
            out[step_id, role, repeat, stream] = longer, prefix + _lead(next(leads)) + body
    return out


def _lead(number: int) -> str:
    """Return two letters; the first differs for 26 in a row."""
    return f"{LETTERS[number % 26]} {LETTERS[number // 26 % 26]}"


def sized_prompts(
    protocol: ProtocolSpec, corpus: str, count: Count, routes: Collection[Route] = ("completion", "chat")
) -> PromptSet | Failure:
    """Return the prompts of a protocol as texts.

    Parameters
    ----------
    protocol : ProtocolSpec
    corpus : str
        Plain text.
    count : callable
        Tokens of a text as the engine counts a prompt of a route, a chat's template included, or why it could not be
        asked.
    routes : collection
        Steps by another route get no prompts: they are not asked.

    Returns
    -------
    PromptSet or Failure
        Its ``ids`` have the right length and stand for the text only: nobody has seen the true ones.
    """
    ids: dict[Key, tuple[int, ...]] = {}
    texts: dict[Key, str] = {}
    try:
        sizers, leads = cache(partial(_Sizer, corpus, count)), itertools.count()
        for launch in protocol.launches:
            for step in (one for one in launch.steps if one.route in routes):
                for key, (tokens, text) in _of_step(step, sizers(step.route), leads).items():
                    ids[key] = (len(ids), *itertools.repeat(0, tokens - 1))
                    texts[key] = text
    except _Unfit as unfit:
        return unfit.failure
    return PromptSet(ids, texts)


def counted_by(running: RunningEngine) -> Count:
    """Return what counts a text as *running* does: its tokenizer, or else, and for chats, what it says a prompt was."""

    def count(text: str, route: Route) -> int | Failure:
        if route == "chat":
            return _prompt_tokens(running, text, route)
        ids = running.tokenize(text)
        if isinstance(ids, Failure):
            return _prompt_tokens(running, text, route) if ids.reason is Reason.UNSUPPORTED else ids
        return len(ids)

    return count


def _prompt_tokens(running: RunningEngine, text: str, route: Route) -> int | Failure:
    """Return the engine's own count of a prompt, template included; reuse is welcome, nothing is timed here."""
    request = running.request_body("cached", Prompt((), text), 1, cache=True, stream=False, route=route)
    try:
        with Control(running.host, running.port, timeout_s=600.0) as control:
            said = control.post(request.path, request.body)
    except ControlError as err:
        return err.failure
    usage = said.get("usage") if isinstance(said, dict) else None
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else said.get("prompt_eval_count")
    if not isinstance(count, int) or isinstance(count, bool):
        return Failure(reason=Reason.PROMPT_LENGTH, detail="the server does not tell how long a prompt was")
    return count

"""Prompts for engines that take text: exact in length by a tokenizer that serves, proven by tokenizing them again.

An engine that takes no ids tokenizes by itself. So every prompt is cut where a word begins, turned to text, tokenized
again, and used only when the ids come back unchanged: both engines are then sent the same work, and what the engine
counts beside (``usage``) must agree with it, or the row is void.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from lqw.collect.prompts import PromptSet, due, seed_of
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.collect.prompts import Key
    from lqw.params import LaunchSpec, Params

__all__ = ["Speaker", "make_text_prompts", "with_chats", "with_texts"]

_TRIES = 60


class Speaker(Protocol):
    """What turns text to ids and back: a running engine with a tokenizer that it also serves with."""

    def tokenize(self, text: str) -> list[int] | Failure:
        """Return the ids of *text*, begin token included."""
        ...

    def detokenize(self, ids: Sequence[int]) -> str | Failure:
        """Return the text of *ids*."""
        ...

    def chat_ids(self, text: str) -> list[int] | Failure:
        """Return the ids of a chat whose only message is *text*, template and all."""
        ...


class _Unfit(Exception):
    """Carries a Failure out of nested loops."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class _Cutter:
    """Cuts pieces of one launch: each begins with a word that no other piece of it begins with."""

    def __init__(self, speaker: Speaker, corpus: Sequence[int], begin: int, seed: str) -> None:
        self._speaker, self._corpus, self._begin = speaker, list(corpus), begin
        self._rng = random.Random(seed)  # noqa: S311 - a choice of prompts, not a secret
        self._used: set[int] = set()

    def _text(self, ids: Sequence[int]) -> str:
        text = self._speaker.detokenize(ids)
        if isinstance(text, Failure):
            raise _Unfit(text)
        return text

    def _ids(self, text: str) -> tuple[int, ...]:
        ids = self._speaker.tokenize(text)
        if isinstance(ids, Failure):
            raise _Unfit(ids)
        return tuple(ids[self._begin :])

    def piece(self, tokens: int, prefix: tuple[tuple[int, ...], str]) -> tuple[tuple[int, ...], str]:
        """Return ids and text of *prefix* and *tokens* more, the ids proven to be those of the text."""
        before, said = prefix
        for _ in range(_TRIES):
            start = self._rng.randrange(len(self._corpus))
            ids = tuple(self._corpus[(start + i) % len(self._corpus)] for i in range(tokens))
            if ids[0] in self._used:
                continue
            text = said + self._text(ids)
            if not text[len(said) :].startswith(" ") or self._ids(text) != before + ids:
                continue
            self._used.add(ids[0])
            return before + ids, text
        detail = f"no cut of {tokens} tokens of the corpus is the same tokens again as text, in {_TRIES} tries"
        raise _Unfit(Failure(reason=Reason.PROMPT_LENGTH, detail=detail))

    def chat(self, tokens: int) -> tuple[tuple[int, ...], str]:
        """Return the ids of a whole chat of *tokens*, template and all, and the text of its message.

        The message begins and ends in no space: templates cut it off. Its first word is no other message's.
        """
        template = len(self._chat_ids("a")) - 1
        for _ in range(_TRIES):
            start = self._rng.randrange(len(self._corpus))
            inner = [self._corpus[(start + i) % len(self._corpus)] for i in range(max(1, tokens - template))]
            text = self._text(inner).strip()
            if not text or inner[0] in self._used:
                continue
            whole = tuple(self._chat_ids(text))
            if len(whole) == tokens:
                self._used.add(inner[0])
                return whole, text
        made = f"a chat of {tokens} tokens, {template} of them the template's"
        detail = f"no message of the corpus makes {made}, in {_TRIES} tries"
        raise _Unfit(Failure(reason=Reason.PROMPT_LENGTH, detail=detail))

    def _chat_ids(self, text: str) -> list[int]:
        ids = self._speaker.chat_ids(text)
        if isinstance(ids, Failure):
            raise _Unfit(ids)
        return ids


def _of_launch(launch: LaunchSpec, cutter: _Cutter) -> dict[Key, tuple[tuple[int, ...], str]]:
    out: dict[Key, tuple[tuple[int, ...], str]] = {}
    for step in (one for one in launch.steps if one.route != "chat"):
        # The prime first: what extends it is proven as one text with it.
        for step_id, role, repeat, stream, tokens in sorted(due(step), key=lambda one: one[1] != "prime"):
            prefix = out.get((step_id, "prime", 0, 0), ((), ""))
            out[step_id, role, repeat, stream] = cutter.piece(tokens, prefix)
    return out


def make_text_prompts(params: Params, corpus_ids: Sequence[int], speaker: Speaker) -> PromptSet | Failure:
    """Return the prompts of one model as ids and text.

    Parameters
    ----------
    params : Params
        Its protocol says what is asked.
    corpus_ids : sequence of int
        The corpus by the speaker's tokenizer, without a begin token.
    speaker : Speaker
        Proves each text.

    Returns
    -------
    PromptSet or Failure
        PROMPT_LENGTH where the corpus has no such cuts, or why the speaker failed.
    """
    ids: dict[Key, tuple[int, ...]] = {}
    texts: dict[Key, str] = {}
    try:
        for number, launch in enumerate(params.protocol.launches):
            made = _of_launch(launch, _Cutter(speaker, corpus_ids, _begin_tokens(speaker), seed_of(params, number)))
            ids.update({key: one for key, (one, _) in made.items()})
            texts.update({key: text for key, (_, text) in made.items()})
    except _Unfit as unfit:
        return unfit.failure
    return PromptSet(ids, texts)


def with_chats(params: Params, prompts: PromptSet, corpus_ids: Sequence[int], speaker: Speaker) -> PromptSet | Failure:
    """Return prompts whose chat steps have messages; their ids are those of the whole chat, by the speaker's template.

    PROMPT_LENGTH where the corpus has no such cuts, or why the speaker failed.
    """
    ids, texts = dict(prompts.ids), dict(prompts.texts)
    try:
        for number, launch in enumerate(params.protocol.launches):
            cutter = _Cutter(speaker, corpus_ids, _begin_tokens(speaker), seed_of(params, number))
            for step in (one for one in launch.steps if one.route == "chat"):
                for step_id, role, repeat, stream, tokens in due(step):
                    key = (step_id, role, repeat, stream)
                    ids[key], texts[key] = cutter.chat(tokens)
    except _Unfit as unfit:
        return unfit.failure
    return PromptSet(ids, texts)


def with_texts(prompts: PromptSet, speaker: Speaker) -> PromptSet | Failure:
    """Return prompts of ids with each one told as text too, for who takes no ids; its count of them is its own."""
    texts: dict[Key, str] = {}
    for key, ids in prompts.ids.items():
        text = speaker.detokenize(ids)
        if isinstance(text, Failure):
            return text
        texts[key] = text
    return PromptSet(prompts.ids, texts)


def _begin_tokens(speaker: Speaker) -> int:
    """Return how many tokens the tokenizer puts before any text."""
    one, other = speaker.tokenize("a"), speaker.tokenize("0")
    if isinstance(one, Failure):
        raise _Unfit(one)
    if isinstance(other, Failure):
        raise _Unfit(other)
    return int(one[:1] == other[:1])

"""Garbage detectors: what an answer may not look like, whatever the reference says (PITFALLS 1, 16, 21).

A detector either *voids* (no working engine gives such an answer to a prompt that has a continuation) or *flags*
(shown, never decides). Which is which was calibrated on the demo's 270M model, whose healthy answers loop: of six
96-token answers one repeats a 14-token sentence five times, none repeats a single token more than twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import eq
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lqw.samples import Answer

__all__ = ["CONSTANT_RUN", "DETECTORS", "Finding", "detect", "longest_run", "shortest_cycle"]

CONSTANT_RUN = 16  # tokens; PARITY and PITFALLS 1
CONSTANT_CHARACTERS = 64  # of one character, where there are no ids: a rule of dashes is one or two tokens
MAX_PERIOD = 24  # tokens
MIN_TURNS = 4  # a cycle is worth a flag from four turns on …
CYCLE_SHARE = 0.5  # … that fill half of the answer
BROKEN_SHARE = 0.10  # of the characters
ECHO_CHARACTERS = 24  # less than this of a prompt may well be how its continuation begins
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MOST_CUT = 3  # replacement characters that one character cut short can leave: a byte each, of four at most
ENDED = frozenset({"stop", "eos", "word"})  # finish words that say the model itself ended


@dataclass(frozen=True, slots=True)
class Finding:
    """What one detector says of one answer; ``state`` is ``ok`` where it found nothing."""

    kind: str
    state: Literal["ok", "flag", "void"]
    detail: str


def longest_run(items: Sequence[object]) -> int:
    """Return the length of the longest run of equal neighbours (0 for nothing)."""
    if not any(map(eq, items[1:], items)):
        return min(len(items), 1)  # the usual answer: no neighbours are equal
    return max(len(list(group)) for _, group in groupby(items))


def shortest_cycle(items: Sequence[object], max_period: int = MAX_PERIOD) -> tuple[int, int]:
    """Return ``(period, length)`` of the shortest period ≥ 2 whose stretch is long enough for a flag.

    ``length`` counts the items of the stretch, first turn included; ``(0, 0)`` where there is none. A constant run
    is not a cycle of its own multiples: its stretch must hold at least two different items.
    """
    again = len(items) - len(set(items))  # a stretch brings all but its first turn again
    for period in range(2, min(max_period, len(items) // MIN_TURNS) + 1):
        least = max(MIN_TURNS * period, CYCLE_SHARE * len(items))
        if again < least - period:
            continue
        if sum(map(eq, items[period:], items)) < least - period:
            continue  # too few items repeat at this distance, in one stretch or in many
        begin = 0
        for end in range(period, len(items) + 1):
            if end == len(items) or items[end] != items[end - period]:
                length = end - begin
                if length >= least and len(set(items[begin : begin + period])) > 1:
                    return period, length
                begin = end - period + 1
    return 0, 0


def _constant_run(answer: Answer, want: int, prompt: str) -> Finding:
    del want, prompt
    if answer.ids is not None:
        run, limit, what = longest_run(answer.ids), CONSTANT_RUN, "token"
    elif longest_run(answer.text) >= CONSTANT_CHARACTERS:
        run, limit, what = longest_run(answer.text), CONSTANT_CHARACTERS, "character"
    else:
        run, limit, what = longest_run(answer.text.split()), CONSTANT_RUN, "word"
    text = f"longest run of one {what}: {run} (garbage from {limit} on)"
    return Finding("constant_run", "void" if run >= limit else "ok", text)


def _cycle(answer: Answer, want: int, prompt: str) -> Finding:
    del want, prompt
    items: Sequence[object] = answer.ids if answer.ids is not None else answer.text.split()
    period, length = shortest_cycle(items)
    if not period:
        return Finding("cycle", "ok", "no short cycle")
    return Finding("cycle", "flag", f"{length} of {len(items)} tokens are a cycle of {period}")


def _empty(answer: Answer, want: int, prompt: str) -> Finding:
    del want, prompt
    if answer.text.strip():
        return Finding("empty", "ok", "has tokens or text")
    if not answer.ids:
        return Finding("empty", "void", "no token and no text")
    return Finding("empty", "flag", f"{len(answer.ids)} tokens, none of them to be seen")


def _length(answer: Answer, want: int, prompt: str) -> Finding:
    del prompt
    if answer.ids is None:
        return Finding("truncated", "ok", "no ids: length not checked")
    got, seen = len(answer.ids), f"{len(answer.ids)} of {want} tokens, finish {answer.finish or '(not given)'!r}"
    if got < want and answer.finish in ENDED:
        return Finding("early_end", "flag", seen)
    return Finding("truncated", "ok" if got == want else "void", seen)


def _replacement(answer: Answer, want: int, prompt: str) -> Finding:
    del want, prompt
    whole = answer.text  # the token limit may cut its last character in two: that one is no fault
    for _ in range(MOST_CUT):
        whole = whole.removesuffix(REPLACEMENT)
    count = whole.count(REPLACEMENT)
    state: Literal["ok", "flag", "void"] = "ok" if not count else "flag"
    if count > BROKEN_SHARE * len(whole) or (answer.text and not whole):
        state = "void"
    return Finding("replacement", state, f"{count} replacement characters in {len(answer.text)}")


def _echo(answer: Answer, want: int, prompt: str) -> Finding:
    del want
    text, asked = (" ".join(words.split()) for words in (answer.text, prompt))  # a tokenizer may change blanks
    common = min(len(text), len(asked))
    echoed = common >= ECHO_CHARACTERS and text[:common] == asked[:common]
    return Finding("echo", "void" if echoed else "ok", "begins with the prompt" if echoed else "is not the prompt")


DETECTORS: tuple[Callable[[Answer, int, str], Finding], ...] = (
    _empty,
    _constant_run,
    _cycle,
    _length,
    _replacement,
    _echo,
)


def detect(answer: Answer, *, want: int, prompt: str) -> tuple[Finding, ...]:
    """Return what every detector says of one answer.

    Parameters
    ----------
    answer : Answer
        An answer that did not fail.
    want : int
        Tokens asked for.
    prompt : str
        The prompt's text, for the echo.
    """
    return tuple(detector(answer, want, prompt) for detector in DETECTORS)

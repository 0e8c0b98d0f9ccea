"""The pretended model of the fake engine: tokens that follow from the prompt, slots with a prefix cache, a speed."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field

__all__ = ["BOS", "Batch", "Slot", "Slots", "Speed", "answer_seed", "detokenize", "next_token", "tokenize"]

BOS = 2
_FIRST_CHAR = 10  # ids from here are characters: every text has ids, and the way back is exact
_WORDS = ("red", "blue", "tall", "warm", "cold", "tree", "lamp", "door", "ship", "bird", "rain", "hill", "road", "bell")
_FIRST_WORD = 2_000_000  # ids from here are words: what the model says
_WORD_COUNT = 512


def tokenize(text: str) -> list[int]:
    """Return one id per character, begin token first."""
    return [BOS] + [ord(char) + _FIRST_CHAR for char in text]


def detokenize(ids: list[int]) -> str:
    """Return the text of ids; ids that are no character or word have none."""
    return "".join(map(_text, ids))


def _text(token: int) -> str:
    if token >= _FIRST_WORD:
        number = token - _FIRST_WORD
        return f" {_WORDS[number % len(_WORDS)]}{number}"
    point = token - _FIRST_CHAR
    is_char = 0 <= point < 0x110000 and not 0xD800 <= point < 0xE000  # noqa: PLR2004 - Unicode's own limits
    return chr(point) if is_char else ""


def answer_seed(prompt: list[int], salt: str) -> bytes:
    """Return what an answer follows from: equal prompts and salts give equal answers."""
    return hashlib.blake2b(f"{salt}/{prompt}".encode(), digest_size=16).digest()


def next_token(seed: bytes, position: int) -> int:
    """Return the token at *position* of the answer with this seed."""
    digest = hashlib.blake2b(position.to_bytes(4, "big"), digest_size=4, key=seed).digest()
    return _FIRST_WORD + int.from_bytes(digest, "big") % _WORD_COUNT


@dataclass(frozen=True, slots=True)
class Speed:
    """Rates in tokens per second. *contention* slows each stream by that part per stream beside it.

    *start_sd* is the standard deviation of the log of one factor drawn per start, as real starts differ.
    """

    prefill: float
    decode: float
    contention: float = 0.3
    start_sd: float = 0.0

    def drawn(self) -> Speed:
        """Return this start's speed."""
        factor = random.lognormvariate(0.0, self.start_sd) if self.start_sd else 1.0
        return Speed(self.prefill * factor, self.decode * factor, self.contention)


@dataclass(slots=True)
class Slot:
    """One sequence: what it has in its cache, and whether a request holds it."""

    number: int
    cached: list[int] = field(default_factory=list)
    busy: bool = False

    def common(self, prompt: list[int]) -> int:
        """Return how many leading tokens of *prompt* it could reuse: never all, the last one is always computed."""
        same = 0
        for ours, theirs in zip(self.cached, prompt, strict=False):
            if ours != theirs:
                break
            same += 1
        return min(same, len(prompt) - 1)


class Slots:
    """The slots of a server; a request waits until one is free."""

    def __init__(self, count: int) -> None:
        self._free = threading.Condition()
        self.all = [Slot(number) for number in range(count)]

    def take(self, prompt: list[int], wanted: int | None) -> Slot:
        """Return the wanted slot, or the free one with the longest common prefix, waiting for it."""
        with self._free:
            while True:
                free = [slot for slot in self.all if not slot.busy and wanted in (None, -1, slot.number)]
                if free:
                    slot = max(free, key=lambda one: one.common(prompt))
                    slot.busy = True
                    return slot
                self._free.wait()

    def release(self, slot: Slot) -> None:
        """Give a slot back."""
        with self._free:
            slot.busy = False
            self._free.notify_all()

    @property
    def busy(self) -> int:
        """Return how many are held."""
        return sum(slot.busy for slot in self.all)


class Batch:
    """Paces tokens: sleeps so that a stream of this many neighbours comes out at its speed."""

    def __init__(self, speed: Speed, slots: Slots) -> None:
        self._speed = speed
        self._slots = slots

    def prefill(self, tokens: int) -> None:
        """Take the time of *tokens* prompt tokens."""
        time.sleep(tokens / self._speed.prefill)

    def token(self, due: float) -> float:
        """Sleep until the next token after *due* and return when it was due: errors do not add up."""
        beside = max(0, self._slots.busy - 1)
        due += (1 + beside * self._speed.contention) / self._speed.decode
        time.sleep(max(0.0, due - time.perf_counter()))
        return due

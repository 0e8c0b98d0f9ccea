"""Which word follows which: one long cycle through plain words, so that every answer is certain and readable.

Plain random weights are chaotic: engines part after a few tokens, for rounding decides. Here the residual stream keeps
the embedding of the last token, and the output row of each word *is* the embedding of the word before it. Every other
token (ends, halves of characters, digits) is embedded as one of the words, and nothing leads to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lqw.errors import ParamsError
from lqw.synth.blocks import ZERO
from lqw.synth.vocab import NORMAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lqw.synth.recipe import Recipe

__all__ = ["Words", "unpacked", "words_of"]

PLAIN = re.compile(rb"\xc4\xa0[a-z]{3,12}")  # the tokenizer's sign for a space, then a lower-case word
FEWEST, MOST = 1000, 32_768  # most bounds the memory of the table: 84 MB at the largest shape

_PAIRS = np.stack((np.arange(256) & 15, np.arange(256) >> 4), axis=1).astype(np.uint8)
_PAIRS[_PAIRS == 0] = ZERO  # codes are 1…15: symmetric about zero


def unpacked(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return two codes (1…15) for each random byte, shape (rows, 2·bytes)."""
    return _PAIRS[raw].reshape(len(raw), -1)


@dataclass(frozen=True)
class Words:
    """The cycle and its vectors.

    Attributes
    ----------
    acts_as : int32 array, shape (rows of the embedding,)
        For each token the place in the cycle whose vector embeds it.
    led_from : int32 array, same shape
        For each token the place that leads to it; −1 where nothing does.
    packed : uint8 array, shape (places, embedding / 2)
        The vector of each place, two codes a byte.
    """

    acts_as: NDArray[np.int32]
    led_from: NDArray[np.int32]
    packed: NDArray[np.uint8]


def words_of(recipe: Recipe) -> Words:
    """Return the cycle of *recipe*; ParamsError where its vocabulary has too few plain words."""
    vocabulary, rows = recipe.vocabulary, recipe.rows
    pairs = zip(vocabulary.tokens, vocabulary.types, strict=True)
    plain = [i for i, (token, kind) in enumerate(pairs) if kind == NORMAL and PLAIN.fullmatch(token)]
    if len(plain) < FEWEST:
        raise ParamsError(
            file="lqw synth",
            field="--vocab",
            value=vocabulary.source,
            problem=f"{len(plain)} plain lower-case words, at least {FEWEST} are needed",
            remedy="use Qwen3.5's vocabulary",
        )
    order = np.argsort(recipe.stream("cycle").words(0, len(plain)), kind="stable")
    cycle = np.asarray(plain, dtype=np.int32)[order][:MOST]
    places = len(cycle)
    acts_as = (recipe.stream("acts-as").words(0, rows) % np.uint64(places)).astype(np.int32)
    acts_as[cycle] = np.arange(places, dtype=np.int32)
    led_from = np.full(rows, -1, dtype=np.int32)
    led_from[cycle] = np.roll(np.arange(places, dtype=np.int32), 1)
    half = recipe.shape.embedding // 2
    packed = recipe.stream("vectors").bytes(0, places * half).reshape(places, half)
    return Words(acts_as, led_from, packed)

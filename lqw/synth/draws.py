"""Random bytes that are the same on every machine and for every numpy: SplitMix64 as a counter-based generator.

Word ``i`` of a stream is ``mix(key + (i + 1)·γ)`` in 64-bit integers (Steele, Lea and Flood, OOPSLA 2014), so any part
of a stream is drawn without the parts before it. Only integer arithmetic is used; weights become floats by one exact
or correctly rounded step.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Stream"]

_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLY_1, _MULTIPLY_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_MASK = (1 << 64) - 1
_PIECE = 1 << 14  # words worked on at once: stays in the cache
_RAMP = np.arange(1, _PIECE + 1, dtype=np.uint64) * np.uint64(_GAMMA)


class Stream:
    """The random words of one purpose, e.g. one tensor, keyed by seed and name.

    Parameters
    ----------
    seed : int
        The recipe's seed.
    name : str
        What the stream is for. Streams of different names are unrelated.
    """

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"lqw-synth/1\n{seed}\n{name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "little")

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return words ``start`` to ``start + count``, uniform over 64 bits, shape ``(count,)``."""
        out = np.empty(count, dtype=np.uint64)
        scratch = np.empty(min(count, _PIECE), dtype=np.uint64)
        for offset in range(0, count, _PIECE):
            piece = out[offset : offset + _PIECE]
            self._draw(piece, scratch[: len(piece)], start + offset)
        return out

    def _draw(self, piece: NDArray[np.uint64], scratch: NDArray[np.uint64], first: int) -> None:
        np.add(_RAMP[: len(piece)], np.uint64((self._key + first * _GAMMA) & _MASK), out=piece)
        for shift, multiplier in zip(_SHIFTS, (_MULTIPLY_1, _MULTIPLY_2, None), strict=True):
            np.right_shift(piece, shift, out=scratch)
            np.bitwise_xor(piece, scratch, out=piece)
            if multiplier is not None:
                np.multiply(piece, multiplier, out=piece)

    def bytes(self, start_word: int, count: int) -> NDArray[np.uint8]:
        """Return *count* random bytes from word *start_word* on, shape ``(count,)``, little end first everywhere."""
        words = self.words(start_word, -(-count // 8))
        return words.astype("<u8", copy=False).view(np.uint8)[:count]

"""The data of every tensor, in parts of about a million numbers, each drawn without the others.

Scales: matrices that read the residual stream keep its root mean square of one; those that write to it add κ in all,
1/√(2·layers) each, of what their input (a gate times a value, root mean square 0.6) gives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lqw.synth.blocks import CODE_RMS, encode, noise
from lqw.synth.mixes import Format
from lqw.synth.shapes import Kind, TensorShape
from lqw.synth.words import Words, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lqw.synth.recipe import Recipe

__all__ = ["Part", "data_of", "parts_of"]

PART = 1 << 20  # numbers in a part: a part of this format's bytes, not a tuning knob
GATED_RMS = 0.6  # of silu(g)·u, g and u standard normal: 0.596
PEAK_LOGIT = 24.0  # of the next word where κ is small; the spread of all others is 24/√embedding
WEAK = 0.1  # rows nothing leads to, relative to those of the cycle
GATES_SIGMA = 0.5


@dataclass(frozen=True, slots=True)
class Part:
    """Some whole rows (embedding, output) or blocks (all others) of one tensor: ``first`` and how many."""

    tensor: TensorShape
    fmt: Format
    index: int
    first: int
    count: int


def parts_of(tensor: TensorShape, fmt: Format) -> Iterator[Part]:
    """Yield the parts of a tensor in order."""
    by_row = tensor.kind in (Kind.EMBEDDING, Kind.OUTPUT)
    units = tensor.rows if by_row else tensor.elements // fmt.block
    step = _part_rows(tensor) if by_row else PART // fmt.block
    for index, first in enumerate(range(0, units, step)):
        yield Part(tensor, fmt, index, first, min(step, units - first))


def _part_rows(tensor: TensorShape) -> int:
    return max(PART // tensor.cols, 1)


def data_of(part: Part, recipe: Recipe, words: Words) -> memoryview:
    """Return the bytes of *part*."""
    kind = part.tensor.kind
    data: NDArray[Any]
    if kind is Kind.EMBEDDING:
        data = _embedding(part, words)
    elif kind is Kind.OUTPUT:
        data = _output(part, recipe, words)
    elif part.fmt is Format.F32:
        data = _float32(part, recipe)
    else:
        data = _noise(part, recipe)
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


def _embedding(part: Part, words: Words) -> NDArray[np.uint8]:
    places = words.acts_as[part.first : part.first + part.count]
    steps = np.full(part.count, 1 / CODE_RMS)
    return encode(unpacked(words.packed[places]), part.fmt, steps)


def _output(part: Part, recipe: Recipe, words: Words) -> NDArray[np.uint8]:
    cols = part.tensor.cols
    places = words.led_from[part.first : part.first + part.count]
    words_a_part = _part_rows(part.tensor) * cols // 16
    drawn = recipe.stream(part.tensor.name).bytes(part.index * words_a_part, part.count * cols // 2)
    packed = drawn.reshape(part.count, -1)
    led = places >= 0
    packed[led] = words.packed[places[led]]
    step = PEAK_LOGIT / (cols * CODE_RMS)
    return encode(unpacked(packed), part.fmt, np.where(led, step, step * WEAK))


def _noise(part: Part, recipe: Recipe) -> NDArray[np.uint8]:
    width = 1 if part.fmt is Format.F16 else part.fmt.block_bytes  # a byte picks one of 256 half-precision numbers
    words_a_part = -(-PART // part.fmt.block * width // 8)
    raw = recipe.stream(part.tensor.name).bytes(part.index * words_a_part, part.count * width)
    if part.fmt is not Format.F16:
        raw = raw.reshape(part.count, width)
    return noise(raw, part.fmt, _sigma(part.tensor, recipe))


def _sigma(tensor: TensorShape, recipe: Recipe) -> float:
    sigma = 1 / math.sqrt(tensor.cols)
    if tensor.kind in (Kind.DOWN, Kind.FFN_DOWN):
        return sigma * recipe.kappa / (GATED_RMS * math.sqrt(2 * recipe.shape.layers))
    return sigma * GATES_SIGMA if tensor.kind is Kind.GATES else sigma


def _float32(part: Part, recipe: Recipe) -> NDArray[np.float32]:
    """Return small tensors as whole numbers times a power of two: exact in float32, whatever computes them."""
    kind, count = part.tensor.kind, part.count
    if kind is Kind.NORM:
        return np.ones(count, dtype="<f4")
    drawn = recipe.stream(part.tensor.name).bytes(part.index * PART // 2, 4 * count).reshape(count, 4)
    numbers: NDArray[np.float32]
    if kind is Kind.DECAY:
        numbers = ((drawn[:, 0].astype(np.float32) + 1) / -64).astype("<f4")  # −4 … −1/64
        return numbers
    bell = drawn.sum(axis=1, dtype=np.int32).astype(np.float32) - 510  # of four bytes: σ 147.8
    numbers = (bell / 512 if kind is Kind.CONV else bell / 128 - 4).astype("<f4")
    return numbers

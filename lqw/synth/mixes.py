"""Quantisation: the block formats of GGUF, and which tensor gets which in a mix.

The rules are those of llama.cpp's own quantiser without an importance matrix: the output matrix has 6 bits or more;
in the ``_m`` mixes values and down-projections get 6 bits in the first and last eighth of the layers and in every third
between them; a tied embedding counts as output; vectors, norms and convolutions stay float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lqw.synth.shapes import Kind, Shape, TensorShape

__all__ = ["MIXES", "Format", "Mix", "format_of", "tensor_bytes"]


class Format(Enum):
    """A block format: GGUF's type number, numbers in a block, bytes of a block."""

    F32 = (0, 1, 4)
    F16 = (1, 1, 2)
    Q4_0 = (2, 32, 18)
    Q8_0 = (8, 32, 34)
    Q4_K = (12, 256, 144)
    Q5_K = (13, 256, 176)
    Q6_K = (14, 256, 210)

    @property
    def type_id(self) -> int:
        """Return ggml's type number."""
        return self.value[0]

    @property
    def block(self) -> int:
        """Return how many numbers a block holds."""
        return self.value[1]

    @property
    def block_bytes(self) -> int:
        """Return how many bytes a block takes."""
        return self.value[2]


@dataclass(frozen=True, slots=True)
class Mix:
    """A named mix: GGUF's ``general.file_type``, the common format, that of the output, and where more bits go."""

    file_type: int
    base: Format
    output: Format
    more: Format | None = None  # values and down-projections of chosen layers
    early_only: bool = False  # the layers are the first ones, as in the _s mix


MIXES: dict[str, Mix] = {
    "q4_k_m": Mix(15, Format.Q4_K, Format.Q6_K, Format.Q6_K),
    "q4_k_s": Mix(14, Format.Q4_K, Format.Q6_K, Format.Q5_K, early_only=True),
    "q5_k_m": Mix(17, Format.Q5_K, Format.Q6_K, Format.Q6_K),
    "q5_k_s": Mix(16, Format.Q5_K, Format.Q6_K),
    "q6_k": Mix(18, Format.Q6_K, Format.Q6_K),
    "q4_0": Mix(2, Format.Q4_0, Format.Q6_K),
    "q8_0": Mix(7, Format.Q8_0, Format.Q8_0),
    "f16": Mix(1, Format.F16, Format.F16),
}

_ALWAYS_F32 = frozenset({Kind.NORM, Kind.CONV, Kind.DT_BIAS, Kind.DECAY})
EARLY_VALUES = 4  # the _s mix gives the first four value matrices more bits


def format_of(tensor: TensorShape, shape: Shape, mix: Mix) -> Format:
    """Return the format of *tensor* in *mix*."""
    if tensor.kind in _ALWAYS_F32:
        return Format.F32
    if tensor.kind is Kind.OUTPUT or (tensor.kind is Kind.EMBEDDING and shape.tied):
        return mix.output
    if mix.more is not None and _gets_more(tensor, shape, mix):
        return mix.more
    return mix.base


def _gets_more(tensor: TensorShape, shape: Shape, mix: Mix) -> bool:
    layer, layers = tensor.layer, shape.layers
    if tensor.kind not in (Kind.VALUE, Kind.FFN_DOWN):
        return False
    if mix.early_only:
        return layer < (EARLY_VALUES if tensor.kind is Kind.VALUE else layers // 8)
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2  # noqa: PLR2004 - upstream's rule


def tensor_bytes(tensor: TensorShape, fmt: Format) -> int:
    """Return the size of *tensor* in *fmt*, bytes. Rows of every shape here are whole blocks."""
    if tensor.cols % fmt.block:
        raise ValueError(f"{tensor.name}: rows of {tensor.cols} do not fill blocks of {fmt.block}")
    return tensor.elements // fmt.block * fmt.block_bytes

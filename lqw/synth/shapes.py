"""Qwen3.5's tensor shapes: what is in the file, by name, and what each tensor is for.

Every fourth layer is full attention with a gated query; the others are gated delta nets. Sizes are those of the
published text models; ``tiny`` is the same architecture cut down for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["SHAPES", "Kind", "Shape", "TensorShape", "tensor_shapes"]

CONV_KERNEL = 4
ATTENTION_INTERVAL = 4
FULL_VOCABULARY = 248_320


class Kind(StrEnum):
    """What a tensor does: decides its quantisation in a mix and the scale of its random weights."""

    EMBEDDING = "embedding"
    OUTPUT = "output"
    NORM = "norm"
    READ = "read"  # reads the residual stream
    VALUE = "value"  # the same, for attention's values: gets more bits in a mix
    GATES = "gates"  # decay and write strength of the delta net
    DOWN = "down"  # writes to the residual stream
    FFN_DOWN = "ffn_down"  # the same; gets more bits in a mix
    CONV = "conv"
    DT_BIAS = "dt_bias"
    DECAY = "decay"


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one model.

    ``vocabulary`` is the number of rows of the embedding (0: as many as the tokenizer has); ``tied`` says that the real
    model has no output matrix of its own, which decides how the real embedding is quantised.
    """

    name: str
    embedding: int
    layers: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    value_heads: int
    key_heads: int
    state: int
    vocabulary: int = FULL_VOCABULARY
    tied: bool = False

    @property
    def rope_sections(self) -> tuple[int, int, int, int]:
        """Return the interleaved M-RoPE sections of half the rotated dimensions, e.g. (11, 11, 10, 0) of 32."""
        half = self.rotated // 2
        third = -(-half // 3)
        return third, third, half - 2 * third, 0

    @property
    def rotated(self) -> int:
        """Return the rotated dimensions per head: a quarter. Engines take it from two places, which must agree."""
        return self.head_dim // 4


SHAPES: dict[str, Shape] = {
    f"qwen3.5-{shape.name}": shape
    for shape in (
        Shape("tiny", 256, 4, 512, 4, 2, 64, 4, 4, 64, vocabulary=0),
        Shape("0.8b", 1024, 24, 3584, 8, 2, 256, 16, 16, 128, tied=True),
        Shape("2b", 2048, 24, 6144, 8, 2, 256, 16, 16, 128, tied=True),
        Shape("4b", 2560, 32, 9216, 16, 4, 256, 32, 16, 128, tied=True),
        Shape("9b", 4096, 32, 12288, 16, 4, 256, 32, 16, 128),
        Shape("27b", 5120, 64, 17408, 24, 4, 256, 48, 16, 128),
    )
}


@dataclass(frozen=True, slots=True)
class TensorShape:
    """One tensor: ``rows`` × ``cols``, rows first as in C; ``rows`` 0 means one dimension of ``cols``."""

    name: str
    kind: Kind
    rows: int
    cols: int
    layer: int = -1

    @property
    def elements(self) -> int:
        """Return how many numbers the tensor holds."""
        return max(self.rows, 1) * self.cols


def tensor_shapes(shape: Shape, vocabulary: int) -> list[TensorShape]:
    """Return every tensor of *shape* with *vocabulary* rows of embedding, in the order of the file."""
    out = [TensorShape("token_embd.weight", Kind.EMBEDDING, vocabulary, shape.embedding)]
    for layer in range(shape.layers):
        full = (layer + 1) % ATTENTION_INTERVAL == 0
        parts = _attention(shape) if full else _delta_net(shape)
        parts = [("attn_norm.weight", Kind.NORM, 0, shape.embedding), *parts, *_ffn(shape)]
        out += [TensorShape(f"blk.{layer}.{name}", kind, rows, cols, layer) for name, kind, rows, cols in parts]
    out.append(TensorShape("output_norm.weight", Kind.NORM, 0, shape.embedding))
    out.append(TensorShape("output.weight", Kind.OUTPUT, vocabulary, shape.embedding))
    return out


def _attention(shape: Shape) -> list[tuple[str, Kind, int, int]]:
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return [
        ("attn_q.weight", Kind.READ, 2 * wide, shape.embedding),  # query and its output gate
        ("attn_k.weight", Kind.READ, narrow, shape.embedding),
        ("attn_v.weight", Kind.VALUE, narrow, shape.embedding),
        ("attn_q_norm.weight", Kind.NORM, 0, shape.head_dim),
        ("attn_k_norm.weight", Kind.NORM, 0, shape.head_dim),
        ("attn_output.weight", Kind.DOWN, shape.embedding, wide),
    ]


def _delta_net(shape: Shape) -> list[tuple[str, Kind, int, int]]:
    keys, values = shape.key_heads * shape.state, shape.value_heads * shape.state
    return [
        ("attn_qkv.weight", Kind.VALUE, 2 * keys + values, shape.embedding),
        ("attn_gate.weight", Kind.READ, values, shape.embedding),
        ("ssm_conv1d.weight", Kind.CONV, 2 * keys + values, CONV_KERNEL),
        ("ssm_dt.bias", Kind.DT_BIAS, 0, shape.value_heads),
        ("ssm_a", Kind.DECAY, 0, shape.value_heads),
        ("ssm_beta.weight", Kind.GATES, shape.value_heads, shape.embedding),
        ("ssm_alpha.weight", Kind.GATES, shape.value_heads, shape.embedding),
        ("ssm_norm.weight", Kind.NORM, 0, shape.state),
        ("ssm_out.weight", Kind.DOWN, shape.embedding, values),
    ]


def _ffn(shape: Shape) -> list[tuple[str, Kind, int, int]]:
    return [
        ("post_attention_norm.weight", Kind.NORM, 0, shape.embedding),
        ("ffn_gate.weight", Kind.READ, shape.ffn, shape.embedding),
        ("ffn_up.weight", Kind.READ, shape.ffn, shape.embedding),
        ("ffn_down.weight", Kind.FFN_DOWN, shape.embedding, shape.ffn),
    ]

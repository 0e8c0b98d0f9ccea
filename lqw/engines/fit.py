"""Whether an engine can fit, by arithmetic, before it is started: weights + KV + state + compute.

The sum is a lower bound made of parts that are certain: what does not fit by it cannot be served, what does may still
fail. A GGUF whose header does not tell the sizes is not refused here; its start tells.

Sizes follow the GGUF header (``ARCH.attention.*``, ``ARCH.ssm.*``): a hybrid keeps keys and values of every
``full_attention_interval``-th layer, two bytes a number, and of each other layer a recurrent state and a convolution
window in f32, per slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lqw.errors import UsageError
from lqw.host.gpu import open_gpu
from lqw.host.memory import available_bytes
from lqw.outcomes import Reason
from lqw.samples import Failure, ModelWork
from lqw.synth.gguf import BadGguf, read_header

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.engines.base import Compute, Engine, StartRequest

__all__ = ["Need", "Sizes", "does_not_fit", "need_of", "room", "sizes_of", "work_of"]

_F16, _F32 = 2, 4
_TABLE, _OUTPUT = "token_embd.weight", "output.weight"
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a GGUF's header says of memory, bytes.

    Attributes
    ----------
    file : int
        Of the file: the weights.
    kv_per_token : int
        Keys and values of one token in all attention layers, f16.
    window : int
        Tokens an attention layer looks back at most; 0: all of them.
    state_per_slot : int
        Recurrent states and convolution windows, f32.
    row : int
        One token's widest activations: logits in f32.
    matrices : int
        Numbers in the matrices of the layers (no embedding, no output).
    idle : int
        Of the file, what no token reads whole: header, vocabulary, a table of embeddings that is no output matrix too.
    output : int
        Numbers in the output matrix.
    dense : bool
        Whether every token goes through every layer's matrices: no experts.
    """

    file: int
    kv_per_token: int
    window: int
    state_per_slot: int
    row: int
    matrices: int
    idle: int = 0
    output: int = 0
    dense: bool = True

    def kv(self, tokens: int) -> int:
        """Return the bytes of a cache of *tokens*; where layers look back a window, no more than it is certain."""
        return self.kv_per_token * (min(tokens, self.window) if self.window else tokens)


@dataclass(frozen=True, slots=True)
class Need:
    """What a start needs at least, bytes."""

    weights: int
    kv: int
    state: int
    compute: int

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.weights + self.kv + self.state + self.compute

    def __str__(self) -> str:
        """Return the arithmetic in GiB."""
        parts = (("weights", self.weights), ("KV", self.kv), ("state", self.state), ("compute", self.compute))
        return f"{' + '.join(f'{name} {size / _GIB:.2f}' for name, size in parts)} = {self.total / _GIB:.2f} GiB"


def sizes_of(path: Path) -> Sizes | None:
    """Return what the header of *path* says; None where it is no GGUF or does not tell."""
    stat = path.stat()
    return _sizes(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _sizes(path: Path, size: int, _mtime_ns: int) -> Sizes | None:
    try:
        with path.open("rb") as handle:
            fields, tensors, offsets = read_header(handle)
            begins = handle.tell()
        told = {key.partition(".")[2]: value for key, value in fields.items() if key.startswith(_architecture(fields))}
        heads, layers = int(told["attention.head_count_kv"]), int(told["block_count"])
        width = int(told["embedding_length"]) // int(told["attention.head_count"])
        wide = int(told.get("attention.key_length", width)) + int(told.get("attention.value_length", width))
        attention = layers // int(told.get("full_attention_interval", 1))
    except (BadGguf, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    matrices = sum(dims[0] * dims[1] for name, dims in tensors.items() if name.startswith("blk.") and len(dims) == 2)  # noqa: PLR2004
    experts = any(name.startswith("blk.") and len(dims) > 2 for name, dims in tensors.items())  # noqa: PLR2004
    rows = max((dims[-1] for name, dims in tensors.items() if name == "token_embd.weight"), default=0)
    return Sizes(
        file=size,
        kv_per_token=attention * heads * wide * _F16,
        window=int(told.get("attention.sliding_window", 0)),
        state_per_slot=(layers - attention) * _state(told) * _F32,
        row=rows * _F32,
        matrices=matrices,
        idle=begins + (_extent(_TABLE, offsets, size - begins) if _OUTPUT in tensors else 0),
        output=math.prod(tensors.get(_OUTPUT, tensors.get(_TABLE, (0,)))),
        dense=not experts,
    )


def _extent(name: str, offsets: dict[str, int], end: int) -> int:
    """Return the bytes of a tensor: up to where the next one begins."""
    begin = offsets.get(name, end)
    return min((one for one in offsets.values() if one > begin), default=end) - begin


def work_of(path: Path) -> ModelWork | None:
    """Return what one pass over the model reads and computes at least; None where the header does not tell."""
    sizes = sizes_of(path)
    if sizes is None or not sizes.dense or sizes.matrices <= 0:
        return None
    return ModelWork(
        weight_bytes=sizes.file - sizes.idle,
        layer_weights=sizes.matrices,
        output_weights=sizes.output,
        kv_bytes_per_token=sizes.kv_per_token,
        kv_window=sizes.window,
        state_bytes=sizes.state_per_slot,
    )


def _architecture(fields: dict[str, Any]) -> str:
    return bytes(fields["general.architecture"]).decode() + "."


def _state(told: dict[str, Any]) -> int:
    """Return the numbers of one recurrent layer's state: inner × state, and the window of query, key and value."""
    inner, size = int(told.get("ssm.inner_size", 0)), int(told.get("ssm.state_size", 0))
    channels = inner + 2 * int(told.get("ssm.group_count", 0)) * size
    return inner * size + max(0, int(told.get("ssm.conv_kernel", 1)) - 1) * channels


def room(compute: Compute) -> tuple[int, str]:
    """Return the bytes an engine may take, and of what: unified memory counts where the GPU tells no total."""
    if compute == "cpu":
        return available_bytes(), "memory available"
    gpu = open_gpu()
    total, used = gpu.facts()["vram_mib"], gpu.used_bytes()
    if isinstance(total, int) and used is not None:
        return total * 2**20 - used, "GPU memory free"
    return available_bytes(), "unified memory available"


def need_of(engine: Engine, request: StartRequest) -> Need | None:
    """Return what *engine* needs at least for this start; None where the file does not tell."""
    sizes = sizes_of(request.model_path)
    return None if sizes is None else engine.need(sizes, request)


def does_not_fit(engine: Engine, request: StartRequest) -> Failure | None:
    """Return DOES_NOT_FIT with the arithmetic where the start cannot succeed, or None."""
    try:
        (free, of), need = room(request.compute), need_of(engine, request)
    except (OSError, UsageError):
        return None  # no file or no GPU: the start itself says so, with the log
    if need is None or need.total <= free:
        return None
    detail = f"{engine.name} at {request.slots} x {request.context_tokens_per_slot} tokens: {need}"
    return Failure(reason=Reason.DOES_NOT_FIT, detail=f"{detail}; {free / _GIB:.2f} GiB of {of}")

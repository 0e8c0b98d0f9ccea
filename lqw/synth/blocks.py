"""Quantised blocks: random ones of a wanted standard deviation, and exact ones of small whole numbers.

Layouts are ggml's. Two ways to fill them:

* :func:`noise`: every bit random but the scales, zero mean, standard deviation σ. For weight matrices.
* :func:`encode`: whole numbers −7…7 times one step, *exactly the same values in every quantised format*. For the
  embedding and the output matrix, whose rows must match although a mix stores them in different formats.

Scale bytes are shaped so that no block leans to one side: a common offset would add the same number to every output of
a matrix, which a residual stream does not forget.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lqw.synth.mixes import Format

__all__ = ["CODE_RMS", "encode", "noise"]

Bytes = NDArray[np.uint8]

ZERO = 8  # a code c stands for the number c − 8
CODE_RMS = math.sqrt(280 / 16)  # codes 1…15, with 8 (zero) drawn twice as often

# root mean square of the random number inside a block, before its step d (see noise)
_RMS = {
    Format.Q4_K: math.sqrt(21.25 * 1333.5),  # (q − 7.5)·scale; q of 4 bits, scale of 6
    Format.Q5_K: math.sqrt(85.25 * 1333.5),  # (q − 15.5)·scale
    Format.Q6_K: math.sqrt(341.5 * 21.5),  # (q − 32)·scale; q of 6 bits, scale −8…7
    Format.Q8_0: math.sqrt(5461.5),
    Format.Q4_0: math.sqrt(21.5),
    Format.F16: math.sqrt(5461.25),  # (b − 127.5); b of 8 bits
}


def _half(value: float) -> Bytes:
    return np.array([value], dtype="<f2").view(np.uint8)


def noise(raw: Bytes, fmt: Format, sigma: float) -> Bytes:
    """Return blocks of zero mean and standard deviation *sigma*, made of random bytes.

    Parameters
    ----------
    raw : uint8 array, shape (blocks, bytes of a block)
        Random bytes; for F16, shape (numbers,). Overwritten for the block formats.
    fmt : Format
        Any format but F32.
    sigma : float
        The standard deviation wanted; reached within the rounding of a half-precision step.
    """
    step = sigma / _RMS[fmt]
    if fmt is Format.F16:
        table = ((np.arange(256) - 127.5) * step).astype("<f2")
        return table[raw].view(np.uint8)
    if fmt in (Format.Q4_K, Format.Q5_K):
        _step_and_minimum(raw, step, 7.5 if fmt is Format.Q4_K else 15.5)
        _mirror_scales(raw)
    elif fmt is Format.Q6_K:
        raw[:, 192:208] = ((raw[:, 192:208] & 15) - np.uint8(8)).astype(np.uint8)
        raw[:, 208:210] = _half(step)
    else:
        low, high = _half(step)
        raw[:, 0] = low
        raw[:, 1] = (raw[:, 1] & 0x80) | high  # a random sign: the codes' mean of −½ cancels between blocks
    return raw


def _step_and_minimum(blocks: Bytes, step: float, zero: float) -> None:
    half = _half(step)
    blocks[:, 0:2] = half
    blocks[:, 2:4] = _half(float(half.view("<f2")[0]) * zero)


def _mirror_scales(blocks: Bytes) -> None:
    """Set a K-block's eight 6-bit minima (in bytes 4–15) equal to its scales, so that each sub-block is centred."""
    blocks[:, 8:12] = blocks[:, 4:8]
    nibble = blocks[:, 12:16] & 15
    blocks[:, 12:16] = nibble | (nibble << 4)


def encode(codes: Bytes, fmt: Format, steps: NDArray[np.float64]) -> Bytes:
    """Return rows of ``(code − 8)·step`` in *fmt*, bytes of shape (rows, bytes of a row).

    Parameters
    ----------
    codes : uint8 array, shape (rows, cols)
        Values 0…15; 8 is zero. ``cols`` fills whole blocks.
    fmt : Format
        Any format but F32.
    steps : float array, shape (rows,)
        One step a row; rounded to half precision alike in every format.
    """
    rows = len(codes)
    half = steps.astype("<f2")
    if fmt is Format.F16:
        numbers = codes.astype(np.float32) - ZERO
        return (numbers * half.astype(np.float32)[:, None]).astype("<f2").view(np.uint8).reshape(rows, -1)
    blocks = codes.reshape(rows, -1, fmt.block)
    out = np.empty((rows, blocks.shape[1], fmt.block_bytes), dtype=np.uint8)
    _PACK[fmt](out, blocks, half.view(np.uint8).reshape(rows, 1, 2))
    return out.reshape(rows, -1)


def _pack_q4_0(out: Bytes, codes: Bytes, half: Bytes) -> None:
    out[..., 0:2] = half
    out[..., 2:] = codes[..., :16] | (codes[..., 16:] << 4)


def _pack_q8_0(out: Bytes, codes: Bytes, half: Bytes) -> None:
    out[..., 0:2] = half
    out[..., 2:] = codes - np.uint8(ZERO)  # two's complement


def _k_header(out: Bytes, half: Bytes, zero: int) -> None:
    out[..., 0:2] = half
    minimum = half.view("<f2").astype(np.float32) * zero  # a power of two, or exact below it
    out[..., 2:4] = minimum.astype("<f2").view(np.uint8)
    out[..., 4:12] = 1  # scales and minima of sub-blocks 0–3: one
    out[..., 12:16] = 0x11  # and of 4–7


def _pack_q4_k(out: Bytes, codes: Bytes, half: Bytes) -> None:
    _k_header(out, half, ZERO)
    pairs = codes.reshape(*codes.shape[:-1], 4, 2, 32)
    out[..., 16:] = (pairs[..., 0, :] | (pairs[..., 1, :] << 4)).reshape(*codes.shape[:-1], 128)


def _pack_q5_k(out: Bytes, codes: Bytes, half: Bytes) -> None:
    _k_header(out, half, ZERO)  # codes of 5 bits with the fifth unused: the same zero as in 4 bits
    pairs = codes.reshape(*codes.shape[:-1], 4, 2, 32)
    out[..., 16:48] = 0
    out[..., 48:] = (pairs[..., 0, :] | (pairs[..., 1, :] << 4)).reshape(*codes.shape[:-1], 128)


def _pack_q6_k(out: Bytes, codes: Bytes, half: Bytes) -> None:
    six = (codes + np.uint8(32 - ZERO)).reshape(*codes.shape[:-1], 2, 4, 32)
    low, high = six & 15, six >> 4
    first, second = low[..., 0, :] | (low[..., 2, :] << 4), low[..., 1, :] | (low[..., 3, :] << 4)
    out[..., :128] = np.stack((first, second), axis=-2).reshape(*codes.shape[:-1], 128)
    top = high[..., 0, :] | (high[..., 1, :] << 2) | (high[..., 2, :] << 4) | (high[..., 3, :] << 6)
    out[..., 128:192] = top.reshape(*codes.shape[:-1], 64)
    out[..., 192:208] = 1
    out[..., 208:210] = half


_PACK = {
    Format.Q4_0: _pack_q4_0,
    Format.Q8_0: _pack_q8_0,
    Format.Q4_K: _pack_q4_k,
    Format.Q5_K: _pack_q5_k,
    Format.Q6_K: _pack_q6_k,
}

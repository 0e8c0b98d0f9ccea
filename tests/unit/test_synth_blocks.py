"""Blocks read back by a decoder written from ggml's layouts, number by number."""

import numpy as np
import pytest

from lqw.synth.blocks import CODE_RMS, encode, noise
from lqw.synth.draws import Stream
from lqw.synth.mixes import Format

QUANTISED = [Format.Q4_0, Format.Q8_0, Format.Q4_K, Format.Q5_K, Format.Q6_K]


def _half(two):
    return np.frombuffer(bytes(two), "<f2").astype(np.float64)[0]


def _scale_min(packed, j):
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    return (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)


def _k_block(b, high):
    d, dmin, packed = _half(b[0:2]), _half(b[2:4]), [int(x) for x in b[4:16]]
    qh, qs = (b[16:48], b[48:]) if high else (np.zeros(32, np.uint8), b[16:])
    out = []
    for j in range(8):
        scale, minimum = _scale_min(packed, j)
        for i in range(32):
            byte = int(qs[32 * (j // 2) + i])
            q = (byte >> 4 if j % 2 else byte & 15) + 16 * ((int(qh[i]) >> j) & 1)
            out.append(d * scale * q - dmin * minimum)
    return out


def _q6_block(b):
    d, scales, out = _half(b[208:210]), b[192:208].view(np.int8), []
    for n in range(256):
        part, quarter, i = n // 128, n % 128 // 32, n % 32
        low = int(b[64 * part + 32 * (quarter % 2) + i])
        q = (low >> 4 if quarter >= 2 else low & 15) | (((int(b[128 + 32 * part + i]) >> (2 * quarter)) & 3) << 4)
        out.append(d * int(scales[n // 16]) * (q - 32))
    return out


def _block(fmt, b):
    if fmt is Format.Q4_0:
        return [_half(b[0:2]) * (int(x) - 8) for x in [*(b[2:] & 15), *(b[2:] >> 4)]]
    if fmt is Format.Q8_0:
        return [_half(b[0:2]) * int(x) for x in b[2:].view(np.int8)]
    return _q6_block(b) if fmt is Format.Q6_K else _k_block(b, fmt is Format.Q5_K)


def _decoded(fmt, data):
    if fmt is Format.F16:
        return np.ascontiguousarray(data).view("<f2").astype(np.float64).reshape(-1)
    return np.array([x for b in data.reshape(-1, fmt.block_bytes) for x in _block(fmt, b)])


@pytest.mark.parametrize("fmt", [*QUANTISED, Format.F16])
def test_codes_are_the_same_numbers_in_every_format(fmt):
    codes = (Stream(1, "codes").bytes(0, 4 * 512) % 15 + 1).reshape(4, 512)
    steps = np.array([1 / CODE_RMS, 0.001, 2e-5, 1.0])  # 2e-5 lies below half precision's normal numbers
    wanted = (codes.astype(np.float64) - 8) * steps.astype("<f2").astype(np.float64)[:, None]
    if fmt is Format.F16:
        wanted = wanted.astype("<f2")  # the only format that must round the product
    assert np.array_equal(_decoded(fmt, encode(codes, fmt, steps)), wanted.reshape(-1))


@pytest.mark.parametrize("sigma", [0.03, 0.001])
@pytest.mark.parametrize("fmt", QUANTISED)
def test_noise_has_zero_mean_and_the_spread_asked_for(fmt, sigma):
    count = 65_536 // fmt.block
    raw = Stream(2, "noise").bytes(0, count * fmt.block_bytes).reshape(count, fmt.block_bytes)
    numbers = _decoded(fmt, noise(raw, fmt, sigma))
    assert numbers.std() == pytest.approx(sigma, rel=0.05)  # 2,048 random scales: 1 % is one standard error
    assert abs(numbers.mean()) < 0.03 * sigma
    leaning = numbers.reshape(-1, 32).mean(axis=1)  # a sub-block must not be offset as a whole
    assert np.abs(leaning).mean() < 0.25 * sigma


def test_noise_in_half_precision():
    numbers = noise(Stream(3, "f16").bytes(0, 65_536), Format.F16, 0.02).view("<f2").astype(np.float64)
    assert numbers.std() == pytest.approx(0.02, rel=0.01)
    assert abs(numbers.mean()) < 0.0005


@pytest.mark.parametrize("fmt", [Format.Q4_K, Format.Q5_K])
def test_each_minimum_is_its_scale(fmt):
    raw = Stream(4, "scales").bytes(0, 50 * fmt.block_bytes).reshape(50, fmt.block_bytes)
    for block in noise(raw, fmt, 0.01):
        packed = [int(x) for x in block[4:16]]
        assert all(scale == minimum for scale, minimum in (_scale_min(packed, j) for j in range(8)))

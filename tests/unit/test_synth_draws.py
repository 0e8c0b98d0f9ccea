"""SplitMix64: published answers, and any part of a stream equals that part of the whole."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.synth.draws import Stream

MASK = (1 << 64) - 1


def _splitmix(key, index):
    """The published algorithm in Python's integers."""
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_published_answers_for_seed_zero():
    stream = Stream(0, "x")
    stream._key = 0
    assert [hex(w) for w in stream.words(0, 3)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


@settings(derandomize=True, max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), start=st.integers(0, 2**40), count=st.integers(1, 40_000))
def test_any_part_equals_the_reference(seed, start, count):
    stream = Stream(seed, "part")
    words = stream.words(start, count)
    for at in {0, count // 2, count - 1}:
        assert int(words[at]) == _splitmix(stream._key, start + at)
    assert np.array_equal(stream.words(start + count // 3, count - count // 3), words[count // 3 :])


def test_bytes_are_the_words_little_end_first():
    stream = Stream(7, "bytes")
    wanted = b"".join(int(w).to_bytes(8, "little") for w in stream.words(5, 4))
    assert stream.bytes(5, 29).tobytes() == wanted[:29]


def test_names_and_seeds_give_unrelated_streams():
    streams = [Stream(seed, name).words(0, 4096) for seed in (0, 1) for name in ("a", "b")]
    for i, left in enumerate(streams):
        for right in streams[i + 1 :]:
            shared = np.bitwise_count(left ^ right).mean()
            assert abs(shared - 32) < 0.5  # half of 64 bits differ

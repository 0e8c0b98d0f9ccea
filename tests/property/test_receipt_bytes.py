"""Broken and hostile receipts: whatever the bytes, an answer comes back, and it is never a better verdict."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import Exit
from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

FEW = settings(derandomize=True, max_examples=120, deadline=None)
WORSE = (Exit.INVALID, Exit.RED)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    rows = ("ttft@16", "decode")
    store = adopt_floor(tmp_path_factory.mktemp("store"), synthetic_params(rows=rows, release="1.0.0", repeats=1))
    data = gate_receipt(store, synthetic_params(rows=rows, repeats=1), effects={"ttft@16": 3.0})
    assert verify_receipt(data).outcome is Outcome.RED
    return data


def test_any_byte_changed_is_invalid(red):
    rng = random.Random(8)  # noqa: S311 - which bytes to flip
    for _ in range(150):
        at = rng.randrange(len(red))
        flipped = red[:at] + bytes([red[at] ^ (1 << rng.randrange(8))]) + red[at + 1 :]
        assert verify_receipt(flipped).exit_status == Exit.INVALID


def test_any_end_cut_off_is_invalid(red):
    rng = random.Random(9)  # noqa: S311 - where to cut
    for _ in range(30):
        assert verify_receipt(red[: rng.randrange(len(red))]).exit_status == Exit.INVALID


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**6), 2**53 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@FEW
@given(st.data())
def test_any_value_put_anywhere_is_never_a_better_verdict(red, data):
    document = loads_strict(red)
    holder = document
    while True:
        keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
        key = data.draw(st.sampled_from(list(keys)))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        holder = inner
    holder[key] = data.draw(json_values)
    assert verify_receipt(seal(document)).exit_status in WORSE


@FEW
@given(json_values)
def test_any_json_is_answered(value):
    assert verify_receipt(canonical_bytes(value)).exit_status == Exit.INVALID

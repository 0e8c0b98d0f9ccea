"""Our canonical JSON writer against the reference package, over anything JSON can hold."""

import json
import math
import re
from pathlib import Path

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lqw.canonical import MAX_STRING, canonical_bytes, loads_canonical, loads_strict
from lqw.errors import IntegrityError

LONG = re.compile(rb"\d{16}|e-6")
EXACT = settings(derandomize=True, max_examples=300, deadline=None)
numbers = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda m, e: m * 10.0**e, st.integers(-999, 999), st.integers(-30, 30)),
)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(texts, inner, max_size=5), st.lists(st.integers(-9, 9))
    ),
    max_leaves=30,
)


@EXACT
@given(trees)
@example({"\U0001f600": 1, "\ufb33": 2, "é": 3, "\r": 4, "1": 5, "": []})  # sorted by UTF-16, not by code point
@example([0.0, -0.0, 1e21, 1e20, 1e-6, 1e-7, 5e-324, 1.7976931348623157e308, 123456789012345680000.0, 0.1, 1e16, 1e22])
@example([True, 1, False, 0, None])
def test_writes_the_same_bytes_as_rfc8785(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@EXACT
@given(numbers)
def test_every_number_survives(value):
    (read,) = loads_strict(canonical_bytes([value]))
    assert float(read) == float(value)


@pytest.mark.parametrize(
    "value", [math.nan, -math.inf, 2**53, [1, -(2**53)], {1: 2}, "\ud800", {"\udfff": 1}, b"x", {1, 2}]
)
def test_refuses_what_rfc8785_refuses(value):
    with pytest.raises(IntegrityError):
        canonical_bytes(value)
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        rfc8785.dumps(value)


def test_refuses_depth_beyond_the_limit():
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(IntegrityError, match="deeper than 64"):
        canonical_bytes(deep)


def test_refuses_a_string_beyond_the_limit():
    assert canonical_bytes(["x" * MAX_STRING])
    for value in ("x" * (MAX_STRING + 1), {"k": "x" * (MAX_STRING + 1)}, {"x" * (MAX_STRING + 1): 1}):
        with pytest.raises(IntegrityError, match="long"):
            canonical_bytes(value)


def agrees(data):
    """Hold a look at bytes to writing them again: it may doubt what is canonical, and never the other way round."""
    try:
        value, said = loads_canonical(data)
    except IntegrityError:
        return
    assert not said or (canonical_bytes(value) == data and repr(value) == repr(json.loads(data)))


@EXACT
@given(trees)
@example([1.5e-6, -9.999999999999999e-06, 1e-6, 1e-5, "x,1e-6,", ":2.5e-6]", -1e-7, 1e21, "e+16"])
def test_a_look_sees_what_is_canonical(value):
    """All but few: an integer that may exceed 2^53, keys whose order UTF-8 and UTF-16 may disagree about."""
    data = canonical_bytes(value)
    read, said = loads_canonical(data)
    assert repr(read) == repr(json.loads(data))
    assert said or LONG.search(data) or any(character > "\ud7ff" for character in data.decode()), data


@EXACT
@given(trees, st.data())
@example({"\ufb33": 1, "\U0001f600": 2}, None)
@example(["\ud800", {"a": "\x7f\u2028"}], None)
def test_a_look_never_calls_canonical_what_is_not(value, data):
    texts = [json.dumps(value, **options) for options in ({}, {"separators": (",", ":")}, {"ensure_ascii": False})]
    texts.append(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        agrees(raw)
        if data is not None and raw:
            at = data.draw(st.integers(0, len(raw) - 1))
            some = st.sampled_from(
                [b"", b" ", b"0", b"-", b".0", b"e5", b"\\", b'"', b"\\u0041", b",", b"[", b"\xff", b"A"]
            )
            put = data.draw(some)
            agrees(raw[:at] + put + raw[at:])
            agrees(raw[:at] + put + raw[at + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        '"\\u0041"', '"\\/"', '"\\u000a"', '"\\u001F"', '"\\ud83d\\ude00"', "-0", "[-0,1]", "1.0", "1E5", "1e-05", "0.00001e1",
        "9007199254740993", "[ 1]", "[1]\n", "\ufeff1", '{"b":1,"a":2}', '{"\ufb33":1,"\U0001f600":2}', "[" * 65 + "]" * 65,
        '"' + "x" * (MAX_STRING + 1) + '"', '"' + '\\"' * (MAX_STRING + 1) + '"', "1e16", "[1.5e300]", "[-9007199254740992]",
        "[" * 40 + '"' + "]" * 40 + '",' + "[" * 40 + "]" * 80, "[" * 65 + '"","]","","["' + "]" * 65,
    ],
)  # fmt: skip
def test_what_is_not_canonical_is_seen(text):
    assert not loads_canonical(text.encode())[1]


@pytest.mark.parametrize(
    "text",
    [
        '"\\b\\u001f\\\\\\""', "[[{}],{}]", "1e-7", "[0.000001,-5,0]", "[" * 64 + "]" * 64, '"\x7fé😀"',
        '["1.0,","e16]",{"[{":"\\"}]"},"",1.5e-15]', "[9007199254740991]",
    ],
)  # fmt: skip
def test_what_is_canonical_is_seen(text):
    assert loads_canonical(text.encode()) == (json.loads(text), True)


def test_committed_receipts_need_no_second_writing():
    for path in (Path(__file__).parents[2] / "receipts" / "h200").glob("*.json"):
        assert loads_canonical(path.read_bytes())[1], path

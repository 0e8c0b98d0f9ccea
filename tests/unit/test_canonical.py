"""Canonical JSON, strict reading and atomic writes."""

import json
import os

import pytest

from lqw.canonical import canonical_bytes, loads_strict, read_json, sha256_json, write_atomic
from lqw.errors import IntegrityError


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"b": 1, "a": [True, None, "é"]}, '{"a":[true,null,"é"],"b":1}'),
        ({"x": 1e21, "y": 1e-7, "z": 0.1}, '{"x":1e+21,"y":1e-7,"z":0.1}'),  # RFC 8785 numbers are ECMAScript's
        ({"n": -0.0}, '{"n":0}'),
    ],
)
def test_canonical_form_is_rfc_8785(value, wanted):
    assert canonical_bytes(value).decode() == wanted


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53 + 1, {"a": {1, 2}}])
def test_values_without_a_canonical_form_are_refused(value):
    with pytest.raises(IntegrityError):
        canonical_bytes({"v": value})


def test_key_order_does_not_change_the_hash():
    assert sha256_json({"a": 1, "b": 2}) == sha256_json({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e400}', "overflows"),
        ('{"a": 1', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_strict_reading_refuses(text, problem):
    with pytest.raises(IntegrityError, match=problem):
        loads_strict(text, name="x.json")


def test_reading_a_missing_file_names_it(tmp_path):
    with pytest.raises(IntegrityError, match=r"gone\.json"):
        read_json(tmp_path / "gone.json")


def test_write_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "a.json"
    write_atomic(path, b"old")

    def full_disk(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, json.dumps({"new": 1}).encode())
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]

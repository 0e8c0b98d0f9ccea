"""Canonical JSON (RFC 8785), strict reading, sha256 and atomic writes: the only way lqw touches its JSON files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from lqw.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "canonical_bytes",
    "json_bytes",
    "loads_canonical",
    "loads_strict",
    "read_json",
    "sha256_bytes",
    "sha256_file",
    "sha256_json",
    "write_atomic",
]

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_STRING = 2_000_000  # characters: a prompt that fills the longest context (262,144 tokens), as text
MAX_INTEGER = 2**53 - 1  # beyond it two JSON readers may disagree about a number

_POINT_ZERO = re.compile(rb"\.0[],}]")
_ESCAPED = re.compile(rb"\\.")
_STRING = re.compile(rb'"[^"]*"')
_EXPONENT = re.compile(rb"e[-+]?+[0-9]++[],}]")
_WRITTEN_OUT = range(-6, 21)  # powers that ECMA-262, Number::toString, gives no exponent
_MILLIONTHS = re.compile(rb"e-6(?=[],}])")
_MILLIONTH = re.compile(rb"(-?)(\d)(?:\.(\d+))?")
_ROUND = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKETS_NOR_QUOTES = bytes(set(range(256)) - set(b'[]{}"'))
_PLANE_0 = bytes(range(0xF0))  # all bytes of characters that are one UTF-16 unit, and what follows in longer ones

_MISSING = object()

_encode_integers = json.JSONEncoder(separators=(",", ":")).encode
_encode_string: Callable[[str], str] = json.encoder.encode_basestring


def canonical_bytes(value: Any) -> bytes:
    """Return *value* as RFC 8785 canonical JSON; raise IntegrityError where it has none.

    None for NaN, infinities, integers beyond 2^53, keys that are no strings, lone surrogates, depth over 64, and
    strings over 2,000,000 characters (those two limits are lqw's own). Otherwise the same
    bytes as the package ``rfc8785`` (the tests compare them), five times as fast on journals, which are lists of whole
    numbers: those go through the C encoder.
    """
    out: list[str] = []
    try:
        _write(value, out, MAX_DEPTH)
        return "".join(out).encode()
    except UnicodeEncodeError as err:
        raise IntegrityError(f"value has no canonical form: {err}") from err


def _write(value: Any, out: list[str], depth: int) -> None:
    if value is None or value is True or value is False:
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        out.append(_text(value))
    elif isinstance(value, int):
        _bounded(value, value)
        out.append(int.__repr__(value))
    elif isinstance(value, float):
        out.append(_number(value))
    elif not isinstance(value, dict | list | tuple):
        raise IntegrityError(f"value has no canonical form: {type(value).__name__} is not JSON")
    elif depth == 0:
        raise IntegrityError(f"value has no canonical form: deeper than {MAX_DEPTH}")
    elif isinstance(value, dict):
        _write_object(value, out, depth - 1)
    elif value and set(map(type, value)) == {int}:
        out.append(_integers(value))
    else:
        comma = "["
        for item in value:
            out.append(comma)
            _write(item, out, depth - 1)
            comma = ","
        out.append("]" if value else "[]")


def _text(value: str) -> str:
    if len(value) > MAX_STRING:
        raise IntegrityError(f"value has no canonical form: a string is longer than {MAX_STRING}")
    return _encode_string(value)


def _write_object(value: dict[Any, Any], out: list[str], depth: int) -> None:
    for opening, key in _layout(tuple(value)):
        item = value[key]
        kind = type(item)
        if kind is str and len(item) <= MAX_STRING:
            out.append(opening + _encode_string(item))
        elif kind is int and -MAX_INTEGER <= item <= MAX_INTEGER:
            out.append(opening + int.__repr__(item))
        else:
            out.append(opening)
            _write(item, out, depth)
    out.append("}" if value else "{}")


@lru_cache(maxsize=256)
def _layout(keys: tuple[Any, ...]) -> tuple[tuple[str, str], ...]:
    """Return what opens each member, in RFC 8785's order: UTF-16 code units. Records of one kind share it."""
    if not all(isinstance(key, str) and len(key) <= MAX_STRING for key in keys):
        raise IntegrityError("value has no canonical form: a key is not a string, or too long")
    ordered = sorted(keys, key=lambda text: text.encode("utf-16-be"))
    return tuple((("," if at else "{") + _encode_string(key) + ":", key) for at, key in enumerate(ordered))


def _integers(values: list[int] | tuple[int, ...]) -> str:
    _bounded(min(values), max(values))
    return _encode_integers(values)


def _bounded(least: int, most: int) -> None:
    if most > MAX_INTEGER or least < -MAX_INTEGER:
        raise IntegrityError("value has no canonical form: an integer is beyond 2^53")


def _number(value: float) -> str:
    """Return ECMAScript's Number::toString: Python's shortest digits, with the point where JavaScript puts it."""
    if value != value or value in (math.inf, -math.inf):  # noqa: PLR0124 - NaN
        raise IntegrityError(f"value has no canonical form: {value} is not JSON")
    if value == 0:
        return "0"
    mantissa, _, power = repr(abs(value)).partition("e")
    sign = "-" if value < 0 else ""
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" else part
    if not power:
        return sign + whole + ("." + part if part else "")
    digits, point = whole + part, len(whole) + int(power)
    if 0 < point <= 21:  # noqa: PLR2004 - ECMA-262, Number::toString
        return sign + (digits[:point] + "." + digits[point:] if point < len(digits) else digits.ljust(point, "0"))
    if -6 < point <= 0:  # noqa: PLR2004 - ECMA-262, Number::toString
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def sha256_bytes(data: bytes) -> str:
    """Return the lower-case hexadecimal sha256 of *data*."""
    return hashlib.sha256(data).hexdigest()


def sha256_json(value: Any) -> str:
    """Return the sha256 of the canonical form of *value*."""
    return sha256_bytes(canonical_bytes(value))


def sha256_file(path: Path | str) -> str:
    """Return the sha256 of a file's bytes, read in blocks."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise IntegrityError(f"duplicate key {twice[:80]!r}")
    return out


def _no_constant(token: str) -> Any:
    raise IntegrityError(f"{token} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (math.inf, -math.inf):
        raise IntegrityError(f"number {text[:40]} overflows")
    return value


def loads_strict(data: bytes | str, *, name: str = "document") -> Any:
    """Parse JSON, refusing duplicate keys, NaN, overflow, too large and too deep documents (IntegrityError)."""
    if len(data) > MAX_BYTES:
        raise IntegrityError(f"{name}: larger than {MAX_BYTES} bytes")
    try:
        return json.loads(data, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
    except IntegrityError as err:
        raise IntegrityError(f"{name}: {err.message}") from None
    except (ValueError, RecursionError) as err:
        raise IntegrityError(f"{name}: not JSON: {err}") from err


def loads_canonical(data: bytes, *, name: str = "document") -> tuple[Any, bool]:
    """Parse JSON as :func:`loads_strict` does; return it, and whether *data* is its canonical form.

    Looking takes less than writing the value again and comparing. It may say False of what is canonical (a whole number
    of more than 16 digits, a string near the limit), and only :func:`canonical_bytes` says what is wrong and where; it
    never says True of what is not.
    """
    value = _MISSING if len(data) > MAX_BYTES else _read_canonical(data)
    return (loads_strict(data, name=name), False) if value is _MISSING else (value, True)


def json_bytes(value: Any) -> bytes:
    """Return *value* as JSON with sorted keys: not canonical, several times as fast; to hand over, or to compare.

    Raises
    ------
    TypeError
        It cannot be written: no JSON, a lone surrogate, an integer beyond 64 bits, or too deep. NaN becomes ``null``.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _read_canonical(data: bytes) -> Any:
    """Return the value, or _MISSING where *data* is not seen to be canonical.

    Bytes that orjson writes again just so have sorted keys, none twice, no space, strings escaped as RFC 8785 says, and
    no integer beyond 2^53. What else orjson writes otherwise than RFC 8785 is looked for.
    """
    try:
        value = orjson.loads(data)
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except (ValueError, TypeError, RecursionError):
        return _MISSING
    if written != data and (b"e-6" not in written or b"".join(_with_millionths(written + b",")) != data + b","):
        return _MISSING
    return value if _plain(data) else _MISSING


def _with_millionths(written: bytes) -> Iterator[bytes]:
    """Yield the pieces of *written* with ``1.5e-6``, which is orjson's, as ``0.0000015``, which is ECMAScript's."""
    done = 0
    for found in _MILLIONTHS.finditer(written):
        end = found.start()
        begin = max(written.rfind(mark, max(0, end - 30), end) for mark in (b":", b",", b"[")) + 1
        token = _MILLIONTH.fullmatch(written, begin, end)
        if token is not None:
            yield written[done:begin] + token[1] + b"0.00000" + token[2] + (token[3] or b"")
            done = found.end()
    yield written[done:]


def _plain(data: bytes) -> bool:
    """Look at numbers, brackets and the lengths of strings of what orjson writes just so."""
    if b"\\" in data:
        data = _ESCAPED.sub(b"xx", data)  # each `"` that is left begins or ends a string
    if not _numbers_are_plain(data + b",") and not _numbers_are_plain(_STRING.sub(b"", data) + b","):
        return False  # the first look may have seen what stands in a string
    half = MAX_STRING // 2  # a longer string fills one such block, which then holds no `"`
    blocks = (data[at : at + half] for at in range(0, len(data), half))
    if any(b'"' not in block for block in blocks) and max(map(len, data.split(b'"')[1::2]), default=0) > MAX_STRING:
        return False
    if not data.isascii() and data.translate(None, _PLANE_0) and (b"\xee" in data or b"\xef" in data):
        return False  # the order of keys by UTF-8, which is orjson's, may not be that by UTF-16
    marks = data.translate(_ROUND, _NEITHER_BRACKETS_NOR_QUOTES).replace(b'""', b"")  # an odd row of `"` leaves one
    brackets, depth = _STRING.sub(b"", marks), 0
    while brackets and depth < MAX_DEPTH:
        brackets, depth = brackets.replace(b"[]", b""), depth + 1
    return not brackets


def _numbers_are_plain(data: bytes) -> bool:
    """Return whether no number ends in ``.0``, nor has an exponent where ECMAScript writes it out or with a sign."""
    if _POINT_ZERO.search(data):
        return False
    powers = [found[1:-1] for found in _EXPONENT.findall(data)]
    return all(power[:1] in b"-+" and int(power) not in _WRITTEN_OUT for power in powers)


def read_json(path: Path | str) -> Any:
    """Read and strictly parse a JSON file; IntegrityError names the file."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a device or pipe may have no end
            raise IntegrityError(f"{path}: not a regular file")
        if path.stat().st_size > MAX_BYTES:
            raise IntegrityError(f"{path}: larger than {MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as err:
        raise IntegrityError(f"{path}: {err.strerror or err}") from err
    return loads_strict(data, name=str(path))


def write_atomic(path: Path | str, data: bytes) -> str:
    """Write *data* so that a reader sees the old file or the whole new one, never a part; return its sha256."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return sha256_bytes(data)

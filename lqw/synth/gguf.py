"""The GGUF container, version 3, as far as it is needed: writing a header, reading metadata.

Layout: magic, version, counts, key–value pairs, tensor descriptions, padding, data. All little-endian; strings are a
64-bit length and UTF-8. See docs/gguf.md of ggml.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from lqw.synth.mixes import Format
    from lqw.synth.shapes import TensorShape

__all__ = ["ALIGNMENT", "BadGguf", "F32Value", "Field", "U32Value", "header", "read_header", "read_metadata"]

ALIGNMENT = 32
VERSION = 3
READABLE_VERSIONS = (2, 3)
MAX_STRING = 64 * 1024 * 1024
MAX_COUNT = 16 * 1024 * 1024
MAX_RANK = 8
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
_NUMBERS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip


class BadGguf(ValueError):
    """The bytes are no GGUF, or a damaged one."""


class U32Value(int):
    """A whole number stored as uint32, GGUF's usual type for sizes."""


class F32Value(float):
    """A number stored as float32."""


Field = U32Value | F32Value | bool | str | Sequence[int] | Sequence[bytes]


def header(fields: dict[str, Field], tensors: list[tuple[TensorShape, Format, int]]) -> bytes:
    """Return everything before the data, padded to the alignment.

    Parameters
    ----------
    fields : dict
        Metadata in the order of the file. Sequences of ints become int32 arrays, of bytes string arrays.
    tensors : list of (tensor, format, offset)
        Offsets into the data section, bytes, multiples of the alignment.
    """
    out = bytearray(struct.pack("<4sIQQ", b"GGUF", VERSION, len(tensors), len(fields)))
    for key, value in fields.items():
        out += _string(key.encode()) + _value(value)
    for tensor, fmt, offset in tensors:
        dims = (tensor.cols, tensor.rows) if tensor.rows else (tensor.cols,)  # fastest first
        out += _string(tensor.name.encode()) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        out += struct.pack("<IQ", fmt.type_id, offset)
    return bytes(out) + bytes(-len(out) % ALIGNMENT)


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _value(value: Field) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value.encode())
    if value and isinstance(value[0], bytes):
        body = b"".join(_string(item) for item in value if isinstance(item, bytes))
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + body
    return struct.pack(f"<IIQ{len(value)}i", ARRAY, I32, len(value), *value)


def read_metadata(handle: BinaryIO, *, wanted: str) -> dict[str, Any]:
    """Return the metadata whose keys start with *wanted*; strings as bytes, arrays as lists. Reads forward only.

    Raises
    ------
    BadGguf
        Wrong magic or version, a cut file, or lengths that no real file has.
    """
    return _read_fields(handle, wanted)[0]


def read_header(handle: BinaryIO) -> tuple[dict[str, Any], dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the metadata without the tokenizer's, and every tensor's dimensions (fastest first) and offset by name.

    Raises
    ------
    BadGguf
        As :func:`read_metadata`.
    """
    out, count = _read_fields(handle, "")
    tensors: dict[str, tuple[int, ...]] = {}
    offsets: dict[str, int] = {}
    for _ in range(count):
        name, rank = _take_string(handle).decode("utf-8", "replace"), _take_number(handle, U32)
        if rank > MAX_RANK:
            raise BadGguf(f"a tensor of {rank} dimensions")
        tensors[name] = struct.unpack(f"<{rank}Q", _take(handle, 8 * rank))
        _, offsets[name] = struct.unpack("<IQ", _take(handle, 12))
    return {key: value for key, value in out.items() if not key.startswith("tokenizer.")}, tensors, offsets


def _read_fields(handle: BinaryIO, wanted: str) -> tuple[dict[str, Any], int]:
    """Return the metadata whose keys start with *wanted*, and how many tensors follow."""
    magic, version, tensors, count = struct.unpack("<4sIQQ", _take(handle, 24))
    if magic != b"GGUF":
        raise BadGguf(f"begins with {magic!r}, not with b'GGUF'")
    if version not in READABLE_VERSIONS:
        raise BadGguf(f"version {version}, readable are {READABLE_VERSIONS}")
    if max(count, tensors) > MAX_COUNT:
        raise BadGguf(f"{count} metadata fields, {tensors} tensors")
    out: dict[str, Any] = {}
    for _ in range(count):
        key = _take_string(handle).decode("utf-8", "replace")
        value = _take_value(handle, _take_number(handle, U32))
        if key.startswith(wanted):
            out[key] = value
    return out, tensors


def _take(handle: BinaryIO, size: int) -> bytes:
    data = handle.read(size)
    if len(data) != size:
        raise BadGguf(f"ends {size - len(data)} bytes too early")
    return data


def _take_number(handle: BinaryIO, kind: int) -> Any:
    form = _NUMBERS.get(kind)
    if form is None:
        raise BadGguf(f"unknown value type {kind}")
    return struct.unpack(form, _take(handle, struct.calcsize(form)))[0]


def _take_string(handle: BinaryIO) -> bytes:
    (size,) = struct.unpack("<Q", _take(handle, 8))
    if size > MAX_STRING:
        raise BadGguf(f"a string of {size} bytes")
    return _take(handle, size)


def _take_value(handle: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return _take_string(handle)
    if kind != ARRAY:
        return _take_number(handle, kind)
    item, count = struct.unpack("<IQ", _take(handle, 12))
    if count > MAX_COUNT:
        raise BadGguf(f"an array of {count}")
    if item == STRING:
        return [_take_string(handle) for _ in range(count)]
    form = _NUMBERS.get(item)
    if form is None:
        raise BadGguf(f"unknown array type {item}")
    data = _take(handle, count * struct.calcsize(form))
    return list(struct.unpack(f"<{count}{form[1]}", data))

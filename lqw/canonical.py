"""Canonical JSON (RFC 8785), strict reading, sha256 and atomic writes: the only way lqw touches its JSON files."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import rfc8785

from lqw.errors import IntegrityError

__all__ = [
    "canonical_bytes",
    "loads_strict",
    "read_json",
    "sha256_bytes",
    "sha256_file",
    "sha256_json",
    "write_atomic",
]

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64


def canonical_bytes(value: Any) -> bytes:
    """Return *value* as RFC 8785 canonical JSON; raise IntegrityError on NaN, infinities or integers beyond 2^53."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as err:
        raise IntegrityError(f"value has no canonical form: {err}") from err


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
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise IntegrityError(f"duplicate key {key!r}")
        out[key] = value
    return out


def _no_constant(token: str) -> Any:
    raise IntegrityError(f"{token} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
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


def read_json(path: Path | str) -> Any:
    """Read and strictly parse a JSON file; IntegrityError names the file."""
    path = Path(path)
    try:
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

"""A receipt as bytes: one JSON object in its canonical form (RFC 8785), and the digest of everything else in it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, loads_canonical, sha256_bytes
from lqw.errors import IntegrityError
from lqw.receipt.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["bytes_problems", "object_bytes", "object_of"]


def object_of(data: bytes) -> tuple[dict[str, Any], bool]:
    """Return the object that a receipt's bytes are, and whether they are its canonical form; IntegrityError if none."""
    document, canonical = loads_canonical(data, name="receipt")
    if not isinstance(document, dict):
        raise IntegrityError(f"receipt: {type(document).__name__}, not an object")
    return document, canonical


def bytes_problems(document: dict[str, Any], data: bytes, *, canonical: bool) -> Iterator[Problem]:
    """Compare the bytes with their canonical form, and the digest with that of everything else."""
    if canonical:
        digest = _digest_within(document, data)
        if document.get("digest") != digest:
            yield Problem("digest", document.get("digest"), digest, "digest")
        return
    parts = {key: _member(document, key) for key in document}
    wanted = object_bytes(parts)
    if wanted != data:
        at = next((i for i, (a, b) in enumerate(zip(wanted, data, strict=False)) if a != b), len(wanted))
        yield Problem("(bytes)", data[at : at + 40].decode("utf-8", "replace"), f"canonical JSON at {at}", "canonical")
    parts.pop("digest", None)
    digest = sha256_bytes(object_bytes(parts))
    if document.get("digest") != digest:
        yield Problem("digest", document.get("digest"), digest, "digest")


def _digest_within(document: dict[str, Any], data: bytes) -> str:
    """Return the digest that canonical bytes should have: the sha256 of them without the member ``digest``."""
    if "digest" not in document:
        return sha256_bytes(data)
    member = _member(document, "digest")
    if data.count(member) == 1:
        at = data.index(member)
    else:  # the same stands further down as well; this one follows all members before it
        before = {key: _member(document, key) for key in takewhile(lambda key: key != "digest", document)}
        at = len(object_bytes(before)) - (0 if before else 1)
    head, tail = data[:at], data[at + len(member) :]
    return sha256_bytes(head[:-1] + tail if head.endswith(b",") else head + tail.removeprefix(b","))


def _member(document: dict[str, Any], key: str) -> bytes:
    return canonical_bytes(key) + b":" + canonical_bytes(document[key])


def object_bytes(members: Mapping[str, bytes]) -> bytes:
    """Return the canonical form of an object from those of its members, so that each is written only once."""
    ordered = sorted(members, key=lambda key: key.encode("utf-16-be"))
    return b"{" + b",".join(members[key] for key in ordered) + b"}"

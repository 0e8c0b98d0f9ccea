"""DSSE envelopes of Ed25519 signatures, in a bundle of JSON Lines: how a signature is written and looked at.

Sources: secure-systems-lab/dsse ``protocol.md`` and ``envelope.md`` 1.0 (the bytes that are signed, the JSON around
them), in-toto/attestation ``spec/v1/bundle.md`` (one envelope a line, ``<filename>.intoto.jsonl``; lines and fields
that a reader does not know are ignored). The cryptography is the package ``cryptography``'s.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["BUNDLE_SUFFIX", "Envelope", "key_id", "pae", "parse_bundle", "public_bytes", "sign_payload", "signed_with"]

BUNDLE_SUFFIX = ".intoto.jsonl"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_BUNDLE = 1024 * 1024  # bytes
MAX_LINES = 64
MAX_SIGNATURES = 16  # in one envelope
SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Envelope:
    """One signed payload. ``signatures`` are raw; whose they are only :func:`signed_with` can say."""

    payload: bytes
    payload_type: str
    signatures: tuple[bytes, ...]


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding, which binds type and length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """Return the 32 bytes of a private key's public half."""
    return key.public_key().public_bytes_raw()


def key_id(public: bytes) -> str:
    """Return the hint that an envelope carries: sha256 of the raw public key. No check relies on it."""
    return hashlib.sha256(public).hexdigest()


def sign_payload(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return one line of a bundle: the payload in an envelope, signed; ends with a line feed."""
    signature = key.sign(pae(PAYLOAD_TYPE, payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id(public_bytes(key)), "sig": base64.b64encode(signature).decode()}],
    }
    return canonical_bytes(envelope) + b"\n"


def signed_with(envelope: Envelope, public: bytes) -> bool:
    """Return whether the holder of this public key (32 raw bytes) signed the envelope."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only who has a signature pays for it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    message = pae(envelope.payload_type, envelope.payload)
    key = Ed25519PublicKey.from_public_bytes(public)
    for signature in envelope.signatures:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            continue
        return True
    return False


def parse_bundle(data: bytes) -> Iterator[Envelope | str]:
    """Yield each line's envelope, or in words why it is none.

    Raises
    ------
    IntegrityError
        The bundle is larger than 1 MiB or has more than 64 lines.
    """
    if len(data) > MAX_BUNDLE:
        raise IntegrityError(f"signatures: larger than {MAX_BUNDLE} bytes")
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) > MAX_LINES:
        raise IntegrityError(f"signatures: more than {MAX_LINES} lines")
    for number, line in enumerate(lines, start=1):
        try:
            yield _envelope(loads_strict(line, name=f"line {number}"), number)
        except IntegrityError as err:
            yield err.message[:200]


def _envelope(value: Any, number: int) -> Envelope:
    def wrong(what: str) -> IntegrityError:
        return IntegrityError(f"line {number}: {what}")

    if not isinstance(value, dict):
        raise wrong("not an envelope")
    kind, signatures = value.get("payloadType"), value.get("signatures")
    if kind != PAYLOAD_TYPE:
        raise wrong(f"payloadType is not {PAYLOAD_TYPE}")
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise wrong(f"not 1 to {MAX_SIGNATURES} signatures")
    raw = [_decoded(one.get("sig") if isinstance(one, dict) else None) for one in signatures]
    payload = _decoded(value.get("payload"))
    if payload is None or any(one is None or len(one) != SIGNATURE_BYTES for one in raw):
        raise wrong("payload or signature is not the base64 of one")
    return Envelope(payload, kind, tuple(one for one in raw if one is not None))


def _decoded(text: object) -> bytes | None:
    """Return the bytes of standard or URL-safe base64 (the DSSE specification allows both), or None."""
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/").encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None

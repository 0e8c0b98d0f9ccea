"""What is signed: an in-toto Statement (v1) about one file, with a predicate of lqw's own. docs/receipt/signing.md.

The subject is the sha256 of the file; the predicate says who signs as what, and repeats what the signer's own
``lqw verify`` said, so that a person (and a policy engine that knows nothing of lqw) can read it. The verifier computes
all of it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

import lqw
from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import IntegrityError
from lqw.receipt.source import source_sha256

if TYPE_CHECKING:
    from lqw.receipt.verify import Verification

__all__ = [
    "RECEIPT_TYPE",
    "RECORD_TYPE",
    "Claim",
    "Statement",
    "parse_statement",
    "receipt_statement",
    "record_statement",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
RECEIPT_TYPE = "urn:lqw:receipt/1"
RECORD_TYPE = "urn:lqw:record/1"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Utc = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Lenient(BaseModel):
    """Fields that are not known are ignored, as in-toto demands: what is added may only narrow a claim."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False, defer_build=True)


class _Digest(_Lenient):
    sha256: Sha256


class _Subject(_Lenient):
    name: Text
    digest: _Digest


class Claim(_Lenient):
    """The predicate: who signs, as what, when, and for a receipt what verifying it said."""

    as_: Literal["captain", "author", "approver"] = Field(alias="as")
    signer: Text
    host: Text
    signed_utc: Utc
    release: Text | None = None
    outcome: Text | None = None
    exit_status: int | None = None
    lqw_version: Text | None = None
    lqw_source_sha256: Sha256 | None = None


class Statement(_Lenient):
    """An in-toto Statement about exactly one file."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject] = Field(strict=False)
    predicate_type: str = Field(alias="predicateType")
    predicate: Claim

    @property
    def sha256(self) -> str:
        """Return the sha256 of the file that is spoken of."""
        return self.subject[0].digest.sha256


def parse_statement(payload: bytes) -> Statement:
    """Read a payload strictly; IntegrityError where it is no statement of lqw's."""
    try:
        loads_strict(payload, name="statement")  # duplicate keys, NaN and overflow are refused before pydantic reads
        return Statement.model_validate_json(payload)
    except ValidationError as err:
        first = err.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "(document)"
        raise IntegrityError(f"statement: {field}: {first['msg']}") from err
    except RecursionError as err:
        raise IntegrityError("statement: too deep") from err


def _statement(name: str, sha256: str, kind: str, predicate: dict[str, object]) -> bytes:
    subject = [{"name": name, "digest": {"sha256": sha256}}]
    document = {"_type": STATEMENT_TYPE, "subject": subject, "predicateType": kind, "predicate": predicate}
    return canonical_bytes(document)


def receipt_statement(verified: Verification, *, name: str, signer: str, signed_utc: str) -> bytes:
    """Return the payload by which a captain stands for a receipt that was verified."""
    predicate: dict[str, object] = {
        "as": "captain",
        "signer": signer,
        "host": verified.host,
        "signed_utc": signed_utc,
        "release": verified.release,
        "outcome": str(verified.outcome),
        "exit_status": int(verified.exit_status),
        "lqw_version": lqw.__version__,
        "lqw_source_sha256": source_sha256(),
    }
    return _statement(name, verified.receipt_sha256, RECEIPT_TYPE, predicate)


def record_statement(sha256: str, *, name: str, host: str, as_: str, signer: str, signed_utc: str) -> bytes:
    """Return the payload by which a person stands for a record, as its author or its approver."""
    predicate: dict[str, object] = {"as": as_, "signer": signer, "host": host, "signed_utc": signed_utc}
    return _statement(name, sha256, RECORD_TYPE, predicate)

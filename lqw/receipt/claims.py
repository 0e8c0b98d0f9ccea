"""One confirmation batch per candidate binary: the claim a run lays before its batch begins, kept beside the receipts.

Whoever gave a candidate a setting or a variable that does nothing would have another subject, and the same program: so
a claim is to a program. ``<store>/<host>/batches/<binary sha256>.json`` is written before the batch's first start and
never removed. Killing a run whose batch does not please and starting another one therefore measures no second batch:
the claim is the first run's, and only that run may go on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from lqw.canonical import canonical_bytes, read_json
from lqw.errors import IntegrityError, UsageError
from lqw.samples import Record

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.receipt.store import Store

__all__ = ["BatchClaim", "claim_batch", "claim_of"]


class BatchClaim(Record):
    """Which run may measure the batch of a candidate."""

    schema_: Literal["lqw-batch-claim/1"] = Field(default="lqw-batch-claim/1", alias="schema")
    run_id: str
    release: str
    subject_sha256: str
    binary_sha256: str
    declared_utc: str


def _path(store: Store, host: str, binary_sha256: str) -> Path:
    return store.folder(host) / "batches" / f"{binary_sha256}.json"


def claim_of(store: Store, host: str, binary_sha256: str) -> BatchClaim | None:
    """Return who holds the batch of a candidate's program; IntegrityError where the claim cannot be read."""
    path = _path(store, host, binary_sha256)
    if not path.is_file():
        return None
    try:
        return BatchClaim.model_validate_json(canonical_bytes(read_json(path)))
    except ValidationError as err:
        raise IntegrityError(f"{path}: not a claim: {err.errors()[0]['msg']}", remedy="restore it from git") from err


def claim_batch(store: Store, host: str, claim: BatchClaim) -> None:
    """Claim the batch of a candidate for a run; a run may claim again what it holds.

    Raises
    ------
    UsageError
        Another run holds it, or the store cannot be written.
    """
    from lqw.receipt.store import create  # noqa: PLC0415 - that module looks at receipts, this one at none

    held = claim_of(store, host, claim.binary_sha256)
    if held is None:
        create(_path(store, host, claim.binary_sha256), canonical_bytes(claim.model_dump(mode="json", by_alias=True)))
        return
    if held.run_id != claim.run_id:
        raise UsageError(
            f"the one confirmation batch of this candidate's program was begun by run {held.run_id} "
            f"({held.declared_utc}); a second one is not measured",
            remedy=f"go on with that run (--resume), look at its receipt, or gate a new build of {claim.release}",
        )

"""A legitimate change of numerics: new answers replace the held ones by a signed record only. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lqw.canonical import sha256_json
from lqw.correctness.adoption import model_difference
from lqw.records import Sha256, TwoPersonRecord, refused

if TYPE_CHECKING:
    from lqw.correctness.reference import IdentityReference, ModelReference

__all__ = ["ReferenceRebase", "model_sha256", "rebase_reference"]


class ReferenceRebase(TwoPersonRecord):
    """Which answers of which model give way to which.

    ``held_sha256`` and ``new_sha256`` are those of :func:`model_sha256`; ``evidence_receipt_sha256`` is the receipt
    of the run that gave the new answers.
    """

    schema_: Literal["lqw-reference-rebase/1"] = Field(alias="schema")
    model: str
    held_sha256: Sha256
    new_sha256: Sha256


def model_sha256(model: ModelReference) -> str:
    """Return the hash by which a record names a model's answers."""
    return sha256_json(model.model_dump(mode="json"))


def rebase_reference(
    held: IdentityReference | None,
    new: IdentityReference,
    record: ReferenceRebase,
    *,
    evidence_sha256: str,
    name: str,
) -> IdentityReference:
    """Return the host's reference with one model's answers replaced.

    Parameters
    ----------
    held : IdentityReference or None
        What the host holds.
    new : IdentityReference
        From the run that the record names.
    record : ReferenceRebase
        The signed record.
    evidence_sha256 : str
        Of that run's receipt file.
    name : str
        The record's file, for messages.

    Raises
    ------
    ParamsError
        Naming the field that contradicts what is held, what was measured, or the receipt.
    """
    if held is None or record.model not in held.models:
        raise refused(name, "model", record.model, "the host holds no answers of it", "adopt instead of rebasing")
    if record.model not in new.models:
        raise refused(name, "model", record.model, "the run has no whole answers of it", "measure it again")
    before, now = held.models[record.model], new.models[record.model]
    facts = (
        ("host", record.host, held.host, "the reference's host"),
        ("host", record.host, new.host, "the run's host"),
        ("held_sha256", record.held_sha256, model_sha256(before), "the hash of the answers held"),
        ("new_sha256", record.new_sha256, model_sha256(now), "the hash of the run's answers"),
        ("evidence_receipt_sha256", record.evidence_receipt_sha256, evidence_sha256, "the hash of the run's receipt"),
    )
    for field, told, true, what in facts:
        if told != true:
            raise refused(name, field, told, f"{what} is {true}", "correct the record, or take the right run")
    if (held.prompts_sha256, held.output_tokens, before.model_sha256) != (
        new.prompts_sha256,
        new.output_tokens,
        now.model_sha256,
    ):
        raise refused(
            name, "model", record.model, "prompts, length or model bytes changed too", "adopt a new reference"
        )
    if model_difference(before, now) is None:
        raise refused(
            name, "new_sha256", record.new_sha256, "the tokens are the ones held", "there is nothing to rebase"
        )
    return held.model_copy(update={"models": {**held.models, record.model: now}, "release": new.release})

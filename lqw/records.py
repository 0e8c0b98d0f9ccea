"""Records: what only two people together may decide, each in a file of its own with reason and evidence.

Every kind of record (floor rebase, retired rows, token reference) is one subclass of :class:`TwoPersonRecord`; the
signatures beside the file are :mod:`lqw.receipt.signature`'s matter.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import IntegrityError, ParamsError
from lqw.params.signers import same_person
from lqw.samples import Record

__all__ = ["Day", "HostRecord", "Sha256", "TwoPersonRecord", "parse_record", "refused"]

REASON_CHARACTERS = 200
REASON_WORDS = 20  # different ones: two hundred dots are no reason


def _day(text: str) -> str:
    dt.date.fromisoformat(text)
    return text


def _reason(text: str) -> str:
    if len(text.strip()) < REASON_CHARACTERS or len(set(text.split())) < REASON_WORDS:
        raise ValueError(f"a reason has at least {REASON_CHARACTERS} characters and {REASON_WORDS} different words")
    return text


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Person = Annotated[str, StringConstraints(min_length=2, max_length=200, strip_whitespace=True)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_day)]
"""A date in ISO form; as text, days compare as they follow each other."""


class TwoPersonRecord(Record):
    """What every record says: for which host, why, on what evidence, and the two people who say so."""

    host: str
    reason: Annotated[str, AfterValidator(_reason)]
    evidence_receipt_sha256: Sha256
    author: Person
    approver: Person
    created: Day

    @model_validator(mode="after")
    def _two_people(self) -> Self:
        if same_person(self.author, self.approver):
            raise ValueError("author and approver must be two people")
        return self


class HostRecord(TwoPersonRecord):
    """Stop measuring a host: from one release on, and for that one alone; the next has no such host to miss.

    The evidence is any receipt of the host: what it was worth when it was measured last.
    """

    schema_: Literal["lqw-retire-host/1"] = Field(default="lqw-retire-host/1", alias="schema")
    release: str = Field(min_length=1, max_length=64)


Kind = TypeVar("Kind", bound=TwoPersonRecord)


def parse_record(kind: type[Kind], data: bytes | str, *, name: str) -> Kind:
    """Read a record strictly; ParamsError names file, field, value and remedy."""
    try:
        value = loads_strict(data, name=name)
    except IntegrityError as err:
        raise refused(name, "(document)", "…", err.message, "write one JSON object") from err
    try:
        return kind.model_validate_json(canonical_bytes(value))
    except ValidationError as err:
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(document)"
        shown = "(absent)" if first["type"] == "missing" else first["input"]
        raise refused(name, field, shown, first["msg"], "see docs/operators-guide.md for a whole record") from err


def refused(name: str, field: str, value: object, problem: str, remedy: str) -> ParamsError:
    """Return the error that refuses a record by one of its fields."""
    return ParamsError(file=name, field=field, value=value, problem=problem, remedy=remedy)

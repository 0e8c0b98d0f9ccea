"""What every record is built on: strict frozen models, lists that tell their first fault only, and the failure."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, Strict

from lqw.outcomes import Reason

__all__ = ["Failure", "Many", "Named", "Record", "Several"]


_Item = TypeVar("_Item")


class _First(FailFast):
    """Pydantic's marker, made hashable, so that a field may be None as well."""

    __hash__ = object.__hash__


Many = Annotated[list[_Item], _First()]
"""A list of which the first item that is wrong is told, and not a line for each of a hundred thousand."""
Several = Annotated[tuple[_Item, ...], _First(), Strict(strict=False)]
"""The same of a tuple, which what was read from JSON holds as a list."""
Named = Annotated[_Item, Strict(strict=False)]
"""An enumeration's member, which what was read from JSON holds as its value."""


class Record(BaseModel):
    """Frozen, no unknown fields, no coercion, finite numbers only; validators are built where one is first needed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class Failure(Record):
    """Why something has no valid number: a reason and what was seen, with the engine's last log lines."""

    reason: Named[Reason]
    detail: str = Field(max_length=4_000)
    log_tail: list[str] = Field(default=[], max_length=40)

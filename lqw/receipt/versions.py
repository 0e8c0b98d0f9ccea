"""Reading receipts of earlier schemas: each is lifted, step by step, to the schema that this lqw judges.

A step gives the next version's form to what a document says. It may rename, move, and write down what its own version
took for granted; it may not invent a number that a verdict follows from. Bytes, canonical form and digest are those of
the file as it stands: they are checked before anything is lifted, and the receipt keeps its name, its file's sha256.

A change of fields that a default cannot cover makes a new version: ``SCHEMA`` moves on, the old model goes, and one
line here says how its documents are read. ``tests/fixtures/receipts`` holds a receipt of each version that can be read;
a test refuses a version without one. There has been one version so far, so there is no step yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.errors import IntegrityError
from lqw.receipt.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UPGRADES", "lifted", "readable"]

UPGRADES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Schema → what makes of its documents one of the next; each is given a copy of its own top level."""


def readable() -> tuple[str, ...]:
    """Return the schemas that can be read, the present one last."""
    return (*sorted(UPGRADES), SCHEMA)


def lifted(document: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a document in the form of the present schema, and the schemas it came by; none where it is of this one.

    Raises
    ------
    IntegrityError
        It is of a schema that cannot be read, or a step found something else than its version holds.
    """
    came: list[str] = []
    while (schema := document.get("schema")) != SCHEMA:
        step = UPGRADES.get(schema) if isinstance(schema, str) and schema not in came else None
        if step is None:
            raise IntegrityError(f"{str(schema)[:80]!r}; this lqw reads {', '.join(readable())}")
        came.append(str(schema))
        try:
            document = step(dict(document))
        except (KeyError, TypeError, ValueError, AttributeError, LookupError) as err:
            raise IntegrityError(f"{schema}: not what that version holds: {err!r}"[:200]) from err
    return document, tuple(came)

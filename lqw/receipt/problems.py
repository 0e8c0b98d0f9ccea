"""One way in which a receipt contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Problem"]

SHOWN = 120  # characters of a value


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a receipt contradicts itself.

    Attributes
    ----------
    field : str
        Path of the value, as ``judgement.rows.3.ratio``.
    recorded, recomputed : object
        What stands there, and what should.
    check : str
        Which check found it: parse, schema, canonical, digest, structure, recompute or beside.
    """

    field: str
    recorded: Any
    recomputed: Any
    check: str = "structure"

    def __str__(self) -> str:
        """Return one clause: field, recorded value, value that follows."""
        return f"{self.field}: recorded {_show(self.recorded)}, but {_show(self.recomputed)} follows ({self.check})"

"""What a parity judge says: one word, the shape it holds for, and why."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from lqw.errors import Exit

__all__ = [
    "ParityVerdict",
    "Refusal",
    "Shape",
    "Word",
    "file_name",
    "is_sha256",
    "names_model",
    "shown",
    "told",
    "whole",
]

_MOST = 2**53 - 1  # beyond it two JSON readers may disagree about a number
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOLD = 200  # characters of somebody else's words
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class Refusal(ValueError):
    """Inside a judge: the receipt cannot pass, and why. Judges catch it; callers never see it."""


class Word(StrEnum):
    """The verdict. Only PASS ends in exit 0."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNMEASURED = "UNMEASURED"
    MISSING = "MISSING"
    STALE = "STALE"  # of another program than the one under test


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape a receipt holds for: the batch the server formed, and the requests that were in flight."""

    batch: int
    concurrency: int

    def __str__(self) -> str:
        """Return the form every verdict line carries."""
        return f"batch={self.batch} concurrency={self.concurrency}"


@dataclass(frozen=True, slots=True)
class ParityVerdict:
    """One receipt judged. ``shape`` is None only where no shape could be read; the line then says so."""

    kind: str
    model: str
    word: Word
    shape: Shape | None
    reasons: tuple[str, ...]
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_status(self) -> Exit:
        """Return 0 for PASS, 1 for everything else."""
        return Exit.PASS if self.word is Word.PASS else Exit.RED

    @property
    def line(self) -> str:
        """Return the verdict line: word, model, kind and always the shape."""
        shape = "unknown" if self.shape is None else str(self.shape)
        return f"{self.word} {self.model} {self.kind} shape {shape}: {'; '.join(self.reasons)}"

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``--json``."""
        return {
            "schema": "lqw-parity-verdict/1",
            "kind": self.kind,
            "model": self.model,
            "verdict": str(self.word),
            "shape": None if self.shape is None else {"batch": self.shape.batch, "concurrency": self.shape.concurrency},
            "reasons": list(self.reasons),
            "numbers": self.numbers,
            "exit": int(self.exit_status),
        }


def whole(value: object, *, least: int = 1) -> TypeGuard[int]:
    """Return whether *value* is a whole number from *least* on; True is not 1, and 4.0 is not 4."""
    return type(value) is int and least <= value <= _MOST


def shown(value: object) -> str:
    """Return a receipt's value as a message may quote it: short, and with every control character escaped."""
    return _SHORT.repr(value)


def told(value: object) -> str:
    """Return a receipt's own words as a message may carry them: one line, printable, cut where they are long."""
    text = value if isinstance(value, str) else shown(value)
    safe = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[: _TOLD + 1])
    return safe if len(safe) <= _TOLD else safe[: _TOLD - 1] + "…"


def is_sha256(value: object) -> TypeGuard[str]:
    """Return whether *value* is a lower-case hexadecimal sha256."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def file_name(path: str) -> str:
    """Return a path's last part, whichever way its slashes lean."""
    return path.replace("\\", "/").rpartition("/")[2]


def names_model(text: object, model: str) -> bool:
    """Return whether a model path or name is *model*'s, whatever its folder, case and quantisation.

    ``Qwen3.5-9B-Q4_K_M.gguf`` is ``qwen3.5-9b``; ``qwen3.5-9bx.gguf`` and ``qwen3.5-0.8b.gguf`` are not.
    """
    if not isinstance(text, str) or not model:
        return False
    name = file_name(text).lower().replace("_", "-")
    rest = name.removeprefix(model.lower().replace("_", "-"))
    return rest != name and not rest[:1].isalnum()

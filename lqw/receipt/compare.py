"""Recorded against recomputed, value by value: the first place where they part, and all others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lqw.canonical import json_bytes
from lqw.receipt.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ABSOLUTE", "RELATIVE", "WORDS", "differences"]

RELATIVE = 1e-9
"""Judgements are recorded with 12 significant digits; libraries of another machine move the last ones."""
ABSOLUTE = 1e-12
WORDS = frozenset({"sentence", "text", "reasons", "detail"})
"""Keys whose values are for people; no verdict is in them that is not in a typed field too."""
_ABSENT = "(absent)"


def differences(recorded: Any, recomputed: Any, path: str, *, words: bool = True) -> Iterator[Problem]:
    """Yield every place at which two JSON values differ.

    Numbers agree within 1e-9 relative (1e-12 absolute, for differences of logarithms around zero); everything else must
    be equal, and ``true`` is not 1.

    Parameters
    ----------
    recorded, recomputed : JSON values
    path : str
        Where the values stand, for the report.
    words : bool
        False leaves out what is written for people (:data:`WORDS`): another version of lqw may say it otherwise.
    """
    if isinstance(recorded, dict | list) and _alike(recorded, recomputed):
        return  # the usual case, words and all; what follows finds where two values part
    if isinstance(recorded, dict) and isinstance(recomputed, dict):
        for key in sorted((recorded.keys() | recomputed.keys()) - (frozenset() if words else WORDS)):
            old, new = recorded.get(key, _ABSENT), recomputed.get(key, _ABSENT)
            yield from differences(old, new, f"{path}.{key}", words=words)
    elif isinstance(recorded, list) and isinstance(recomputed, list):
        if len(recorded) != len(recomputed):
            yield Problem(path, f"{len(recorded)} items", f"{len(recomputed)} items", "recompute")
        for at, (old, new) in enumerate(zip(recorded, recomputed, strict=False)):
            yield from differences(old, new, f"{path}.{at}", words=words)
    elif not _same(recorded, recomputed):
        yield Problem(path, recorded, recomputed, "recompute")


def _alike(one: Any, other: Any) -> bool:
    try:
        return json_bytes(one) == json_bytes(other)
    except TypeError:
        return False


def _same(one: Any, other: Any) -> bool:
    if _number(one) and _number(other):
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(one) is type(other) and bool(one == other)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

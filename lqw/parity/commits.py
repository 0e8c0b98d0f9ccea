"""Commits as programs name them: read out of version words, and compared as what they are, prefixes of one hash."""

from __future__ import annotations

import re

__all__ = ["commit_of", "same_commit"]

_COMMIT = re.compile(r"\(([0-9a-f]{7,40})\)")
_ID = re.compile(r"[0-9a-f]{7,40}")


def commit_of(version: str, build: str = "") -> str:
    """Return the commit that an engine's version words name in brackets, else its build."""
    found = _COMMIT.search(version) or _COMMIT.search(build)
    return found[1] if found else build


def same_commit(one: str, other: str) -> bool:
    """Return whether two names are of one commit (PITFALLS 11).

    Of two hexadecimal ids, whole or cut short, the shorter begins the longer; build words must be equal.
    """
    short, long = sorted((one.lower(), other.lower()), key=len)
    if _ID.fullmatch(short) and _ID.fullmatch(long):
        return long.startswith(short)
    return bool(short) and short == long

"""What several commands take: words, and the day."""

from __future__ import annotations

from typing import Literal

__all__ = ["compute_named", "today"]


def compute_named(word: str) -> Literal["cpu", "cuda"]:
    """Return where to compute; UsageError for anything but cpu and cuda."""
    from lqw.errors import UsageError

    if word == "cpu":
        return "cpu"
    if word == "cuda":
        return "cuda"
    raise UsageError(f"--compute {word!r}: neither cpu nor cuda", remedy="write cpu or cuda")


def today() -> str:
    """Return this day, UTC, as records write it."""
    import datetime as dt

    return dt.datetime.now(dt.UTC).date().isoformat()

"""What a process said when it ended: one line of its log, for the reason of a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["last_words", "without_folders"]

_TELLING = re.compile(r"\berror\b|\bfailed\b|\bunrecogni[sz]ed\b|\bunknown\b|\bpanicked\b|\bcannot\b", re.IGNORECASE)
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/'\":]+/)+")
_MOST = 400  # characters


def without_folders(line: str) -> str:
    """Return a line of a log with each path shortened to its last name: a receipt carries no folder of this machine."""
    return _FOLDERS.sub("", line)


def last_words(tail: Sequence[str]) -> str:
    """Return ``: `` and the line of a log's *tail* that tells most, without folders of this machine; or nothing.

    The first line that speaks of an error, since what follows it tells what came of it (llama-server ends with
    "exiting due to model loading error"); where none does, the last line.
    """
    lines = [" ".join(line.split()) for line in tail if line.strip()]
    said = next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")
    return f": {without_folders(said)[:_MOST]}" if said else ""

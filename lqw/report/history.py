"""What was released before: the receipts of a host, each as it says of itself, its digest checked.

Nothing is judged again here: 200 receipts take seconds, not minutes. A receipt that is not what its digest says is
shown as INVALID, with no numbers; ``lqw verify`` recomputes the others.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lqw.canonical import sha256_bytes
from lqw.outcomes import RowVerdict
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.report.words import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lqw.report.facts import Facts
    from lqw.verdict.results import RowResult

__all__ = ["MOST_STEPS", "Past", "PastRow", "Step", "read_history", "steps_of"]

MOST_STEPS = 24  # runs a staircase shows: beyond, the index has them all


@dataclass(frozen=True, slots=True)
class PastRow:
    """A row of an earlier run; ratios are oriented (> 1 is better than the comparator), None where there is none."""

    ratio: float | None
    floor: float | None
    against_floor: float | None
    verdict: RowVerdict


@dataclass(frozen=True, slots=True)
class Past:
    """One receipt of the store. ``name`` is its file name without ``.json``; ``rows`` go by row id."""

    name: str
    release: str
    kind: Kind
    started_utc: str
    purpose: str = ""
    sentence: str = ""
    rows: Mapping[str, PastRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One run on a row's staircase: its ratio, and the floor it was judged against."""

    release: str
    ratio: float
    floor: float | None


def steps_of(row: RowResult, facts: Facts, history: Sequence[Past]) -> list[Step]:
    """Return a row's runs, oldest first, the one the page is about last.

    From the store's receipts that began before this run; without a store from what the receipt itself carries, the
    release that set the floor and the last one.
    """
    if row.ratio is None:
        return []
    name, began = str(row.row), str(facts.header.get("started_utc", ""))
    earlier = [past for past in history if past.started_utc < began and name in past.rows]
    found = [(past.name, past.rows[name]) for past in earlier]
    steps = [Step(which, one.ratio, one.floor) for which, one in found if one.ratio is not None]
    known = facts.standing.references.get(row.row)
    if not steps and known is not None:
        floor = math.exp(known.floor.value) if known.floor is not None else None
        points = {one.release: one for one in (known.floor, known.last) if one is not None}
        steps = [Step(release, math.exp(one.value), floor) for release, one in points.items()]
    return [*steps[1 - MOST_STEPS :], Step(facts.release, row.ratio, row.floor_ratio)]


def read_history(folder: Path) -> tuple[Past, ...]:
    """Return the receipts of a host's folder, oldest run first; an empty tuple where there is no folder."""
    if not folder.is_dir():
        return ()
    files = (path for path in folder.glob("*.json") if path.name not in (BASELINE, REFERENCE))
    return tuple(sorted(map(_past, files), key=lambda past: (past.started_utc, past.name)))


def _past(path: Path) -> Past:
    try:
        data = path.read_bytes()
        document = json.loads(data)
        if not _whole(data, str(document["digest"])):
            return Past(path.stem, path.stem, Kind.INVALID, "", sentence="The file is not what its digest says.")
        return _read(path.stem, document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        return Past(path.stem, path.stem, Kind.INVALID, "", sentence=f"Not a receipt: {err!r}"[:200])


def _whole(data: bytes, digest: str) -> bool:
    """Return whether a canonical file is what its digest says: the digest is of the same bytes without that member."""
    member = f'"digest":"{digest}",'.encode()
    return data.count(member) == 1 and sha256_bytes(data.replace(member, b"").removesuffix(b"\n")) == digest


def _read(name: str, document: Mapping[str, Any]) -> Past:
    judgement, header = document["judgement"], document["header"]
    counts = judgement["counts"]
    void = judgement["outcome"] == "UNDECIDED" and counts["void"] and not counts["failed"]
    return Past(
        name=name,
        release=str(judgement["release"]),
        kind=Kind.VOID if void else Kind(judgement["outcome"]),
        started_utc=str(header["started_utc"]),
        purpose=str(judgement["purpose"]),
        sentence=str(judgement["sentence"]),
        rows={str(row["row"]): _row(row) for row in judgement["rows"]},
    )


def _row(row: Mapping[str, Any]) -> PastRow:
    return PastRow(
        _positive(row["ratio"]), _positive(row["floor_ratio"]), _positive(row["against_floor"]),
        RowVerdict(row["verdict"]),
    )  # fmt: skip


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and value > 0 else None

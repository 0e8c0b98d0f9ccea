"""Past releases from receipts: only what verifies is looked at, and what does not is named."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import Exit, UsageError
from lqw.lab.history import History, Release
from lqw.noise.pairs import complete_pairs, pair_rows, row_problem
from lqw.noise.rows import Call, RowData
from lqw.outcomes import Purpose, RowVerdict
from lqw.receipt.inputs import params_of, plan_of
from lqw.receipt.schema import Receipt
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.receipt.verify import verify_receipt
from lqw.verdict import standing_from_json
from lqw.verdict.targets import folded_targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lqw.metrics import RowId
    from lqw.samples import StartRecord
    from lqw.verdict import Judgement

__all__ = ["CALL_OF", "find_receipts", "load_receipts"]

CALL_OF = {
    RowVerdict.RED: Call.RED,
    RowVerdict.SHIFT: Call.RED,
    RowVerdict.PASS: Call.PASS,
    RowVerdict.IMPROVED: Call.PASS,
    RowVerdict.INCONCLUSIVE: Call.OPEN,
}
"""What a method itself says behind a row's verdict. SUSPECT, VOID and the like are other checks': not compared."""


def find_receipts(places: Iterable[Path | str]) -> list[Path]:
    """Return the receipts named, and those in the folders named (``receipts/HOST``)."""
    out: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            found = (path for path in sorted(place.glob("*.json")) if path.name not in (BASELINE, REFERENCE))
            out += found
        else:
            out.append(place)
    return out


def load_receipts(places: Sequence[Path | str]) -> tuple[History, tuple[str, ...]]:
    """Return the gate runs among receipts, oldest first, and a line for every receipt that was left out.

    Parameters
    ----------
    places : sequence of paths
        Receipts, or folders of them.

    Raises
    ------
    UsageError
        Nothing is left to look at; the message says why each one was left out.
    """
    found: list[tuple[str, Release]] = []
    left_out: list[str] = []
    for path in find_receipts(places):
        verified = verify_receipt(path)
        if verified.exit_status is Exit.INVALID or verified.judgement is None:
            problem = verified.problems[0] if verified.problems else "not a receipt"
            left_out.append(f"{path}: INVALID: {problem}")
            continue
        receipt = Receipt.model_validate_json(path.read_bytes())
        if receipt.header.purpose is not Purpose.GATE:
            left_out.append(f"{path}: {verified.outcome}: a floor, not judged")
            continue
        found.append((receipt.run.finished_utc, _release(receipt, verified.judgement)))
    releases = tuple(release for _, release in sorted(found, key=lambda one: one[0]))
    if not any(release.rows for release in releases):
        reasons = "; ".join(left_out) or "no receipt there"
        raise UsageError(f"no measured row to look at: {reasons}", remedy="name receipts of gate runs: receipts/HOST")
    return History(releases, ", ".join(map(str, places)), synthetic=False), tuple(left_out)


def _release(receipt: Receipt, judgement: Judgement) -> Release:
    params = params_of(receipt.header)
    plan, standing = plan_of(receipt.header, params), standing_from_json(receipt.standing)
    void = {row.row for row in judgement.rows if row.verdict is RowVerdict.VOID}
    formed = pair_rows(receipt.starts, plan.rows, min_window_s=params.protocol.min_window_s)
    first = plan.policy.looks[0]
    rows = tuple(
        data
        for row, data in formed.items()
        if isinstance(data, RowData) and row not in void and row_problem(data.first(first)) is None
    )
    pairs = complete_pairs(receipt.starts)
    return Release(
        name=judgement.release,
        host=receipt.header.host.name,
        rows=rows,
        references=standing.references,
        folded=folded_targets(standing.targets_met, params.targets.targets),
        policy=plan.policy,
        planned=len(plan.rows),
        pairs=pairs,
        pair_minutes=_pair_minutes(receipt.starts, pairs),
        recorded=_recorded(judgement),
    )


def _recorded(judgement: Judgement) -> dict[RowId, Call]:
    return {row.row: CALL_OF[row.verdict] for row in judgement.rows if row.verdict in CALL_OF}


def _pair_minutes(starts: Iterable[StartRecord], pairs: dict[str, int]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for start in starts:
        total[start.model] += start.wall_s / 60
    return {model: total[model] / n for model, n in pairs.items() if n > 0}

"""What a finished run leaves in the store: its receipt, and what the receipt earned.

Verdict first, then the receipt, then the baseline: a RED run leaves a receipt and moves nothing (PITFALLS 34).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import canonical_bytes, read_json, sha256_file, write_atomic
from lqw.correctness import IdentityTask, parse_reference, reference_from, reference_to_json
from lqw.correctness.adoption import adopt_reference
from lqw.errors import IntegrityError
from lqw.journal import read_journal
from lqw.outcomes import Outcome
from lqw.ratchet import adopt, advance, baseline_to_json, parse_baseline
from lqw.receipt import params_of
from lqw.receipt.inputs import epoch_of
from lqw.receipt.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.journal import Journal
    from lqw.pipeline.runs import Folder, RunInfo
    from lqw.ratchet import Baseline, EpochKey
    from lqw.ratchet.moves import Moved
    from lqw.receipt import Verification
    from lqw.verdict import Judgement

__all__ = ["store_rest", "store_run"]


def store_run(folder: Folder, info: RunInfo, checked: Verification) -> tuple[Path, tuple[str, ...]]:
    """Put the receipt into the store and move the baseline if it was earned; return its place and what moved."""
    stored = Store(info.store).put(folder.receipt)
    return stored, _earned(info, checked, read_journal(folder.journal), moving=True)


def store_rest(stored: Path, folder: Folder, info: RunInfo, checked: Verification) -> tuple[str, ...]:
    """Do what a run that was killed between its receipt and its end left undone; return what was done.

    Its baseline is still to be moved if it is, byte for byte, the one the receipt was judged against: whatever moved it
    since, this run or a later one, came after.
    """
    held = Store(info.store).baseline(info.host)
    now = sha256_file(held) if held.is_file() else None
    moving = now == read_json(stored)["sources"]["baseline"]
    return _earned(info, checked, read_journal(folder.journal), moving=moving)


def _earned(info: RunInfo, checked: Verification, journal: Journal, *, moving: bool) -> tuple[str, ...]:
    """Do what a stored receipt earned: move the baseline, where that is still to be done, and keep a floor's tokens."""
    judgement, store = checked.judgement, Store(info.store)
    if judgement is None or checked.outcome not in (Outcome.PASS, Outcome.FLOOR):
        return ("baseline untouched",)
    notes = [_move(store, info.host, judgement, journal, checked.receipt_sha256)] if moving else []
    if checked.outcome is Outcome.FLOOR:
        notes += _reference(store, info.host, journal)
    return tuple(notes)


def _move(store: Store, host: str, judgement: Judgement, journal: Journal, sha256: str) -> str:
    key = epoch_of(journal.header, params_of(journal.header), journal.starts)
    if key is None:
        raise IntegrityError(f"{judgement.release}: a verdict without a comparator")
    place = store.baseline(host)
    before = parse_baseline(place.read_bytes(), name=str(place)) if place.is_file() else None
    moved = _moved(before, judgement, key, host, sha256)
    if moved.changed:
        write_atomic(place, canonical_bytes(baseline_to_json(moved.baseline)))
    return f"baseline: {len({m.row for m in moved.moves})} rows looked at, {'moved' if moved.changed else 'unchanged'}"


def _moved(before: Baseline | None, judgement: Judgement, key: EpochKey, host: str, sha256: str) -> Moved:
    if judgement.outcome is Outcome.FLOOR:
        return adopt(before, judgement, key, host=host, receipt_sha256=sha256)
    if before is None:
        raise IntegrityError("a PASS without a baseline", remedy="restore baseline.json from git")
    return advance(before, judgement, key, receipt_sha256=sha256)


def _reference(store: Store, host: str, journal: Journal) -> list[str]:
    place = store.reference(host)
    held = parse_reference(place.read_bytes(), name=str(place)) if place.is_file() else None
    new = reference_from(journal.identities, journal.starts, task=IdentityTask.from_header(journal.header))
    adoption = adopt_reference(held, new)
    if adoption.added:
        write_atomic(place, canonical_bytes(reference_to_json(adoption.reference)))
    notes = [f"token reference: {', '.join(sorted(adoption.reference.models)) or 'none'}"]
    return notes + [f"token reference of {name} REFUSED: {why}" for name, why in adoption.refused.items()]

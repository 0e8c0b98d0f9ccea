"""Whether one version of a baseline, or of a token reference, follows from another by what a store holds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, sha256_bytes
from lqw.correctness import IdentityTask, parse_reference, reference_from, reference_to_json
from lqw.correctness.adoption import adopt_reference
from lqw.correctness.rebase import ReferenceRebase, rebase_reference
from lqw.errors import LqwError
from lqw.outcomes import Outcome
from lqw.ratchet import (
    Baseline,
    RebaseRecord,
    RetireRecord,
    adopt,
    advance,
    baseline_to_json,
    parse_baseline,
    point_of,
    rebase,
    retire,
)
from lqw.receipt import epoch_of, params_of
from lqw.receipt.compare import differences
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.release.records import RECORDS, HeldRecord, parse_any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.correctness import IdentityReference
    from lqw.receipt.schema import Receipt
    from lqw.receipt.verify import Verification
    from lqw.release.git import Repository
    from lqw.release.judged import Judged
    from lqw.release.tree import Tree
    from lqw.verdict import Judgement

__all__ = ["Mover"]

MAX_STEPS = 8  # moves that one commit may hold


class _Measured:
    """A receipt that verifies."""

    def __init__(self, receipt: Receipt, judgement: Judgement, sha256: str, outcome: Outcome) -> None:
        self.receipt, self.judgement, self.sha256, self.outcome = receipt, judgement, sha256, outcome

    @cached_property
    def tokens(self) -> IdentityReference | None:
        """Return its answers as a reference of its own; None where it has none."""
        try:
            task = IdentityTask.from_header(self.receipt.header)
            return reference_from(self.receipt.identities, self.receipt.starts, task=task)
        except LqwError:
            return None


class Mover:
    """Explains moves. Each receipt is looked at once, by the blob it is.

    Parameters
    ----------
    repository : Repository
    judged : Judged
    as_recorded : bool
        Take the judgement that a receipt carries where it was not judged yet: several times as quick.
    """

    def __init__(self, repository: Repository, judged: Judged, *, as_recorded: bool = False) -> None:
        self._repository, self._look = repository, judged.said if as_recorded else judged.again
        self._seen: dict[str, _Measured | None] = {}

    def baseline(self, commit: str, store: str, old: str | None, new: str) -> str:
        """Return why a baseline does not follow from the one before it; empty where it does.

        Parameters
        ----------
        commit : str
            In whose tree the receipts and records lie.
        store : str
            The host's folder.
        old, new : str
            Blobs; None for the first baseline.
        """
        if self._merged(commit, f"{store}/{BASELINE}", old, new):
            return ""
        tree = self._repository.tree(commit)
        blobs = self._repository.blobs([new] if old is None else [old, new])
        wanted = baseline_to_json(parse_baseline(blobs[-1], name=f"{store}/{BASELINE}"))
        first = None if old is None else parse_baseline(blobs[0], name=f"{store}/{BASELINE}")
        states: list[tuple[Baseline | None, str | None]] = [(first, None if old is None else sha256_bytes(blobs[0]))]
        nearest = ""
        for _ in range(MAX_STEPS):
            after = [found for state, sha256 in states for found in self._next(tree, store, state, sha256)]
            for one, _ in after:
                parts = list(differences(baseline_to_json(one), wanted, "baseline"))
                if not parts:
                    return ""
                nearest = nearest or str(parts[0])
            states = list(after)
            if not states:
                break
        if nearest:
            return f"not what its receipts and records make of it: {nearest}"
        return "moved without a receipt that earned it or a record"

    def _merged(self, commit: str, path: str, old: str | None, new: str) -> bool:
        """Return whether a merge took over a parent's version that has come from this parent's by moves looked at."""
        parents = self._repository.parents(commit)
        for parent in parents if len(parents) > 1 else []:
            if self._repository.blob_at(parent, path) == new:
                known = {one.new for one in self._repository.changes([parent], [path])}
                if old is None or old in known:
                    return True
        return False

    def _next(
        self, tree: Tree, store: str, state: Baseline | None, sha256: str | None
    ) -> Iterator[tuple[Baseline, str]]:
        for one in self._receipts(tree, store):
            if one.receipt.sources.baseline == sha256 and (moved := _by_receipt(one, state)) is not None:
                yield moved, sha256_bytes(canonical_bytes(baseline_to_json(moved)))
        if state is None:
            return
        measured = {one.sha256: one for one in self._receipts(tree, store, every=True)}
        for held in self._records(tree, store):
            moved = _by_record(held, state, measured)
            if moved is not None:
                yield moved, sha256_bytes(canonical_bytes(baseline_to_json(moved)))

    def reference(self, commit: str, store: str, old: str | None, new: str) -> str:
        """Return why a token reference does not follow from the one before it; empty where it does."""
        if self._merged(commit, f"{store}/{REFERENCE}", old, new):
            return ""
        tree = self._repository.tree(commit)
        blobs = self._repository.blobs([new] if old is None else [old, new])
        wanted = reference_to_json(parse_reference(blobs[-1], name=f"{store}/{REFERENCE}"))
        held = None if old is None else parse_reference(blobs[0], name=f"{store}/{REFERENCE}")
        records = [one for one in self._records(tree, store) if isinstance(one.record, ReferenceRebase)]
        states: dict[str | None, IdentityReference | None] = {_sha256_of(held): held}
        for step in range(MAX_STEPS):
            after: dict[str | None, IdentityReference | None] = {}
            for sha256, state in states.items():
                for one in self._receipts(tree, store, every=True):
                    if step and one.receipt.sources.reference != sha256:
                        continue  # several runs in one commit follow each other
                    for moved in _answers(state, one, records):
                        if _equal(moved, wanted):
                            return ""
                        after[_sha256_of(moved)] = moved
            states = after
        return "moved without an adopt run or a record that gives these answers"

    def _receipts(self, tree: Tree, store: str, *, every: bool = False) -> Iterator[_Measured]:
        for path, entry in tree.files(store).items():
            name = path[len(store) + 1 :]
            if "/" in name or not name.endswith(".json") or name in (BASELINE, REFERENCE):
                continue
            if entry.blob not in self._seen:
                self._seen[entry.blob] = _measured(self._look(tree, store, path))
            found = self._seen[entry.blob]
            if found is not None and (every or found.outcome in (Outcome.PASS, Outcome.FLOOR)):
                yield found

    def _records(self, tree: Tree, store: str) -> Iterator[HeldRecord]:
        paths = [path for path in tree.files(f"{store}/{RECORDS}") if path.endswith(".json")]
        for path, data in zip(paths, tree.read(paths), strict=True):
            try:
                yield HeldRecord(path, data, parse_any(data, path))
            except LqwError:
                continue  # the tag gate names it; it can explain nothing


def _measured(verified: Verification) -> _Measured | None:
    if verified.judgement is None or verified.receipt is None or verified.problems:
        return None
    return _Measured(verified.receipt, verified.judgement, verified.receipt_sha256, verified.outcome)


def _by_receipt(one: _Measured, state: Baseline | None) -> Baseline | None:
    header = one.receipt.header
    key = epoch_of(header, params_of(header), one.receipt.starts)
    if key is None:
        return None
    if one.outcome is Outcome.FLOOR:
        moved = adopt(state, one.judgement, key, host=header.host.name, receipt_sha256=one.sha256)
    elif state is not None:
        moved = advance(state, one.judgement, key, receipt_sha256=one.sha256)
    else:
        return None
    return moved.baseline if moved.changed else None


def _by_record(held: HeldRecord, state: Baseline, measured: dict[str, _Measured]) -> Baseline | None:
    record = held.record
    try:
        if isinstance(record, RetireRecord):
            return retire(state, record, name=held.path, record_sha256=held.sha256)
        if isinstance(record, RebaseRecord) and (evidence := measured.get(record.evidence_receipt_sha256)) is not None:
            rows = {row.row: row for row in evidence.judgement.rows if row.d}
            if record.row in rows:
                release = evidence.judgement.release
                point = point_of(rows[record.row], release=release, receipt_sha256=evidence.sha256)
                return rebase(state, record, point, name=held.path, record_sha256=held.sha256)
    except LqwError:
        return None  # it does not fit this state: it was applied before, or belongs to a later one
    return None


def _sha256_of(reference: IdentityReference | None) -> str | None:
    return None if reference is None else sha256_bytes(canonical_bytes(reference_to_json(reference)))


def _answers(held: IdentityReference | None, one: _Measured, records: list[HeldRecord]) -> Iterator[IdentityReference]:
    """Yield what a receipt makes of a reference, by itself and by each record."""
    if one.tokens is None:
        return
    if one.outcome is Outcome.FLOOR:
        yield adopt_reference(held, one.tokens).reference
    rebased = (_rebased(held, one.tokens, record, one.sha256) for record in records)
    yield from (moved for moved in rebased if moved is not None)


def _rebased(
    held: IdentityReference | None, tokens: IdentityReference, record: HeldRecord, sha256: str
) -> IdentityReference | None:
    if not isinstance(record.record, ReferenceRebase):
        return None
    try:
        return rebase_reference(held, tokens, record.record, evidence_sha256=sha256, name=record.path)
    except LqwError:
        return None


def _equal(reference: IdentityReference, wanted: dict[str, Any]) -> bool:
    return not list(differences(reference_to_json(reference), wanted, "reference"))

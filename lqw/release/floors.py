"""Whether the store held the floors a receipt was judged against, and whether they may still be used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lqw.canonical import sha256_bytes
from lqw.correctness import parse_reference, reference_to_json
from lqw.errors import IntegrityError, LqwError
from lqw.ratchet import FloorSource, RatchetState, parse_baseline
from lqw.receipt.compare import differences
from lqw.receipt.inputs import epoch_of, params_of, standing_for
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.release.findings import Finding, invalid, undecided
from lqw.verdict import standing_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.ratchet import Baseline, Epoch
    from lqw.receipt.schema import Receipt
    from lqw.release.git import Change, Repository
    from lqw.release.records import HeldRecord
    from lqw.release.tree import Tree
    from lqw.verdict import Judgement

__all__ = ["GiveUp", "epoch_in", "give_up", "rebased_findings", "source_findings", "taken_findings"]

_AT_ONCE = 8  # versions of a baseline that are read at a time, the newest first


@dataclass(frozen=True, slots=True)
class GiveUp:
    """How far the rows of an epoch have come down since its first release; ratios, above one is better.

    Attributes
    ----------
    total : float
        Geometric mean over the rows.
    rows : tuple of (row, ratio)
        The worst first.
    """

    total: float
    rows: tuple[tuple[str, float], ...]


def committed_version(repository: Repository, changes: Sequence[Change], path: str, sha256: str) -> bytes | None:
    """Return the version of a file whose bytes have this hash, out of its history; None where there never was one."""
    ids = list(dict.fromkeys(one.new for one in reversed(changes) if one.path == path and one.status != "D"))
    for at in range(0, len(ids), _AT_ONCE):
        for data in repository.blobs(ids[at : at + _AT_ONCE]):
            if sha256_bytes(data) == sha256:
                return data
    return None


def source_findings(
    repository: Repository, changes: Sequence[Change], store: str, receipt: Receipt, host: str
) -> tuple[Baseline | None, list[Finding]]:
    """Return the baseline a receipt was judged by, and where its floors or tokens are not what the store ever held.

    Parameters
    ----------
    repository : Repository
    changes : sequence of Change
        Of the store, in the tag's history.
    store : str
        The host's folder.
    receipt : Receipt
    host : str
    """
    held: dict[str, bytes | None] = {}
    for name, sha256 in ((BASELINE, receipt.sources.baseline), (REFERENCE, receipt.sources.reference)):
        held[name] = None if sha256 is None else committed_version(repository, changes, f"{store}/{name}", sha256)
        if sha256 is not None and held[name] is None:
            text = f"no committed version of {store}/{name} has the sha256 {sha256[:12]} that the receipt was judged by"
            return None, [invalid("chain", text, host)]
    try:
        data, tokens = held[BASELINE], held[REFERENCE]
        baseline = None if data is None else _parsed(data, f"{store}/{BASELINE}")
        standing = standing_to_json(standing_for(baseline, receipt.header, receipt.starts))
        reference = None if tokens is None else reference_to_json(parse_reference(tokens, name=f"{store}/{REFERENCE}"))
    except LqwError as err:
        return None, [invalid("chain", err.message.replace("\n", " "), host)]
    wrong = [
        *differences(receipt.standing, standing, "standing"),
        *differences(receipt.reference, reference, "reference"),
    ]
    return baseline, [invalid("chain", f"not what the store held: {one}", host) for one in wrong[:1]]


def taken_findings(tree: Tree, store: str, receipt: Receipt, sha256: str, host: str) -> Iterator[Finding]:
    """Yield a finding where the baseline at the tag does not know the receipt: the next release would not follow it."""
    path = f"{store}/{BASELINE}"
    data = tree.find(path)
    if data is None:
        yield undecided("chain", f"{path}: not committed; commit it with the receipt that moved it", host)
        return
    try:
        epoch = epoch_in(_parsed(data, path), receipt)
    except IntegrityError as err:
        yield invalid("chain", err.message, host)
        return
    entries = {} if epoch is None else epoch.rows
    held = [
        point
        for entry in entries.values()
        for point in (entry.floor, entry.last, *entry.history)
        if point is not None and point.receipt_sha256 == sha256
    ]
    if not held:
        text = f"{path} does not know this receipt ({sha256[:12]}): commit the baseline that it moved, with it"
        yield undecided("chain", text, host)


@lru_cache(maxsize=8)
def _parsed(data: bytes, name: str) -> Baseline:
    """Return a baseline, frozen; one check after another asks for the same."""
    return parse_baseline(data, name=name)


def epoch_in(baseline: Baseline, receipt: Receipt) -> Epoch | None:
    """Return the epoch of a baseline that a receipt belongs to, or None."""
    key = epoch_of(receipt.header, params_of(receipt.header), receipt.starts)
    return None if key is None else baseline.find(key)


def rebased_findings(
    baseline: Baseline, receipt: Receipt, records: Sequence[HeldRecord], *, day: str, host: str
) -> Iterator[Finding]:
    """Yield every row that a record lowered or retired where that record is missing, or has expired since the run.

    Parameters
    ----------
    baseline : Baseline
        The one the receipt was judged by.
    records : sequence of HeldRecord
        Those of the host at the tag.
    day : str
        ISO: on which the tag is, or would be, made.
    """
    epoch = epoch_in(baseline, receipt)
    known = {one.sha256: one.path for one in records}
    for row, entry in {} if epoch is None else epoch.rows.items():
        if entry.floor_source is not FloorSource.REBASE and entry.state is not RatchetState.RETIRED:
            continue
        did = (
            "was retired"
            if entry.state is RatchetState.RETIRED
            else f"has a floor of {math.exp(entry.floor.value):.4f}"
        )
        path = known.get(entry.record_sha256)
        if path is None:
            named = entry.record_sha256[:12] or "no record"
            yield invalid("record", f"{row} {did} by {named}, and no such record is in the store", host)
        elif receipt.header.started_utc[:10] < entry.floor_expires <= day:
            text = f"{path}: expired on {entry.floor_expires}; {row} was judged by the floor it lowered"
            yield undecided("record", f"{text}. Measure again: the floor before it has returned", host)


def give_up(tree: Tree, store: str, receipt: Receipt, judgement: Judgement) -> GiveUp | None:
    """Return what the release gives up against the first release of its epoch; None where no floor is known."""
    data = tree.find(f"{store}/{BASELINE}")
    try:
        epoch = None if data is None else epoch_in(_parsed(data, f"{store}/{BASELINE}"), receipt)
    except IntegrityError:
        return None
    if epoch is None:
        return None
    rows = {
        str(one.row): math.log(one.ratio) - epoch.rows[one.row].first
        for one in judgement.rows
        if one.ratio is not None and one.row in epoch.rows
    }
    if not rows:
        return None
    worst = sorted(rows.items(), key=lambda item: item[1])
    return GiveUp(
        math.exp(math.fsum(rows.values()) / len(rows)), tuple((name, math.exp(change)) for name, change in worst)
    )

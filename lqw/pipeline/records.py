"""Records of floors: written from what the store holds, checked against it, and applied once two people stand for them.

A record is written to ``<store>/<host>/records/NNNN-<kind>.json`` and changes nothing; signed where the host needs it,
it is applied, and the baseline's entry then names the record by its sha256.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, loads_strict, read_json, sha256_bytes, write_atomic
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import RowState, RowVerdict
from lqw.ratchet import (
    EpochKey,
    RebaseRecord,
    RetireRecord,
    baseline_to_json,
    epoch_differences,
    parse_baseline,
    point_of,
    rebase,
    retire,
)
from lqw.receipt import verify_receipt
from lqw.receipt.signing import verify_record
from lqw.receipt.store import Store
from lqw.records import HostRecord, parse_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lqw.metrics import RowId
    from lqw.ratchet import Baseline, Epoch, Point
    from lqw.receipt import Verification
    from lqw.records import TwoPersonRecord

__all__ = ["apply_record", "write_rebase", "write_retire", "write_retire_host"]

_NUMBERED = re.compile(r"(\d{4})-.*\.json")


def write_rebase(store: Store, host: str, row: RowId, receipt: Path, said: Mapping[str, Any]) -> Path:
    """Write the record that would lower one floor to what *receipt* measured; return its path.

    Parameters
    ----------
    store, host
        Where the floor is held.
    row : RowId
    receipt : path
        A receipt of the store: the evidence.
    said : mapping
        What people say: ``reason``, ``author``, ``approver``, ``created`` and ``expires`` or ``permanent``.

    Raises
    ------
    UsageError, ParamsError
        Naming what the floor, the evidence or the rules refuse. Nothing was written.
    """
    baseline = _baseline(store, host)
    sha256, verified = _evidence(store, host, receipt)
    epoch = _epoch(baseline, receipt)
    point = _point(verified, row, receipt)
    entry = epoch.rows.get(row)
    if entry is None:
        raise UsageError(f"{row}: has no floor in epoch {epoch.key.sha256[:12]}", remedy=f"lqw baseline show {host}")
    body = {
        "schema": "lqw-rebase/1",
        "host": host,
        "epoch_sha256": epoch.key.sha256,
        "row": str(row),
        "old_floor": math.exp(entry.floor_on(said["created"]).value),
        "new_floor": math.exp(point.value),
        "evidence_receipt_sha256": sha256,
        **said,
    }
    place = _next(store, host, "rebase")
    record = parse_record(RebaseRecord, canonical_bytes(body), name=place.name)
    rebase(baseline, record, point, name=place.name)
    return _written(place, record)


def write_retire(store: Store, host: str, rows: Sequence[RowId], receipt: Path, said: Mapping[str, Any]) -> Path:
    """Write the record that would retire *rows*; arguments and errors as :func:`write_rebase`."""
    baseline = _baseline(store, host)
    sha256, _ = _evidence(store, host, receipt)
    body = {
        "schema": "lqw-retire/1",
        "host": host,
        "epoch_sha256": _epoch(baseline, receipt).key.sha256,
        "rows": [str(row) for row in rows],
        "evidence_receipt_sha256": sha256,
        **said,
    }
    place = _next(store, host, "retire")
    record = parse_record(RetireRecord, canonical_bytes(body), name=place.name)
    retire(baseline, record, name=place.name)
    return _written(place, record)


def write_retire_host(store: Store, host: str, release: str, receipt: Path, said: Mapping[str, Any]) -> Path:
    """Write the record by which *release* is not measured on a host any more; the rest as :func:`write_rebase`."""
    sha256, _ = _evidence(store, host, receipt)
    body = {
        "schema": "lqw-retire-host/1",
        "host": host,
        "release": release,
        "evidence_receipt_sha256": sha256,
        **said,
    }
    place = _next(store, host, "retire-host")
    return _written(place, parse_record(HostRecord, canonical_bytes(body), name=place.name))


def apply_record(path: Path, *, params: Path | None = None) -> tuple[str, ...]:
    """Carry out a record of the store, and return in words what changed and who stands for it.

    Parameters
    ----------
    path : path
        ``<store>/<host>/records/<name>.json``.
    params : path, optional
        Folder that says who may sign; default: that of the repository the record lies in.

    Raises
    ------
    UsageError, ParamsError
        It is no record, contradicts the baseline, or its evidence is not in the store.
    IntegrityError
        The two people's signatures that this host needs are not there.
    """
    store, host, data = _opened(path)
    name, sha256 = path.name, sha256_bytes(data)
    schema = str(loads_strict(data, name=name).get("schema", ""))
    if schema.startswith("lqw-retire-host/"):
        raise UsageError(f"{path}: moves no floor; there is nothing to apply", remedy=f"sign and commit it: {path}")
    kind: type[RebaseRecord | RetireRecord] = RetireRecord if schema.startswith("lqw-retire/") else RebaseRecord
    record = parse_record(kind, data, name=name)
    if record.host != host:
        raise UsageError(f"{path}: is about host {record.host!r}", remedy="records lie with their own host")
    signed = verify_record(path, params)
    if signed.problems:
        raise IntegrityError(f"{path}: {signed.problems[0]}", remedy=f"author and approver: lqw sign {path}")
    before = _baseline(store, host)
    receipt = store.find(host, record.evidence_receipt_sha256)
    if receipt is None:
        text = f"{path}: no receipt of {host} has the sha256 {record.evidence_receipt_sha256[:12]}…"
        raise UsageError(text, remedy="commit the evidence first")
    _, verified = _evidence(store, host, receipt)
    if isinstance(record, RebaseRecord):
        _epoch(before, receipt)
        point = _point(verified, record.row, receipt)
        after = rebase(before, record, point, name=name, record_sha256=sha256)
        text = f"{record.row}: floor {record.old_floor:.3f} → {record.new_floor:.3f}, " + (
            f"until {record.expires}" if record.expires else "for good"
        )
    else:
        after = retire(before, record, name=name, record_sha256=sha256)
        text = f"retired: {', '.join(map(str, record.rows))}"
    write_atomic(store.baseline(host), canonical_bytes(baseline_to_json(after)))
    return (text, *(f"signed by {who}" for who in signed.signers), *signed.notes)


def _opened(path: Path) -> tuple[Store, str, bytes]:
    folder = path.resolve().parent
    if folder.name != "records" or not path.is_file():
        raise UsageError(f"{path}: no record of a store", remedy="name <store>/<host>/records/<record>.json")
    return Store(folder.parent.parent), folder.parent.name, path.read_bytes()


def _baseline(store: Store, host: str) -> Baseline:
    place = store.baseline(host)
    if not place.is_file():
        raise UsageError(f"{place}: no such file", remedy=f"lqw baseline adopt PARAMS --host {host}")
    return parse_baseline(place.read_bytes(), name=str(place))


def _evidence(store: Store, host: str, receipt: Path) -> tuple[str, Verification]:
    verified = verify_receipt(receipt)
    if verified.exit_status is Exit.INVALID or verified.host != host:
        why = verified.problems[0] if verified.problems else f"is of host {verified.host!r}"
        raise UsageError(f"{receipt}: no evidence: {why}", remedy=f"name a receipt of {host} that verifies")
    if store.find(host, verified.receipt_sha256) is None:
        raise UsageError(f"{receipt}: not in {store.folder(host)}", remedy="evidence is a receipt of the store")
    return verified.receipt_sha256, verified


def _epoch(baseline: Baseline, receipt: Path) -> Epoch:
    held = read_json(receipt)["epoch"]
    key = None if held is None else EpochKey.model_validate_json(canonical_bytes(held))
    epoch = None if key is None else baseline.find(key)
    if epoch is None:
        parts = () if key is None else epoch_differences(baseline.epochs[-1].key, key)
        why = "; ".join(parts) or "no comparator started in it"
        raise UsageError(f"{receipt}: of no epoch of this baseline: {why}", remedy="measure in the floor's own epoch")
    return epoch


def _point(verified: Verification, row: RowId, receipt: Path) -> Point:
    """Return the row as the evidence measured it; nothing void, failed or suspect ever becomes a floor."""
    judgement = verified.judgement
    result = next((one for one in judgement.rows if one.row == row), None) if judgement is not None else None
    if judgement is None or result is None:
        raise UsageError(f"{receipt}: does not measure {row}", remedy="name the receipt that shows the loss")
    if result.state is not RowState.MEASURED or result.verdict is RowVerdict.SUSPECT:
        raise UsageError(
            f"{receipt}: {row} is {result.verdict} there: {result.text}", remedy="such a row never becomes a floor"
        )
    if any(guard.guard == "null_control" and guard.effect == "undecided" for guard in judgement.guards):
        raise UsageError(f"{receipt}: its null control fired", remedy="it cannot tell two engines apart: no floor")
    return point_of(result, release=verified.release, receipt_sha256=verified.receipt_sha256)


def _next(store: Store, host: str, kind: str) -> Path:
    folder = store.records(host)
    found = (_NUMBERED.fullmatch(path.name) for path in folder.glob("*.json"))
    last = max((int(match[1]) for match in found if match), default=0)
    return folder / f"{last + 1:04d}-{kind}.json"


def _written(place: Path, record: TwoPersonRecord) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, canonical_bytes(record.model_dump(mode="json", by_alias=True)))
    return place

"""The records of a host: files of ``<store>/records/``, each typed, signed as the policy wants, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict, sha256_bytes
from lqw.correctness.rebase import ReferenceRebase
from lqw.errors import IntegrityError, LqwError
from lqw.ratchet import RebaseRecord, RetireRecord
from lqw.receipt.dsse import BUNDLE_SUFFIX
from lqw.receipt.signature import check_record
from lqw.records import HostRecord, parse_record
from lqw.release.findings import Finding, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.params.signers import Signers
    from lqw.release.tree import Tree

__all__ = ["RECORDS", "HeldRecord", "read_records", "record_findings"]

RECORDS = "records"
AnyRecord = RebaseRecord | RetireRecord | ReferenceRebase | HostRecord


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """One record file."""

    path: str
    data: bytes
    record: AnyRecord

    @property
    def sha256(self) -> str:
        """Return the hash by which a baseline names the record."""
        return sha256_bytes(self.data)


def read_records(tree: Tree, store: str, host: str) -> tuple[list[HeldRecord], list[Finding]]:
    """Return the records of a host, and which of them cannot be read."""
    paths = [path for path in tree.files(f"{store}/{RECORDS}") if path.endswith(".json")]
    held: list[HeldRecord] = []
    found: list[Finding] = []
    for path, data in zip(paths, tree.read(paths), strict=True):
        try:
            held.append(HeldRecord(path, data, parse_any(data, path)))
        except LqwError as err:
            found.append(invalid("record", err.message.replace("\n", " "), host))
    return held, found


def parse_any(data: bytes, path: str) -> AnyRecord:
    """Read a record of any kind, strictly; IntegrityError or ParamsError names file, field and problem."""
    value: Any = loads_strict(data, name=path)
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema == "lqw-rebase/1":
        return parse_record(RebaseRecord, data, name=path)
    if schema == "lqw-retire/1":
        return parse_record(RetireRecord, data, name=path)
    if schema == "lqw-reference-rebase/1":
        return parse_record(ReferenceRebase, data, name=path)
    if schema == "lqw-retire-host/1":
        return parse_record(HostRecord, data, name=path)
    raise IntegrityError(f"{path}: schema {str(schema)[:40]!r} is no record's")


def record_findings(
    tree: Tree, store: str, records: list[HeldRecord], signers: Signers, host: str
) -> Iterator[Finding]:
    """Yield records of another host, without their evidence in the store, or not signed as the policy wants."""
    receipts = [path for path in tree.files(store) if path.count("/") == store.count("/") + 1]
    known = {sha256_bytes(data) for data in tree.read(receipts)} if records else set()
    for one in records:
        if one.record.host != host:
            yield invalid("record", f"{one.path}: is of host {one.record.host}", host)
        if one.record.evidence_receipt_sha256 not in known:
            text = f"{one.path}: no receipt of {host} has the sha256 {one.record.evidence_receipt_sha256[:12]}"
            yield invalid("record", f"{text} it names as evidence", host)
        bundle = tree.find(f"{one.path}{BUNDLE_SUFFIX}")
        for problem in check_record(one.data, bundle, signers, name=one.path).problems:
            yield invalid("signature", f"{one.path}: {problem}", host)

"""What lies beside a receipt: the run folder's files, the store's earlier attempts, and the floors it was judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import sha256_bytes, sha256_file
from lqw.correctness import parse_reference, reference_to_json
from lqw.errors import IntegrityError, UsageError
from lqw.ratchet.baseline import parse_baseline
from lqw.receipt.compare import differences
from lqw.receipt.inputs import standing_for
from lqw.receipt.problems import Problem
from lqw.receipt.store import BASELINE, REFERENCE, receipt_name
from lqw.verdict import standing_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lqw.receipt.schema import Receipt

__all__ = ["NOTEBOOK_FOLDER", "beside_problems"]

NOTEBOOK_FOLDER = "notebooks"


def beside_problems(path: Path, receipt: Receipt) -> Iterator[Problem]:
    """Yield files beside *path* that are other than the receipt says. Absent ones are no problem here."""
    folder = path.resolve().parent
    for name, sha256 in sorted(receipt.artefacts.items()):
        file = folder / (f"{NOTEBOOK_FOLDER}/{name}" if name.endswith(".ipynb") else name)
        if file.is_file() and (found := sha256_file(file)) != sha256:
            yield Problem(f"artefacts.{name}", sha256, f"{found} (the file beside it)", "beside")
    if (folder / BASELINE).is_file():
        yield from _name_problems(path.resolve(), receipt)
        yield from _source_problems(folder, receipt)


def _name_problems(path: Path, receipt: Receipt) -> Iterator[Problem]:
    """In a store, folder and file are named by host, version and attempt, and earlier attempts are there."""
    host, version = receipt.header.host.name, str(receipt.header.plan.get("release"))
    if path.parent.name != host:
        yield Problem("header.host.name", host, f"{path.parent.name} (the folder it lies in)", "beside")
    try:
        named = receipt_name(version, receipt.run.attempt)
        files = {one.attempt: path.parent / receipt_name(version, one.attempt) for one in receipt.run.earlier}
    except UsageError as err:
        yield Problem("header.plan.release", version, err.message, "beside")
        return
    if path.name != named:
        yield Problem("run.attempt", named, f"{path.name} (its own file name)", "beside")
    for at, earlier in enumerate(receipt.run.earlier):
        file = files[earlier.attempt]
        found = sha256_file(file) if file.is_file() else "no such file"
        if found != earlier.sha256:
            yield Problem(f"run.earlier.{at}.sha256", earlier.sha256, f"{found} ({file.name})", "beside")


def _source_problems(folder: Path, receipt: Receipt) -> Iterator[Problem]:
    """Compare standing and reference with the files they were cut from, where those are still the same files.

    After a PASS they are not: the baseline has moved on, and only its history can tell.
    """
    baseline, reference = folder / BASELINE, folder / REFERENCE
    try:
        data = baseline.read_bytes()
        if sha256_bytes(data) == receipt.sources.baseline:
            standing = standing_for(parse_baseline(data), receipt.header, receipt.starts)
            yield from differences(receipt.standing, standing_to_json(standing), "standing")
        data = reference.read_bytes() if reference.is_file() else b""
        if sha256_bytes(data) == receipt.sources.reference:
            yield from differences(receipt.reference, reference_to_json(parse_reference(data)), "reference")
    except IntegrityError as err:
        yield Problem("sources", err.message, "files that can be read", "beside")

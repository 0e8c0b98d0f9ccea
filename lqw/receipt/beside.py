"""What lies beside a receipt: the run folder's files, or the store's earlier attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import sha256_file
from lqw.errors import UsageError
from lqw.receipt.problems import Problem
from lqw.receipt.store import BASELINE, Store, receipt_name

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
        yield from _store_problems(path.resolve(), receipt)


def _store_problems(path: Path, receipt: Receipt) -> Iterator[Problem]:
    """In a store, folder and file are named by host, version and attempt, and earlier attempts are there."""
    host, version = receipt.header.host.name, str(receipt.header.plan.get("release"))
    if path.parent.name != host:
        yield Problem("header.host.name", host, f"{path.parent.name} (the folder it lies in)", "beside")
    try:
        named = receipt_name(version, receipt.run.attempt)
    except UsageError as err:
        yield Problem("header.plan.release", version, err.message, "beside")
        return
    if path.name != named:
        yield Problem("run.attempt", named, f"{path.name} (its own file name)", "beside")
    store = Store(path.parent.parent)
    for earlier in receipt.run.earlier:
        file = store.folder(path.parent.name) / receipt_name(version, earlier.attempt)
        found = sha256_file(file) if file.is_file() else "no such file"
        if found != earlier.sha256:
            yield Problem(
                f"run.earlier.{earlier.attempt - 1}.sha256", earlier.sha256, f"{found} ({file.name})", "beside"
            )

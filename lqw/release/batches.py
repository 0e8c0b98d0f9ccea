"""A program has one confirmation batch on a host: two runs with one each are named, whatever became of a claim.

The claim of :mod:`lqw.receipt.claims` stops a second batch on the machine that measures. It can be deleted before it is
committed; the receipts of both runs, and every claim that was ever committed, still say what was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_canonical
from lqw.errors import IntegrityError
from lqw.receipt.inputs import params_of
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.receipt.subject import binary_of
from lqw.receipt.thirdarm import build_of
from lqw.release.findings import Finding, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.receipt.schema import Receipt
    from lqw.release.git import Change
    from lqw.release.tree import Tree

__all__ = ["batch_findings"]


def batch_findings(tree: Tree, changes: Sequence[Change], store: str, receipt: Receipt, host: str) -> Iterator[Finding]:
    """Yield a finding where more than one run began a confirmation batch of the receipt's program.

    Parameters
    ----------
    tree : Tree
    changes : sequence of Change
        Of the store, in the history of that tree: what was deleted or rewritten since is looked at as well.
    store : str
        The host's folder.
    receipt : Receipt
    host : str
    """
    binary = binary_of(params_of(receipt.header), receipt.starts)
    if not binary:
        return
    begun: dict[str, str] = {}  # by run: the first file that says so
    for path, data in _versions(tree, changes, store, binary):
        try:
            run_id = _begun_by(loads_canonical(data, name=path)[0], path, binary)
        except IntegrityError as err:
            yield invalid("batch", f"{path}: names this program, and is neither receipt nor claim: {err.message}", host)
            continue
        if run_id is not None:
            begun.setdefault(run_id, path)
    if len(begun) > 1:
        told = ", ".join(f"{path} is of run {run_id[:80]}" for run_id, path in sorted(begun.items()))
        text = f"a second confirmation batch of the program {binary[:12]}: {told}; a program has one"
        yield invalid("batch", text, host)


def _versions(tree: Tree, changes: Sequence[Change], store: str, binary: str) -> Iterator[tuple[str, bytes]]:
    """Yield receipts and claims that name a program: as they stand, and as they stood where they no longer do."""
    named = f"{store}/batches/{binary}.json"  # whatever it says
    found = {*tree.repository.holding(binary, tree.commit, store), *({named} & tree.files(store).keys())}
    paths = sorted(path for path in found if _is_told(path, store))
    yield from zip(paths, tree.read(paths), strict=True)
    files = tree.files(store)
    gone = {
        one.new: one.path
        for one in changes
        if one.status != "D"
        and _is_told(one.path, store)
        and (one.path not in files or files[one.path].blob != one.new)
    }
    for path, data in zip(gone.values(), tree.repository.blobs(list(gone)), strict=True):
        if binary.encode() in data:
            yield path, data


def _is_told(path: str, store: str) -> bool:
    folder, _, name = path.removeprefix(f"{store}/").rpartition("/")
    is_file = path.startswith(f"{store}/") and name.endswith(".json") and name not in (BASELINE, REFERENCE)
    return is_file and folder in ("", "batches")


def _begun_by(document: Any, path: str, binary: str) -> str | None:
    """Return the run whose batch of this program a receipt holds or a claim lays; None where it is not of it."""
    try:
        if path.rpartition("/")[0].endswith("/batches"):
            if document["binary_sha256"] == binary:
                return str(document["run_id"])
            if path.endswith(f"/{binary}.json"):
                raise IntegrityError(f"of {str(document['binary_sha256'])[:12]}, by the name of another program")
            return None
        if document.get("batch") is None or build_of(document)["binary_sha256"] != binary:
            return None
        return str(document["header"]["run_id"])
    except (KeyError, TypeError, AttributeError) as err:
        raise IntegrityError(f"{err!r}") from err

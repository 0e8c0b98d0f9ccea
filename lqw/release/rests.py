"""What a verdict rests on: the receipts whose values were its references. They are judged again, and signed as it is.

A floor, a last value and a floor that comes back each hold by themselves, so what their receipts say is computed anew
from their samples. Of the sessions before, only scatter is used: their receipts are taken at their word here
(``lqw verify --history`` judges each again), but somebody allowed must stand for them all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import sha256_bytes
from lqw.outcomes import Outcome
from lqw.receipt.dsse import BUNDLE_SUFFIX
from lqw.receipt.signature import check_receipt
from lqw.release.findings import Finding, invalid, undecided
from lqw.release.judged import attempts_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.ratchet import Epoch
    from lqw.release.host import Scene
    from lqw.release.tree import Tree

__all__ = ["rest_findings"]

_JUDGED_BY = "the release was judged by its values"


def rest_findings(scene: Scene, store: str, epoch: Epoch, host: str) -> Iterator[Finding]:
    """Yield earlier receipts that do not verify, are not in the store, or are not signed as the policy wants.

    Parameters
    ----------
    scene : Scene
    store : str
        The host's folder.
    epoch : Epoch
        That the release was judged in, of the baseline that it was judged by.
    host : str
    """
    tree, judged, signers = scene.tree, scene.judged, scene.signers
    deciding, others = _named(epoch)
    for release, sha256 in sorted(deciding | others):
        path = _locate(tree, store, release, sha256)
        if path is None:
            text = f"{store}: the receipt {sha256[:12]} of {release} is not there; {_JUDGED_BY}"
            yield undecided("earlier", text, host)
            continue
        again = (release, sha256) in deciding
        verified = judged.again(tree, store, path) if again else None
        if verified is not None and verified.outcome is Outcome.INVALID:
            why = verified.problems[0] if verified.problems else verified.outcome
            yield invalid("earlier", f"{path}: {_JUDGED_BY}, and it does not verify: {why}", host)
            continue
        bundle = tree.find(f"{path}{BUNDLE_SUFFIX}")
        if bundle is None and host in signers.unsigned_allowed:
            continue
        signed = check_receipt(verified or judged.said(tree, store, path), bundle, signers)
        for problem in signed.problems:
            text = f"{path}: {_JUDGED_BY}: {problem}. Have a captain look at it, then: lqw sign {path}"
            yield invalid("signature", text, host)


def _named(epoch: Epoch) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return release and receipt of every value that decides, and of every other session that is used."""
    deciding: set[tuple[str, str]] = set()
    others: set[tuple[str, str]] = set()
    for entry in epoch.rows.values():
        for point in (entry.floor, entry.last, entry.floor_before):
            if point is not None:
                deciding.add((point.release, point.receipt_sha256))
        others.update((point.release, point.receipt_sha256) for point in entry.history)
    return deciding, others - deciding


def _locate(tree: Tree, store: str, release: str, sha256: str) -> str | None:
    return next((path for path in attempts_at(tree, store, release) if _is(tree, path, sha256)), None)


def _is(tree: Tree, path: str, sha256: str) -> bool:
    return sha256_bytes(tree.read([path])[0]) == sha256

"""The receipts of a repository, each judged at most once, whoever asks: host, floors and history."""

from __future__ import annotations

from itertools import count, takewhile
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lqw.canonical import sha256_bytes
from lqw.errors import LqwError, UsageError
from lqw.receipt import verify_receipt
from lqw.receipt.schema import Receipt
from lqw.receipt.store import receipt_name
from lqw.receipt.thirdarm import find_among
from lqw.receipt.verify import Verification
from lqw.verdict import judgement_from_json

if TYPE_CHECKING:
    from lqw.receipt.thirdarm import Find
    from lqw.release.tree import Tree

__all__ = ["Judged", "attempts_at", "find_in"]

MAX_ATTEMPTS = 1_000


def attempts_at(tree: Tree, store: str, release: str) -> list[str]:
    """Return the paths of every attempt at a release, the first one first; none where no file can have its name."""
    files = tree.files(store)
    try:
        named = (f"{store}/{receipt_name(release, number)}" for number in count(1))
        return [path for path, _ in zip(takewhile(files.__contains__, named), range(MAX_ATTEMPTS), strict=False)]
    except UsageError:
        return []


def find_in(tree: Tree, store: str) -> Find:
    """Return a search for receipts in a host's store as one commit holds it."""
    names = {path[len(store) + 1 :] for path in tree.files(store)}
    return find_among(names, lambda name: tree.read([f"{store}/{name}"])[0])


class Judged:
    """Verdicts on committed receipts, by the blob each one is."""

    def __init__(self) -> None:
        self._again: dict[str, Verification] = {}
        self._recorded: dict[str, Verification | None] = {}

    def again(self, tree: Tree, store: str, path: str) -> Verification:
        """Return the verdict that a receipt's samples give."""
        blob = tree.files(store)[path].blob
        if blob not in self._again:
            self._again[blob] = verify_receipt(tree.read([path])[0], find=find_in(tree, store))
        return self._again[blob]

    def said(self, tree: Tree, store: str, path: str) -> Verification:
        """Return the same if it is known already, else what the receipt says of itself: several times as quick.

        A receipt of an older form, or a broken one, is judged.
        """
        blob = tree.files(store)[path].blob
        if blob in self._again:
            return self._again[blob]
        if blob not in self._recorded:
            self._recorded[blob] = _recorded(tree.read([path])[0])
        return self._recorded[blob] or self.again(tree, store, path)


def _recorded(data: bytes) -> Verification | None:
    """Return what a receipt says of itself; None where only judging it tells: it is of another form, or broken."""
    try:
        receipt = Receipt.model_validate_json(data)
        judgement = judgement_from_json(receipt.judgement)
    except (ValidationError, LqwError):
        return None
    return Verification(
        judgement.outcome, judgement.exit_status, (), (), judgement, judgement.counts, sha256_bytes(data),
        release=judgement.release, host=receipt.header.host.name, finished_utc=receipt.run.finished_utc,
        receipt=receipt,
    )  # fmt: skip

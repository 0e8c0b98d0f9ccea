"""Parity of a release at a commit: both receipts of its blessed model on each host, of the binary that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.errors import IntegrityError
from lqw.outcomes import Arm
from lqw.params.parity import BlessedSpec, ParityParams, ThresholdsSpec
from lqw.parity.blessed import UnderTest, judge_release
from lqw.parity.files import parse_receipt
from lqw.parity.verdict import Word
from lqw.release.findings import Finding, red, undecided
from lqw.release.manifest import parse_params

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.params import ReleaseSpec
    from lqw.release.host import HostResult
    from lqw.release.tree import Tree

__all__ = ["parity_findings"]


def parity_findings(tree: Tree, release: ReleaseSpec, hosts: Sequence[HostResult]) -> Iterator[Finding]:
    """Yield what speaks against the release's parity: a receipt that fails is RED, a missing or stale one UNDECIDED.

    Blessing, floors and receipts are those of the commit; under test is the program that each host's receipt measured.
    """
    verdict = judge_release(
        _parity_of(tree, release),
        _Reader(tree),
        hosts=release.hosts,
        under_test=_under_test(release, hosts),
        day=max((one.receipt.header.started_utc[:10] for one in hosts if one.receipt is not None), default=None),
    )
    yield from (undecided("parity", text) for text in verdict.faults)
    for (host, _), cell in verdict.cells.items():
        if cell.word is not Word.PASS:
            yield (red if cell.word is Word.FAIL else undecided)("parity", cell.line, host)


def _parity_of(tree: Tree, release: ReleaseSpec) -> ParityParams | None:
    if release.blessed is None:
        return None
    blessed = parse_params(tree, BlessedSpec, "parity/blessed.yaml")
    if blessed.model != release.blessed:
        return None
    return ParityParams(blessed=blessed, thresholds=parse_params(tree, ThresholdsSpec, "parity/thresholds.yaml"))


def _under_test(release: ReleaseSpec, hosts: Sequence[HostResult]) -> UnderTest:
    binaries = {
        one.host: start.engine.binary_sha256
        for one in hosts
        if one.receipt is not None
        for start in reversed(one.receipt.starts)
        if start.arm is Arm.SUBJECT and start.engine is not None
    }
    model = next((one.sha256 for one in release.models if one.name == release.blessed), "")
    return UnderTest(binaries, release.subject.commit or "", model)


class _Reader:
    """Reads parity receipts of a commit as :func:`lqw.parity.files.read_receipt` reads them from a disk."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __call__(self, path: str) -> object:
        """Return the receipt's JSON, or in words why it is unreadable; FileNotFoundError where it is not there."""
        try:
            data = self._tree.find(path)
            if data is not None:
                return parse_receipt(data, name=path)
        except IntegrityError as err:
            return err.message
        raise FileNotFoundError(path)

"""Which program a receipt measured, against the one its release declares, and against the code that is tagged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lqw.outcomes import Arm
from lqw.parity.commits import same_commit
from lqw.release.findings import Finding, invalid, undecided

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.params import EngineSpec
    from lqw.receipt.schema import Receipt
    from lqw.release.git import Repository

__all__ = ["code_findings", "identity_findings"]

_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")
MOST = 5


def identity_findings(subject: EngineSpec, receipt: Receipt, path: str, host: str) -> Iterator[Finding]:
    """Yield where the binary that ran, or the commit it names, is not the one that the release declares.

    The commit is read out of the engine's own version and build words, as any hexadecimal word of 7 to 40 digits.
    """
    for field in ("sha256", "commit"):
        if getattr(subject, field) is None:
            text = f"the release file declares no {field} of its subject, so nobody can say which binary was measured"
            yield undecided("identity", text, host)
    engines = [one.engine for one in receipt.starts if one.arm is Arm.SUBJECT and one.engine is not None]
    binaries = {engine.binary_sha256 for engine in engines}
    for sha256 in sorted(binaries):
        if subject.sha256 is not None and sha256 != subject.sha256:
            text = f"{path}: measured binary {sha256[:12]}, the release declares {subject.sha256[:12]}"
            yield invalid("identity", text, host)
    words = {f"{engine.version} {engine.build}" for engine in engines}
    for said in sorted(words):
        told = _HEX.findall(said.lower())
        if subject.commit is not None and not any(same_commit(one, subject.commit) for one in told):
            text = f"{path}: measured {said[:80]!r}, the release declares commit {subject.commit[:12]}"
            yield invalid("identity", text, host)


def code_findings(
    repository: Repository, measured: str | None, tagged: str, aside: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """Compare the measured commit with the tagged one; return findings, and what could not be checked.

    Parameters
    ----------
    measured : str or None
        The commit that the release declares for its subject.
    tagged : str
        The tag's commit.
    aside : sequence of str
        Folders that may differ between them: what measuring adds.
    """
    if measured is None:
        return [], []
    commit = repository.commit(measured)
    if commit is None:
        return [], [f"whether the tag's code is what was measured: commit {measured[:12]} is not in this repository"]
    if not repository.is_ancestor(commit, tagged):
        text = f"the measured commit {commit[:12]} is not in the history of the tagged one, {tagged[:12]}"
        return [invalid("code", text)], []
    moved = [path for path in repository.differing(commit, tagged) if not path.startswith(tuple(aside))]
    if not moved:
        return [], []
    named = ", ".join(moved[:MOST]) + (f" and {len(moved) - MOST} more" if len(moved) > MOST else "")
    text = f"{len(moved)} files changed between the measured commit {commit[:12]} and the tagged {tagged[:12]}: {named}"
    return [undecided("code", f"{text}. What is tagged was not measured")], []

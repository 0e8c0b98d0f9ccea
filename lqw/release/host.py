"""One host of a release at a commit: which receipt speaks for it, and everything that speaks against that receipt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lqw.canonical import sha256_bytes
from lqw.errors import Exit, LqwError
from lqw.outcomes import Outcome
from lqw.receipt.beside import named_previous
from lqw.receipt.dsse import BUNDLE_SUFFIX
from lqw.receipt.signature import check_receipt, with_signature
from lqw.receipt.store import receipt_name
from lqw.release.batches import batch_findings
from lqw.release.findings import Finding, invalid, red, undecided
from lqw.release.floors import GiveUp, epoch_in, give_up, rebased_findings, source_findings, taken_findings
from lqw.release.identity import identity_findings
from lqw.release.judged import attempts_at
from lqw.release.manifest import params_findings
from lqw.release.records import read_records, record_findings
from lqw.release.rests import rest_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lqw.params.signers import Signers
    from lqw.receipt import Verification
    from lqw.receipt.schema import Receipt
    from lqw.release.git import Change
    from lqw.release.judged import Judged
    from lqw.release.manifest import Manifest
    from lqw.release.tree import Tree

__all__ = ["HostResult", "Scene", "verify_host"]

MOST = 12  # problems of one receipt that become findings


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a release is judged.

    Attributes
    ----------
    tree : Tree
        Of the tag's commit.
    changes : sequence of Change
        Of the stores, in the tag's history.
    manifest : Manifest
    signers : Signers
    day : str
        ISO: on which the tag is, or would be, made.
    judged : Judged
        Verdicts on its receipts, kept for whoever asks next.
    """

    tree: Tree
    changes: Sequence[Change]
    manifest: Manifest
    signers: Signers
    day: str
    judged: Judged


@dataclass(frozen=True, slots=True)
class HostResult:
    """What one host says.

    Attributes
    ----------
    host, path : str
        ``path`` of the receipt that speaks for it; empty where there is none.
    attempts : int
        Receipts of this version.
    verified : Verification or None
        Signatures included.
    receipt : Receipt or None
        Typed; None where there is none or it cannot be read.
    give_up : GiveUp or None
    findings : tuple of Finding
        Everything that speaks against it; empty means that this host passes.
    """

    host: str
    path: str = ""
    attempts: int = 0
    verified: Verification | None = None
    receipt: Receipt | None = None
    give_up: GiveUp | None = None
    findings: tuple[Finding, ...] = ()


def verify_host(scene: Scene, host: str) -> HostResult:
    """Judge one host of the release; never raises on content."""
    store = scene.manifest.stores[host]
    try:
        return _verify(scene, host, store)
    except LqwError as err:
        return HostResult(host, findings=(invalid("receipt", err.message.replace("\n", " "), host),))
    except Exception as err:  # noqa: BLE001 - a file that is taken at its word may hold anything
        text = f"{store}: {type(err).__name__}: {err}".replace("\n", " ")[:300]
        return HostResult(host, findings=(invalid("receipt", text, host),))


def _verify(scene: Scene, host: str, store: str) -> HostResult:
    version = scene.manifest.release.release
    files = scene.tree.files(store)
    paths = attempts_at(scene.tree, store, version)
    strange = list(_strange(files, paths, f"{store}/{version}", host))
    if not paths:
        text = f"no receipt: {store}/{receipt_name(version)} is not committed"
        return HostResult(host, findings=(undecided("receipt", text, host), *strange))
    contents = scene.tree.read(paths)
    path = _speaker(paths, contents)
    strange += _silent(scene, store, paths, path, host)
    verified = scene.judged.again(scene.tree, store, path)
    signed = check_receipt(verified, scene.tree.find(f"{path}{BUNDLE_SUFFIX}"), scene.signers)
    verified = with_signature(verified, signed)
    result = HostResult(host, path, len(paths), verified)
    receipt = verified.receipt
    if verified.judgement is None or receipt is None:
        return replace(result, findings=(*_own(result), *strange))
    found = [*_own(result), *strange, *_against(scene, result, receipt, store)]
    fallen = give_up(scene.tree, store, receipt, verified.judgement)
    return replace(result, receipt=receipt, give_up=fallen, findings=tuple(found))


def _speaker(paths: list[str], contents: list[bytes]) -> str:
    """Return the latest attempt that judged; a fresh floor batch after it judges nothing. Without one, the latest."""
    judging = [path for path, data in zip(paths, contents, strict=True) if b'"purpose":"gate"' in data]
    return judging[-1] if judging else paths[-1]


def _strange(files: Iterable[str], paths: list[str], name: str, host: str) -> Iterator[Finding]:
    """Yield files that look like an attempt at this version, and that the count of attempts passes over."""
    like = re.compile(re.escape(name) + r"(\.attempt.*)?\.json", re.IGNORECASE)
    for path in sorted(path for path in files if like.fullmatch(path) and path not in paths):
        text = f"{path}: not one of the {len(paths)} attempts: they are numbered without a gap, in one spelling"
        yield invalid("lost", text, host)


def _silent(scene: Scene, store: str, paths: list[str], speaker: str, host: str) -> Iterator[Finding]:
    """Yield attempts after the one that speaks which do not verify: only a floor batch judges nothing."""
    for path in paths[paths.index(speaker) + 1 :]:
        verified = scene.judged.again(scene.tree, store, path)
        if verified.outcome is Outcome.INVALID:
            why = verified.problems[0] if verified.problems else verified.outcome
            yield invalid("receipt", f"{path}: {why}", host)


def _own(result: HostResult) -> Iterator[Finding]:
    """Yield what the receipt says against itself."""
    verified, host = result.verified, result.host
    if verified is None or verified.exit_status is Exit.PASS:
        return
    said = verified.judgement.sentence if verified.judgement else ""
    if verified.outcome is Outcome.INVALID:
        for problem in verified.problems[:MOST]:
            check = "signature" if problem.check == "signature" else "receipt"
            yield invalid(check, f"{result.path}: {problem}", host)
        if not verified.problems:
            yield invalid("receipt", f"{result.path}: {said}", host)
    elif verified.outcome is Outcome.RED:
        yield red("receipt", f"{result.path}: {said}", host)
    else:
        yield undecided("receipt", f"{result.path}: {said}", host)


def _against(scene: Scene, result: HostResult, receipt: Receipt, store: str) -> Iterator[Finding]:
    host, tree, sha256 = result.host, scene.tree, result.verified.receipt_sha256 if result.verified else ""
    plan = receipt.header.plan
    for field, said, wanted in (
        ("host", receipt.header.host.name, host),
        ("release", plan.get("release"), scene.manifest.release.release),
    ):
        if said != wanted:
            yield invalid("receipt", f"{result.path}: is of {field} {str(said)[:80]!r}, not of {wanted}", host)
    first = result.verified is not None and result.verified.outcome is Outcome.FLOOR
    if first and receipt.sources.baseline is not None:
        yield undecided("receipt", f"{result.path}: a floor was measured, nothing was judged", host)
    yield from _clock(scene, result, receipt)
    yield from _attempts(scene, result, receipt, store)
    yield from batch_findings(tree, scene.changes, store, receipt, host)
    yield from _follows(scene, result, receipt, store)
    yield from params_findings(tree, scene.manifest, receipt, host)
    yield from identity_findings(scene.manifest.release.on(host, {}).subject, receipt, result.path, host)
    records, broken = read_records(tree, store, host)
    yield from broken
    yield from record_findings(tree, store, records, scene.signers, host)
    baseline, found = source_findings(tree.repository, scene.changes, store, receipt, host)
    yield from found
    yield from taken_findings(tree, store, receipt, sha256, host)
    if baseline is not None:
        yield from rebased_findings(baseline, receipt, records, day=scene.day, host=host)
        epoch = epoch_in(baseline, receipt)
        if epoch is not None:
            yield from rest_findings(scene, store, epoch, host)


def _clock(scene: Scene, result: HostResult, receipt: Receipt) -> Iterator[Finding]:
    """Yield a finding where a clock was wrong, here or there: terms of records and keys are told by it."""
    begun, ended = receipt.header.started_utc, receipt.run.finished_utc
    if ended[:19] < begun[:19]:
        text = f"{result.path}: finished {ended}, before it started, {begun}"
        yield undecided("clock", f"{text}: the clock of {result.host} was moved; measure again", result.host)
    elif ended[:10] > scene.day:
        text = f"{result.path}: finished {ended}, and it is judged on {scene.day}"
        yield undecided("clock", f"{text}: one of the two clocks is wrong", result.host)


def _follows(scene: Scene, result: HostResult, receipt: Receipt, store: str) -> Iterator[Finding]:
    """Yield a finding where the receipt that this one follows is not in the store."""
    names = {path[len(store) + 1 :] for path in scene.tree.files(store)}
    paths = [f"{store}/{name}" for name in named_previous(receipt, names)]
    if receipt.previous not in {None, *map(sha256_bytes, scene.tree.read(paths))}:
        text = f"{result.path}: follows the receipt {str(receipt.previous)[:12]}, which {store} does not hold"
        yield undecided("chain", text, result.host)


def _attempts(scene: Scene, result: HostResult, receipt: Receipt, store: str) -> Iterator[Finding]:
    """Yield earlier attempts that are not what the receipt says, and every RED receipt of this very subject."""
    host, tree, version = result.host, scene.tree, scene.manifest.release.release
    files = tree.files(store)
    named = f"{store}/{receipt_name(version, receipt.run.attempt)}"
    if result.path != named:
        yield invalid("receipt", f"{result.path}: says it is {named}", host)
    for one in receipt.run.earlier:
        path = f"{store}/{receipt_name(version, one.attempt)}"
        sha256 = sha256_bytes(tree.read([path])[0]) if path in files else "absent"
        if sha256 != one.sha256:
            yield invalid("lost", f"{path}: is {sha256[:12]}, the receipt names {one.sha256[:12]}", host)
    for path in tree.repository.holding(receipt.run.subject_sha256, tree.commit, store):
        told = path in files and path != result.path and b'"outcome":"RED"' in tree.read([path])[0]
        if told and scene.judged.again(tree, store, path).outcome is Outcome.RED:
            yield red("receipt", f"{path}: this very subject was RED there; it is not measured until green", host)

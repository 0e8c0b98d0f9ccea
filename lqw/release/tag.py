"""``lqw verify --tag``: may this version be tagged at this commit? Everything is read from git, nothing from the disk.

Order: the release file at the commit → one receipt from each host it names → that receipt's own verdict, recomputed →
binary, commit and parameters are the declared ones → floors are the ones the store held → records and signatures →
parity → nothing was lost on the way. The heaviest finding decides; without any, and with at least one row measured on
every host, it is a PASS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Outcome
from lqw.receipt.store import receipt_name
from lqw.receipt.verify import EMBEDDED
from lqw.release.earlier import Who, earlier_release, who_may_sign
from lqw.release.findings import Finding, exit_of, invalid, undecided
from lqw.release.history import kept_findings
from lqw.release.host import HostResult, Scene, verify_host
from lqw.release.hosts import dropped_findings, ever_named
from lqw.release.identity import code_findings
from lqw.release.judged import Judged
from lqw.release.manifest import PARAMS, find_manifest, signers_at, version_of
from lqw.release.parity import parity_findings
from lqw.release.places import HOSTS, moved_findings, named_stores

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.release.git import Change, Repository
    from lqw.release.manifest import Manifest
    from lqw.release.tree import Tree

__all__ = ["TagVerdict", "verify_tag"]

REPORTS = "reports"
EARLIER = "receipts before the floor and the last one: taken at their word; lqw verify --history judges each again"
_NO_REF = re.compile(r"^[-./]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|[./]$|\.lock(/|$)")  # git check-ref-format
_ATTEMPT = r"(?:\.attempt[1-9]\d*)?\.json"
_OUTCOMES = {
    Exit.PASS: Outcome.PASS,
    Exit.RED: Outcome.RED,
    Exit.UNDECIDED: Outcome.UNDECIDED,
    Exit.INVALID: Outcome.INVALID,
}


@dataclass(frozen=True, slots=True)
class TagVerdict:
    """Whether a version may be tagged.

    Attributes
    ----------
    tag, version, commit : str
    exists : bool
        Whether the tag is there; without it the verdict is about the tag to be.
    day : str
        ISO day that expiries were compared with.
    params : str
        The release file; empty where there is none.
    signers : str
        Which commit says who may sign.
    hosts : tuple of HostResult
        In the release file's order.
    findings : tuple of Finding
        All of them, the heaviest first.
    not_checked : tuple of str
    """

    tag: str
    version: str
    commit: str
    exists: bool
    day: str
    params: str = ""
    signers: str = ""
    hosts: tuple[HostResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = field(default=())

    @property
    def exit_status(self) -> Exit:
        """Return 0, 1, 3 or 4 (STATISTICS §6); no host, or a host without a measured row, is never a pass."""
        status = exit_of(self.findings)
        measured = [one.verified.counts.measured if one.verified else 0 for one in self.hosts]
        return Exit.UNDECIDED if status is Exit.PASS and (not measured or 0 in measured) else status

    @property
    def outcome(self) -> Outcome:
        """Return the word for the exit status."""
        return _OUTCOMES[self.exit_status]

    @property
    def sentence(self) -> str:
        """Return one sentence for a person."""
        if self.exit_status is Exit.PASS:
            hosts = " and ".join(one.host for one in self.hosts)
            return f"PASS: {self.tag} may be tagged at {self.commit[:12]}, measured on {hosts}"
        why = self.findings[0].text if self.findings else "nothing was measured"
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return f"{self.outcome}: do not tag {self.tag}: {why}{more}"


def verify_tag(
    repository: Repository, name: str, *, at: str | None = None, policy: str | None = None, day: str
) -> TagVerdict:
    """Judge a tag, or, where it is not there yet, the tag to be.

    Parameters
    ----------
    repository : Repository
    name : str
        Such as ``v0.69.4``.
    at : str, optional
        The commit to judge: by default the tag's, and HEAD where there is no such tag.
    policy : str, optional
        The commit whose ``params/signers`` and ``params/signing.yaml`` say who may sign; CI names its protected branch.
        By default those may whom the judged commit and the release before both allow (:mod:`lqw.release.earlier`).
    day : str
        ISO day, usually today: records that expired by then count no more.

    Raises
    ------
    UsageError
        A shallow clone, an unknown commit, or a name that no tag can have.
    ParamsError
        The release file, or a host file, is malformed.
    IntegrityError
        What stands under that name is no tag of one commit.
    """
    if repository.shallow:
        raise UsageError(
            f"{repository.root}: a shallow clone does not hold the history that a verdict needs",
            remedy="git fetch --unshallow --tags (actions/checkout: fetch-depth: 0)",
        )
    if not name or _NO_REF.search(name):
        raise UsageError(f"{name!r}: no tag can have that name", remedy="a v and the version, such as v0.69.4")
    version = version_of(name)
    tag = repository.tag(name)
    commit = repository.commit(at) if at is not None else tag.commit if tag else repository.commit("HEAD")
    if commit is None:
        text = f"{at or 'HEAD'}: no such commit"
        raise UsageError(text, remedy="name a commit of this repository with --at, or commit something")
    judged = TagVerdict(name, version, commit, tag is not None, day)
    tree = repository.tree(commit)
    manifest = find_manifest(tree, version)
    if manifest is None:
        text = f"no file below {PARAMS}/ at {commit[:12]} is of release {version}: nothing says how to measure it"
        return _with(judged, [undecided("params", text)])
    return _judge(repository, tree, manifest, judged, policy)


def _judge(
    repository: Repository, tree: Tree, manifest: Manifest, judged: TagVerdict, policy: str | None
) -> TagVerdict:
    places = {host: str(PurePosixPath(store).parent) for host, store in manifest.stores.items()}
    roots = sorted(set(places.values()))
    changes = repository.changes([judged.commit], [*roots, HOSTS])
    named = named_stores(repository, changes)
    earlier = earlier_release(repository, judged.commit, judged.tag)
    if policy is None:
        who = who_may_sign(repository, tree, changes, manifest, earlier)
    else:
        who = _by_policy(repository, judged, policy)
    scene = Scene(tree, changes, manifest, who.signers, judged.day, Judged())
    hosts = tuple(verify_host(scene, host) for host in manifest.release.hosts)
    aside = [f"{one}/" for one in (*roots, REPORTS, PARAMS)]
    code, unknown = code_findings(repository, manifest.release.subject.commit, judged.commit, aside)
    parity = parity_findings(tree, manifest.release, hosts)
    lost = [
        *_lost(repository, scene, judged, roots),
        *dropped_findings(repository, scene, earlier, ever_named(tree, named)),
        *moved_findings(repository, judged.commit, named, places),
        *kept_findings(repository, roots, changes, scene.judged, as_recorded=True),
    ]
    found = [*(one for host in hosts for one in host.findings), *code, *parity, *lost]
    notes = [text for host in hosts if host.verified for text in host.verified.not_checked if text != EMBEDDED]
    judged = replace(judged, params=manifest.path, signers=who.source, hosts=hosts)
    return _with(judged, found, (*unknown, *([who.note] if who.note else []), EARLIER, *notes))


def _by_policy(repository: Repository, judged: TagVerdict, policy: str) -> Who:
    commit = repository.commit(policy)
    if commit is None:
        raise UsageError(f"--policy {policy}: no such commit", remedy="name a branch or commit that is fetched here")
    note = f"whether anybody reviewed what is tagged: {judged.commit[:12]} is not in the history of {policy}"
    source = f"params/ of {policy} ({commit[:12]})"
    inside = repository.is_ancestor(judged.commit, commit)
    return Who(signers_at(repository.tree(commit)), source, "" if inside else note)


def _with(judged: TagVerdict, found: list[Finding], notes: Sequence[str] = ()) -> TagVerdict:
    order = ["INVALID", "RED", "UNDECIDED"]
    ranked = sorted(dict.fromkeys(found), key=lambda one: order.index(one.weight))
    return replace(judged, findings=tuple(ranked), not_checked=tuple(dict.fromkeys(notes)))


def _lost(repository: Repository, scene: Scene, judged: TagVerdict, roots: list[str]) -> Iterator[Finding]:
    """Yield receipts that the tag's history once held and the tag does not, and attempts that stand elsewhere only."""
    everywhere = repository.changes(["--all", "HEAD"], roots)
    for host, store in scene.manifest.stores.items():
        try:
            kept = scene.tree.files(store)
        except IntegrityError:
            continue  # the host's own check names it
        receipts = re.compile(re.escape(f"{store}/") + r"(?!baseline\.json|reference\.json)[^/]+\.json")
        gone = {
            one.path: one.commit
            for one in scene.changes
            if one.status == "D" and receipts.fullmatch(one.path) and one.path not in kept
        }
        for path, commit in sorted(gone.items()):
            yield invalid("lost", f"{path}: deleted in commit {commit[:12]}; receipts are kept for ever", host)
        mine = re.compile(re.escape(f"{store}/{receipt_name(judged.version)[:-5]}") + _ATTEMPT)
        elsewhere: dict[str, Change] = {
            f"{one.path} {one.new}": one for one in everywhere if one.status != "D" and mine.fullmatch(one.path)
        }
        for one in elsewhere.values():
            if one.path not in kept:
                text = f"{one.path}: stands in commit {one.commit[:12]}, and is not in the one that is tagged"
                yield invalid("lost", text, host)
            elif one.new != kept[one.path].blob:
                text = f"{one.path}: commit {one.commit[:12]} holds another content than the one that is tagged"
                yield invalid("lost", text, host)

"""``lqw verify --history``: the store was only ever added to, and its floors moved by nothing but what earned it.

Every commit is compared with each of its parents. Receipts and records may appear and then never change; signatures may
gain lines; ``baseline.json`` and ``reference.json`` may change only as the receipts and records beside them say, moved
again by the functions that move them in a run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.errors import Exit, LqwError, UsageError
from lqw.receipt.dsse import BUNDLE_SUFFIX
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.release.findings import Finding, exit_of, invalid
from lqw.release.git import ZERO, Change
from lqw.release.judged import Judged
from lqw.release.moves import Mover
from lqw.release.places import DEFAULT_STORE, HOSTS, moved_findings, named_stores, stores_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lqw.release.git import Repository

__all__ = ["HistoryVerdict", "kept_findings", "verify_history"]

_RECEIPT = re.compile(r"[^/]+/[^/]+\.json")
_RECORD = re.compile(r"[^/]+/(records|batches)/.+\.json")


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """What a history says.

    Attributes
    ----------
    commit : str
        The end of it.
    commits, files : int
        How many commits touched the stores, and how many files they hold at the end; no file at all is never a pass.
    findings : tuple of Finding
    not_checked : tuple of str
    """

    commit: str
    commits: int
    files: int
    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...] = ()

    @property
    def exit_status(self) -> Exit:
        """Return 0 or 4; 3 where there is nothing to look at."""
        status = exit_of(self.findings)
        return Exit.UNDECIDED if status is Exit.PASS and not self.files else status

    @property
    def sentence(self) -> str:
        """Return one sentence for a person."""
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            return f"INVALID: {self.findings[0].text}{more}"
        if not self.files:
            return "UNDECIDED: no receipt was ever committed"
        return f"PASS: {self.files} files in {self.commits} commits, each added once and moved by what earned it"


def verify_history(repository: Repository, *, since: str | None = None) -> HistoryVerdict:
    """Walk the history of HEAD and name every file that was deleted, rewritten or moved without cause.

    Parameters
    ----------
    repository : Repository
    since : str, optional
        Look only at commits that are not in the history of this one: what a pull request adds.

    Raises
    ------
    UsageError
        A shallow clone: what is cut off cannot be vouched for.
    """
    if repository.shallow:
        raise UsageError(
            f"{repository.root}: a shallow clone: history before the cut cannot be looked at",
            remedy="git fetch --unshallow (actions/checkout: fetch-depth: 0)",
        )
    head = repository.commit("HEAD")
    before = None if since is None else repository.commit(since)
    if head is None or (since is not None and before is None):
        raise UsageError(f"{since or 'HEAD'}: no such commit", remedy="name a commit that is fetched here")
    tree = repository.tree(head)
    named = named_stores(repository, repository.changes([head], [HOSTS]))
    now = stores_at(tree)
    roots = sorted({DEFAULT_STORE, *now.values(), *(store for stores in named.values() for store in stores)})
    changes = repository.changes([head, *(["--not", before] if before else [])], roots)
    found = [*moved_findings(repository, head, named, now), *kept_findings(repository, roots, changes, Judged())]
    commits = len({change.commit for change in changes})
    files = sum(len(tree.files(root)) for root in roots)
    notes = () if since is None else (f"history before {since}: only what was added to it",)
    return HistoryVerdict(head, commits, files, tuple(dict.fromkeys(found)), notes)


def kept_findings(
    repository: Repository,
    roots: Iterable[str],
    changes: Iterable[Change],
    judged: Judged,
    *,
    as_recorded: bool = False,
) -> Iterator[Finding]:
    """Yield what was deleted or rewritten, and each baseline and reference that moved without cause.

    Parameters
    ----------
    repository : Repository
    roots : iterable of str
        Stores.
    changes : iterable of Change
        Of them, in a history.
    judged : Judged
    as_recorded : bool
        As :class:`lqw.release.moves.Mover`.
    """
    by_commit: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_commit[change.commit].append(change)
    mover = Mover(repository, judged, as_recorded=as_recorded)
    for root in roots:
        for commit, some in by_commit.items():
            mine = [one for one in some if one.path.startswith(f"{root}/")]
            yield from _append_only(repository, root, mine)
            yield from _moves(mover, root, commit, mine)


def _append_only(repository: Repository, root: str, changes: list[Change]) -> Iterator[Finding]:
    for one in changes:
        rest = one.path[len(root) + 1 :]
        host, _, name = rest.partition("/")
        if one.status == "A" or host == "parity":
            continue
        text = f"{one.path}: {'deleted' if one.status == 'D' else 'rewritten'} in commit {one.commit[:12]}"
        if name in (BASELINE, REFERENCE):
            if one.status == "D":
                yield invalid("append-only", text, host)
        elif one.path.endswith(BUNDLE_SUFFIX):
            if one.status == "D" or not _grown(repository, one):
                yield invalid("append-only", f"{text}; signatures are added, never taken away", host)
        elif _RECEIPT.fullmatch(rest) or _RECORD.fullmatch(rest):
            yield invalid("append-only", f"{text}; it was {one.old[:12]} before and must stay for ever", host)


def _grown(repository: Repository, change: Change) -> bool:
    old, new = repository.blobs([change.old, change.new])
    return new.startswith(old)


def _moves(mover: Mover, root: str, commit: str, changes: list[Change]) -> Iterator[Finding]:
    """Yield baselines and references that changed in a commit other than by what its store holds."""
    for name, explain in ((BASELINE, mover.baseline), (REFERENCE, mover.reference)):
        for store in sorted({one.path.rpartition("/")[0] for one in changes if one.path.endswith(f"/{name}")}):
            mine = [one for one in changes if one.path == f"{store}/{name}" and one.new != ZERO]
            host = store[len(root) + 1 :]
            for one in mine:
                try:
                    why = explain(commit, store, None if one.old == ZERO else one.old, one.new)
                except LqwError as err:
                    why = err.message.replace("\n", " ")
                except Exception as err:  # noqa: BLE001 - a receipt that is taken at its word may hold anything
                    why = f"cannot be made again: {type(err).__name__}: {err}".replace("\n", " ")[:300]
                if why:
                    yield invalid("baseline", f"{store}/{name} in commit {commit[:12]}: {why}", host)

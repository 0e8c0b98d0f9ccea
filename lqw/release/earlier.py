"""The release before: the newest tag in the judged history that stands for a release of its own, and what it settled.

Who may sign, and which hosts are measured, is committed beside what is judged. So both are held to a commit that was
judged before: the newest earlier ``v*`` tag whose commit has a release file of that version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.params.signers import Signers, agreed
from lqw.receipt.store import receipt_name
from lqw.release.manifest import release_in, signers_at, version_of
from lqw.release.places import HOSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.params import ReleaseSpec
    from lqw.release.git import Change, Repository
    from lqw.release.manifest import Manifest
    from lqw.release.tree import Tree

__all__ = ["Earlier", "Who", "earlier_release", "who_may_sign"]

_REMEDY = "--policy names the protected branch"
_RELEASE_TAG = re.compile(r"v[0-9][0-9A-Za-z.+_-]*")


@dataclass(frozen=True, slots=True)
class Earlier:
    """A release that was tagged before.

    Attributes
    ----------
    tag : str
    tree : Tree
        Of its commit.
    path : str
        Its release file there.
    release : ReleaseSpec
    """

    tag: str
    tree: Tree
    path: str
    release: ReleaseSpec


@dataclass(frozen=True, slots=True)
class Who:
    """Who may sign, which commit says so, and what nobody could check about that; empty where nothing is left."""

    signers: Signers
    source: str
    note: str = ""


def earlier_release(repository: Repository, commit: str, name: str) -> Earlier | None:
    """Return the newest release tagged in the history of a commit; None where there is none.

    Parameters
    ----------
    repository : Repository
    commit : str
        Tags of the commit itself are not earlier.
    name : str
        The tag that is judged, which is not earlier either.

    Raises
    ------
    ParamsError
        That release's file is malformed.
    """
    for tag, tagged in repository.tags_before(commit):
        if tag == name or not _RELEASE_TAG.fullmatch(tag):
            continue
        tree = repository.tree(tagged)
        found = release_in(tree, version_of(tag))
        if found is not None:
            return Earlier(tag, tree, *found)
    return None


def who_may_sign(
    repository: Repository, tree: Tree, changes: Sequence[Change], manifest: Manifest, earlier: Earlier | None
) -> Who:
    """Return who may sign what is judged: whom both the judged commit and an earlier one allow.

    The earlier one is the release before. Where there is none it is the commit before the one that added the first
    receipt of this release, so that nobody allows himself in the commit by which he signs.

    Parameters
    ----------
    repository : Repository
    tree : Tree
        Of the judged commit.
    changes : sequence of Change
        Of the stores, in its history, parents before children.
    manifest : Manifest
    earlier : Earlier or None
    """
    now = signers_at(tree)
    if earlier is not None:
        before, source = earlier.tree, f"params/ of {earlier.tag} ({earlier.tree.commit[:12]})"
        note = ""
    else:
        first = {f"{store}/{receipt_name(manifest.release.release)}" for store in manifest.stores.values()}
        parent = next((one.parent for one in changes if one.status == "A" and one.path in first), "")
        if not parent:
            source = f"params/ of the judged commit {tree.commit[:12]}"
            note = f"who may sign: no release and no commit is before the receipt; read from {source}. {_REMEDY}"
            return Who(now, source, note)
        before, source = repository.tree(parent), f"params/ of {parent[:12]}, the commit before the first receipt"
        note = f"who may sign: there is no earlier release to hold it to; read from {source}. {_REMEDY}"
    known = before.files(HOSTS)
    fresh = [host for host in manifest.stores if f"{HOSTS}/{host}.yaml" not in known]
    both = agreed(signers_at(before), now, fresh=fresh)
    return Who(both, f"{source}, and of the judged commit", note)

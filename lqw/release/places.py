"""Where a host's receipts lie, and ever lay: a store that moves would leave its floors and its RED receipts behind."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lqw.errors import LqwError
from lqw.params import HostSpec
from lqw.params.loading import parse_text
from lqw.release.findings import Finding, invalid
from lqw.release.git import ZERO
from lqw.release.tree import inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lqw.release.git import Change, Repository
    from lqw.release.tree import Tree

__all__ = ["DEFAULT_STORE", "HOSTS", "moved_findings", "named_stores"]

DEFAULT_STORE = "receipts"
HOSTS = "params/hosts"


def named_stores(repository: Repository, changes: Iterable[Change]) -> dict[str, dict[str, str]]:
    """Return host → store → the first commit in which the host's file named that store.

    Parameters
    ----------
    repository : Repository
    changes : iterable of Change
        Of ``params/hosts``, in a history; other paths are passed over. A version that is no host file names nothing.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    files = [one for one in changes if _is_host(one.path) and one.new != ZERO]
    for one, data in zip(files, repository.blobs([one.new for one in files]), strict=True):
        store = _store_in(one.path, data)
        if store is not None:
            found[PurePosixPath(one.path).stem].setdefault(store, one.commit)
    return found


def stores_at(tree: Tree) -> dict[str, str]:
    """Return host → store as the hosts' files of a commit name them."""
    paths = [path for path in tree.files(HOSTS) if _is_host(path)]
    named = {
        PurePosixPath(path).stem: _store_in(path, data) for path, data in zip(paths, tree.read(paths), strict=True)
    }
    return {host: store for host, store in named.items() if store is not None}


def _is_host(path: str) -> bool:
    return path.startswith(f"{HOSTS}/") and path.count("/") == HOSTS.count("/") + 1 and path.endswith(".yaml")


def _store_in(path: str, data: bytes) -> str | None:
    """Return the store that a host's file names; None where it is malformed, as the tag gate says."""
    try:
        return inside(parse_text(HostSpec, data.decode("utf-8", "replace"), Path(path), remedy="mend it").receipts)
    except LqwError:
        return None


def moved_findings(
    repository: Repository, commit: str, named: Mapping[str, Mapping[str, str]], now: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield every host whose receipts lie in another store than the one that holds its first ones.

    Parameters
    ----------
    repository : Repository
    commit : str
        The end of the history.
    named : mapping
        From :func:`named_stores`.
    now : mapping
        Host → the store that it names at that commit.
    """
    for host, store in now.items():
        for other, since in named.get(host, {}).items():
            if other != store and repository.changes([commit], [f"{other}/{host}"]):
                text = (
                    f"{HOSTS}/{host}.yaml names the store {store}; in commit {since[:12]} it named {other}, which held "
                    f"receipts of {host}: a store does not move, or floors and RED receipts would stay behind"
                )
                yield invalid("lost", text, host)

"""Hosts that must be measured: those of the release before. One that is left out would leave its floors behind."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict
from lqw.errors import LqwError
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.records import HostRecord
from lqw.release.findings import Finding, invalid
from lqw.release.git import ZERO
from lqw.release.places import DEFAULT_STORE, stores_at
from lqw.release.records import read_records, record_findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lqw.release.earlier import Earlier
    from lqw.release.git import Repository
    from lqw.release.host import Scene
    from lqw.release.tree import Tree

__all__ = ["dropped_findings", "ever_named"]

_STORED = re.compile(r"(?P<host>[^/]+)/[^/]+\.json")


def dropped_findings(
    repository: Repository, scene: Scene, earlier: Earlier | None, stores: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield each host of the release before that this one does not name, unless two people have retired it by a record.

    The release before is the newest one that was tagged; without any, the newest of this protocol whose receipts the
    stores hold, and its hosts are what those receipts say.

    Parameters
    ----------
    repository : Repository
    scene : Scene
    earlier : Earlier or None
    stores : mapping
        Every host that ever was named → its folder of receipts.
    """
    if earlier is not None:
        said, hosts = f"{earlier.tag} ({earlier.path})", tuple(earlier.release.hosts)
    else:
        said, hosts = _measured_before(repository, scene, stores)
    for host in hosts:
        if host in scene.manifest.stores:
            continue
        store = stores.get(host, f"{DEFAULT_STORE}/{host}")
        why = _retired(scene, store, host)
        if why:
            release = scene.manifest.release.release
            text = (
                f"{scene.manifest.path}: hosts: lacks {host}, on which {said} was measured; {why}. Name it and measure "
                f"it, or retire it: lqw baseline retire-host {host} --release {release}"
            )
            yield invalid("hosts", text, host)


def _retired(scene: Scene, store: str, host: str) -> str:
    """Return why no record retires a host from this release on; empty where one does."""
    records, broken = read_records(scene.tree, store, host)
    mine = [
        one
        for one in records
        if isinstance(one.record, HostRecord) and one.record.release == scene.manifest.release.release
    ]
    if not mine:
        return str(broken[0].text) if broken else f"no record in {store}/records retires it"
    found = list(record_findings(scene.tree, store, mine, scene.signers, host))
    return found[0].text if found else ""


def _measured_before(repository: Repository, scene: Scene, stores: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return name and hosts of the newest other release of this protocol that has a receipt in the history."""
    release = scene.manifest.release
    roots = sorted({DEFAULT_STORE, *(str(PurePosixPath(store).parent) for store in stores.values())})
    for change in reversed(repository.changes([scene.tree.commit], roots)):
        root = next(root for root in roots if change.path.startswith(f"{root}/"))
        found = _STORED.fullmatch(change.path[len(root) + 1 :])
        if change.new == ZERO or not found or found["host"] == "parity" or change.path.endswith((BASELINE, REFERENCE)):
            continue
        (data,) = repository.blobs([change.new])
        if f'"protocol":"{release.protocol}"'.encode() not in data:
            continue
        named = _release_in(data)
        if named is not None and named["protocol"] == release.protocol and named["release"] != release.release:
            return f"{named['release']} ({change.path})", tuple(map(str, named["hosts"]))
    return "", ()


def _release_in(data: bytes) -> dict[str, Any] | None:
    """Return the release that a receipt was measured by; None where nobody can say."""
    try:
        found = loads_strict(data, name="receipt")["header"]["params"]["release"]
        _ = found["protocol"], found["release"], [*found["hosts"]]
    except (LqwError, KeyError, TypeError):
        return None
    return dict(found)


def ever_named(tree: Tree, named: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return host → its folder of receipts, of every host that a history has named, as it is now or was last.

    Parameters
    ----------
    tree : Tree
        The end of that history.
    named : mapping
        From :func:`lqw.release.places.named_stores`.
    """
    last = {host: list(stores)[-1] for host, stores in named.items()}
    return {host: f"{store}/{host}" for host, store in {**last, **stores_at(tree)}.items()}

"""Many receipts at once: every one of a store, on every processor there is."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import LqwError, UsageError
from lqw.params import HostSpec
from lqw.params.loading import parse_text
from lqw.receipt.signing import verify_signed
from lqw.receipt.store import BASELINE, REFERENCE
from lqw.release.places import DEFAULT_STORE, HOSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.receipt.verify import Verification

__all__ = ["stored_receipts", "verify_many"]

LITTLE = 2_000_000  # bytes, of all receipts; up to here starting processes costs more than it saves
SHARES = 4  # of each process: the last ones to end keep the others waiting no longer than a share takes


def stored_receipts(repository: Path | str) -> list[Path]:
    """Return every receipt on the disk of a repository, store by store and host by host.

    The stores are ``receipts/`` and what the host files below ``params/`` name.

    Raises
    ------
    UsageError
        There is no receipt: nothing is never a pass.
    ParamsError
        A host file is malformed, so that nobody can say where its receipts lie.
    """
    root = Path(repository)
    hosts = sorted((root / HOSTS).glob("*.yaml"))
    named = [
        parse_text(HostSpec, path.read_text("utf-8", "replace"), path, remedy="mend it").receipts for path in hosts
    ]
    aside = (BASELINE, REFERENCE)
    found = {
        path
        for store in (DEFAULT_STORE, *named)
        for path in (root / store).glob("*/*.json")
        if path.name not in aside and path.parent.name != "parity"
    }
    if not found:
        raise UsageError(f"{root / DEFAULT_STORE}: holds no receipt", remedy="name the repository with --repo")
    return sorted(found)


def verify_many(
    paths: Sequence[Path], params: Path | None = None, *, processes: int | None = None
) -> list[tuple[Path, Verification]]:
    """Verify receipts and their signatures, in the order given.

    Parameters
    ----------
    paths : sequence of path
    params : path, optional
        As :func:`lqw.receipt.signing.find_signers`.
    processes : int, optional
        Default: as many as this process may use processors, and one where there is little to read.

    Raises
    ------
    UsageError
        A path is no file.
    LqwError
        A process was ended from outside: no verdict on any of them.
    """
    workers = processes or _processes(paths)
    one = partial(_slim, params=params)
    if workers == 1:
        return [(path, one(path)) for path in paths]
    done: list[tuple[Path, Verification]] = []
    share = max(1, len(paths) // (workers * SHARES))
    try:
        with ProcessPoolExecutor(workers) as pool:
            done.extend(zip(paths, pool.map(one, paths, chunksize=share), strict=True))
    except BrokenProcessPool as err:
        lost = paths[len(done) : len(done) + workers * share]
        raise LqwError(
            f"{', '.join(map(str, lost))}: the process that judged one of these was ended from outside",
            remedy="see whether memory ran out, and judge them one by one: lqw verify FILE",
        ) from err
    return done


def _processes(paths: Sequence[Path]) -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = sum(path.stat().st_size for path in paths if path.is_file())
    return 1 if size <= LITTLE else min(usable, len(paths))


def _slim(path: Path, params: Path | None) -> Verification:
    """Verify one; the samples stay here, since sending them between processes would take longer than judging them."""
    return replace(verify_signed(path, params), receipt=None)

"""One gate per machine: an advisory ``flock`` on a file that other tools of the GPU take too.

Held by somebody else → :class:`lqw.errors.HostBusy`, exit 75, never a verdict. The descriptor is closed on exec, so
no engine inherits the lock and keeps it. A lock that this process or an ancestor of it already holds (``flock FILE lqw
gate …``, or a demo that runs two gates) is *ours*: taking it again would be a deadlock with ourselves.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from lqw.errors import HostBusy, UsageError
from lqw.host.supervise import ancestors, note

__all__ = ["HostLock", "lock_holders"]


def lock_holders(path: Path) -> list[int]:
    """Return the pids that took a ``flock`` on *path*, from ``/proc/locks`` (those of other pid namespaces: missing).

    The pid is the one that *took* the lock; it may have ended and left the descriptor to a child.
    """
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split()  # 1: FLOCK ADVISORY WRITE 708 08:02:131 0 EOF; a waiter has "->" after its number
        if "->" not in fields and fields[1] == "FLOCK" and int(fields[5].rpartition(":")[2]) == inode:
            found.append(int(fields[4]))
    return [pid for pid in found if pid > 0]


class HostLock:
    """Context manager around the machine's lock file; does nothing where the params name none (``path=None``).

    Attributes
    ----------
    inherited : bool
        True where an ancestor (or this process itself) already held it.
    """

    def __init__(self, path: Path | str | None) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._descriptor: int | None = None
        self.inherited = False

    def __enter__(self) -> Self:
        """Take the lock or raise HostBusy at once; UsageError where the file cannot be opened."""
        if self._path is None:
            return self
        try:
            # Shared by all users of the machine; never truncated, it may carry another tool's note.
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as err:
            raise UsageError(
                f"lock file {self._path}: {err.strerror}",
                remedy="make it writable, or correct `lock` of the host's params",
            ) from err
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._contended(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _contended(self, path: Path) -> None:
        self.__exit__()
        holders = lock_holders(path)
        if set(holders) & set(ancestors(os.getpid())):
            self.inherited = True
            return
        names = ", ".join(str(note(pid)) for pid in holders) or "a process that cannot be seen from here"
        raise HostBusy(
            f"lock {path} is held by {names}", remedy="wait until it ends, then run again; nothing was started"
        )

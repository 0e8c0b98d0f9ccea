"""What runs: the hash of a living process's executable or mapped library, and its own version words. Cached."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from lqw.engines.control import ControlError
from lqw.engines.environment import scrubbed
from lqw.host.once import run_once
from lqw.outcomes import Reason

__all__ = ["executable_sha256", "file_sha256", "mapped_sha256", "version_words"]

_VERSION_S = 20.0
_DELETED = " (deleted)"


def file_sha256(path: Path | str) -> str:
    """Return the sha256 of a file; read again only when device, inode, size or times have changed."""
    stat = os.stat(path)  # noqa: PTH116 - follows /proc/PID/exe even where its target's name is gone
    return _hashed(str(path), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=64)
def _hashed(path: str, *_identity: int) -> str:
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def executable_sha256(pid: int) -> str:
    """Return the sha256 of what *pid* executes: through ``/proc``, so that a replaced file on disk fools nobody."""
    try:
        return file_sha256(f"/proc/{pid}/exe")
    except OSError as err:
        raise ControlError(Reason.WRONG_PROCESS, f"cannot read the running executable of pid {pid}: {err}") from err


def mapped_sha256(pid: int, name: str) -> str:
    """Return the sha256 of the mapped file of *pid* whose file name contains *name*.

    The file at the mapped path must still be the mapped one (same inode), else ControlError: a reinstall under a
    running process would otherwise be hashed in its place.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError as err:
        raise ControlError(Reason.WRONG_PROCESS, f"cannot read the mappings of pid {pid}: {err}") from err
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and name in fields[5].rpartition("/")[2]:  # noqa: PLR2004 - the sixth is the path
            path, inode = fields[5].removesuffix(_DELETED), int(fields[4])
            try:
                if not fields[5].endswith(_DELETED) and os.stat(path).st_ino == inode:  # noqa: PTH116
                    return file_sha256(path)
            except OSError:
                pass
            raise ControlError(
                Reason.WRONG_PROCESS, f"{Path(path).name} on disk is no longer what pid {pid} has mapped"
            )
    raise ControlError(Reason.WRONG_PROCESS, f"pid {pid} has mapped no {name}")


@lru_cache(maxsize=64)
def version_words(program: str, sha256: str) -> str:
    """Return the first line of ``PROGRAM --version``, asked once for each *sha256*; nothing where it says none."""
    del sha256  # the cache's key: the same bytes say the same
    done = run_once([program, "--version"], env=scrubbed(os.environ, {}).variables, timeout_s=_VERSION_S)
    return done.out.strip().partition("\n")[0] if done.status == 0 else ""

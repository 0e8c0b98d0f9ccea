"""Which model a running process serves: the GGUFs it has mapped or was started with, compared by their bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.engines.binaries import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["wrong_model"]

_DELETED = " (deleted)"


def wrong_model(pid: int, model: Path, sha256: str) -> str | None:
    """Return why a process cannot be said to serve the bytes of *model* and no others, or None.

    Parameters
    ----------
    pid : int
        Of this user, else nothing can be seen of it.
    model : Path
        The file that the receipt is to be of.
    sha256 : str
        Of its bytes.
    """
    try:
        found = {*_mapped(pid, model.stat().st_ino), *_named(pid)}
    except OSError as err:
        return f"nothing shows which model pid {pid} serves: {err.strerror or err}"
    if not found:
        return f"nothing shows which model pid {pid} serves: it has mapped no GGUF and names none"
    other = next((path for path in sorted(found) if not _is(path, model, sha256)), None)
    return other and f"pid {pid} serves {Path(other).name}, whose bytes are not those of {model.name}"


def _mapped(pid: int, inode: int) -> Iterator[str]:
    """Yield the GGUFs a process has mapped: by their names, and that of *inode* whatever its name."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6:  # noqa: PLR2004 - the sixth is the path
            path = fields[5].removesuffix(_DELETED)
            if path.lower().endswith(".gguf") or int(fields[4]) == inode:
                yield f"/proc/{pid}/root{fields[5]}"  # a deleted one is not there: other bytes


def _named(pid: int) -> Iterator[str]:
    """Yield the GGUFs of a process's command line, from its own folder."""
    for word in Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0"):
        if word.lower().endswith(".gguf"):
            yield f"/proc/{pid}/root{word}" if word.startswith("/") else f"/proc/{pid}/cwd/{word}"


def _is(path: str, model: Path, sha256: str) -> bool:
    try:
        one, other = os.stat(path), model.stat()  # noqa: PTH116 - as :func:`file_sha256`
        same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        return same or (one.st_size == other.st_size and file_sha256(path) == sha256)
    except OSError:
        return False

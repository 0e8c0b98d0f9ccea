"""The files of one commit, by path: nothing leads out of it, and a link is never followed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lqw.errors import IntegrityError
from lqw.release.objects import TREE, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.release.git import Repository

__all__ = ["Tree", "inside"]

_LINK, _MODULE = "120000", "160000"
MAX_DEPTH = 32  # folders in each other, below the one that is listed


class Tree:
    """The files of one commit. A path is looked up in the tree, so it cannot lead out of it."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self.repository, self.commit = repository, commit
        self._listed: dict[str, dict[str, Entry]] = {}
        self._read: dict[str, bytes] = {}

    def files(self, folder: str) -> dict[str, Entry]:
        """Return path → entry of every file below a folder; none where there is no such folder.

        Raises
        ------
        IntegrityError
            The folder, one above it or a file in it is a symbolic link or another repository: what is committed there
            is not the content that somebody measured.
        """
        folder = inside(folder)
        if folder not in self._listed:
            entry = self.entry(folder)
            there = entry is not None and entry.mode == TREE
            self._listed[folder] = dict(self._below(folder, entry.blob)) if entry and there else {}
        return self._listed[folder]

    def entry(self, path: str) -> Entry | None:
        """Return what a path is, a file or a folder, or None; IntegrityError where the way there is a link."""
        found: Entry | None = Entry(TREE, f"{self.commit}^{{tree}}")
        at = PurePosixPath()
        for name in PurePosixPath(path).parts:
            if found is None or found.mode != TREE:
                return None
            at, found = at / name, dict(self.repository.entries(found.blob)).get(name)
            if found is not None:
                self._refuse_link(str(at), found)
        return found

    def _below(self, folder: str, tree: str, depth: int = MAX_DEPTH) -> Iterator[tuple[str, Entry]]:
        if depth == 0:
            raise IntegrityError(f"{folder[:200]} at {self.commit[:12]}: more than {MAX_DEPTH} folders in each other")
        for name, entry in self.repository.entries(tree):
            path = f"{folder}/{name}"
            self._refuse_link(path, entry)
            if entry.mode == TREE:
                yield from self._below(path, entry.blob, depth - 1)
            else:
                yield path, entry

    def _refuse_link(self, path: str, entry: Entry) -> None:
        if entry.mode in (_LINK, _MODULE):
            what = "a symbolic link" if entry.mode == _LINK else "another repository"
            raise IntegrityError(
                f"{path} at {self.commit[:12]}: {what}; what is committed is the link, not the file",
                remedy="commit the file itself",
            )

    def find(self, path: str) -> bytes | None:
        """Return the content of a file, or None; IntegrityError for a link."""
        folder = str(PurePosixPath(inside(path)).parent)
        entry = self.files(folder).get(path) if folder != "." else None
        return None if entry is None else self.read([path])[0]

    def read(self, paths: Sequence[str]) -> list[bytes]:
        """Return the content of several files that :meth:`files` has listed."""
        entries = {path: entry for listed in self._listed.values() for path, entry in listed.items()}
        wanted = [entries[path].blob for path in paths]
        missing = list(dict.fromkeys(blob for blob in wanted if blob not in self._read))
        self._read.update(zip(missing, self.repository.blobs(missing), strict=True))
        return [self._read[blob] for blob in wanted]


def inside(path: str) -> str:
    """Return a path of a tree in its plain form; IntegrityError where it leads out of the repository."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) in (".", "") or "\0" in path:
        raise IntegrityError(f"{path}: not a path inside the repository", remedy="name a folder of the repository")
    return str(pure)

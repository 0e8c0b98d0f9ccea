"""Reading a git repository: what is committed, and how it came to be. Nothing here believes the working tree.

The environment is scrubbed, and replacement objects and grafts are switched off, so that neither a hook's variables nor
a local trick can show another history than the one that others fetch.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lqw.canonical import MAX_BYTES
from lqw.errors import IntegrityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ZERO", "Change", "Entry", "Repository", "Tag", "Tree", "inside"]

ZERO = "0" * 40
_QUIET = "advice.graftFileDeprecated=false"  # it is deprecated, and must be switched off all the same
_LINK, _MODULE = "120000", "160000"
_PEOPLE = tuple(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE"))
_KEPT = ("GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", *_PEOPLE)
_SAFE = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a tree."""

    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: the commit it names, and, where it is annotated, its day and message."""

    name: str
    commit: str
    day: str  # ISO; "" for a lightweight tag
    message: str


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between a commit and one of its parents. ``status`` is git's letter: A, D, M or T."""

    commit: str
    parent: str  # "" for a root commit
    status: str
    path: str
    old: str
    new: str


class Repository:
    """A git repository, read by the program ``git``.

    Parameters
    ----------
    folder : path
        Anywhere in it.

    Raises
    ------
    UsageError
        There is no git, or no repository.
    """

    def __init__(self, folder: Path | str = ".") -> None:
        self._folder = Path(folder)
        self.root = Path(self._text("rev-parse", "--show-toplevel") or folder)

    def run(self, *arguments: str, data: bytes | None = None) -> bytes:
        """Return what a git command prints; UsageError with git's own words where it fails."""
        done = self._start(arguments, data)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            text = next((line for line in said if line.startswith(("fatal", "error"))), f"exit {done.returncode}")
            raise UsageError(f"git {arguments[0]}: {text}", remedy="name a whole git work tree with --repo")
        return done.stdout

    def _start(self, arguments: Sequence[str], data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
        try:
            return subprocess.run(
                ["git", "-C", str(self._folder), "--no-optional-locks", "-c", _QUIET, *arguments],
                env={**plain, **_SAFE}, input=data, capture_output=True, check=False,
            )  # fmt: skip
        except OSError as err:
            raise UsageError(f"git: {err.strerror or err}", remedy="install git, name a folder that is there") from err

    def _text(self, *arguments: str) -> str:
        return self.run(*arguments).decode("utf-8", "surrogateescape").strip()

    @cached_property
    def shallow(self) -> bool:
        """Return whether history was cut off when this repository was cloned."""
        return self._text("rev-parse", "--is-shallow-repository") != "false"

    @property
    def hooks(self) -> Path:
        """Return the folder git runs hooks from."""
        return (self._folder / self._text("rev-parse", "--git-path", "hooks")).resolve()

    @property
    def git_folder(self) -> Path:
        """Return the folder that holds the repository's own data."""
        return (self._folder / self._text("rev-parse", "--git-common-dir")).resolve()

    def commit(self, name: str) -> str | None:
        """Return the full id of the commit that *name* leads to, or None."""
        done = self._start(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"))
        return done.stdout.decode().strip() or None if done.returncode == 0 else None

    def tag(self, name: str) -> Tag | None:
        """Return a tag of this repository, or None."""
        commit = self.commit(f"refs/tags/{name}")
        if commit is None:
            return None
        form = "%(taggerdate:short)%00%(contents)"
        day, _, message = self._text("for-each-ref", f"--format={form}", f"refs/tags/{name}").partition("\0")
        return Tag(name, commit, day.strip(), message if day else "")

    def tree(self, commit: str) -> Tree:
        """Return the files of a commit."""
        return Tree(self, commit)

    def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """Return the content of several blobs; IntegrityError where one is missing or too large."""
        if not ids:
            return []
        asked = "".join(f"{one}\n" for one in ids).encode()
        sizes = self.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", data=asked).decode().splitlines()
        for one, said in zip(ids, sizes, strict=True):
            kind, _, size = said.partition(" ")
            if kind != "blob" or int(size) > MAX_BYTES:
                raise IntegrityError(f"git object {one[:12]}: {said}, not a file of at most {MAX_BYTES} bytes")
        out, rest = [], self.run("cat-file", "--batch=%(objectsize)", data=asked)
        for _ in ids:
            head, _, rest = rest.partition(b"\n")
            length = int(head)
            out.append(rest[:length])
            rest = rest[length + 1 :]
        return out

    def parents(self, commit: str) -> list[str]:
        """Return the parents of a commit."""
        return self._text("rev-list", "--parents", "-n", "1", commit).split()[1:]

    def blob_at(self, commit: str, path: str) -> str | None:
        """Return the blob that a path is in a commit, or None."""
        done = self._start(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}:{path}"))
        return done.stdout.decode().strip() or None if done.returncode == 0 else None

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether *commit* is in the history of *of*, or is it."""
        return self._start(("merge-base", "--is-ancestor", commit, of)).returncode == 0

    def holding(self, text: str, commit: str, folder: str) -> list[str]:
        """Return the files below a folder of a commit that hold a text, letter by letter."""
        done = self._start(("grep", "-l", "-z", "-F", "-e", text, commit, "--", folder))
        found = [path.decode("utf-8", "surrogateescape") for path in done.stdout.split(b"\0") if path]
        return sorted(path.partition(":")[2] for path in found)

    def differing(self, one: str, other: str) -> list[str]:
        """Return the paths in which two commits differ."""
        said = self.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other)
        return [path.decode("utf-8", "surrogateescape") for path in said.split(b"\0") if path]

    def changes(self, starts: Sequence[str], prefixes: Sequence[str]) -> list[Change]:
        """Return every change below *prefixes* in the history of *starts*, parents before children.

        A merge is compared with each of its parents, so that what a merge drops is seen too.
        """
        listed = self._text(
            "log", "--full-history", "--topo-order", "--reverse", "--format=%H %P", *starts, "--", *prefixes
        )
        pairs = [
            (commit, parent)
            for line in listed.splitlines()
            for commit, *parents in [line.split()]
            for parent in (parents or [""])
        ]
        if not pairs:
            return []
        asked = "".join(f"{commit} {parent}".rstrip() + "\n" for commit, parent in pairs).encode()
        options = ("--root", "--always", "-r", "--raw", "-z", "--no-renames", "--no-abbrev")
        return list(_changes(self.run("diff-tree", "--stdin", *options, "--", *prefixes, data=asked), pairs))


def _changes(said: bytes, pairs: Sequence[tuple[str, str]]) -> Iterable[Change]:
    fields = said.decode("utf-8", "surrogateescape").split("\0")
    at, which = 0, -1
    while at < len(fields) - 1:
        if not fields[at].startswith(":"):
            which, at = which + 1, at + 1
            continue
        _, _, old, new, status = fields[at].split(" ")
        commit, parent = pairs[which]
        yield Change(commit, parent, status[0], fields[at + 1], old, new)
        at += 2


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
            above = [str(one) for one in reversed(PurePosixPath(folder).parents)][1:]
            self._list((*above, folder), "-d")
            self._listed[folder] = self._list((f"{folder}/",), "-r")
        return self._listed[folder]

    def _list(self, paths: Sequence[str], option: str) -> dict[str, Entry]:
        options = () if option == "-d" else (option,)
        said = self.repository.run("ls-tree", "-z", "--full-tree", *options, self.commit, "--", *paths)
        found: dict[str, Entry] = {}
        for line in said.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            facts, _, path = line.partition("\t")
            mode, _, blob = facts.split(" ")
            if mode in (_LINK, _MODULE):
                what = "a symbolic link" if mode == _LINK else "another repository"
                raise IntegrityError(
                    f"{path} at {self.commit[:12]}: {what}; what is committed is the link, not the file",
                    remedy="commit the file itself",
                )
            found[path] = Entry(mode, blob)
        return found

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

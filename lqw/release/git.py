"""Reading a git repository: what is committed, and how it came to be. Nothing here believes the working tree.

The environment is scrubbed, and replacement objects and grafts are switched off, so that neither a hook's variables nor
a local trick can show another history than the one that others fetch.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import IntegrityError, UsageError
from lqw.release.objects import TREE, Object, Objects
from lqw.release.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lqw.release.objects import Entry

__all__ = ["ZERO", "Change", "Repository", "Tag"]

ZERO = "0" * 40
_SETTINGS = (
    "advice.graftFileDeprecated=false",  # it is deprecated, and must be switched off all the same
    "core.commitGraph=false",  # a file of the clone that may name other parents than the commits do
)
_PEOPLE = tuple(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE"))
_KEPT = ("GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", *_PEOPLE)
_SAFE = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag: the commit it names, and, where it is annotated, its message."""

    name: str
    commit: str
    annotated: bool
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
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
        self._environment = {**plain, **_SAFE}
        self._trees: dict[str, tuple[tuple[str, Entry], ...]] = {}
        self._parents: dict[str, list[str]] = {}
        asked = (
            "rev-parse",
            "--is-shallow-repository",
            "--is-inside-work-tree",
            "--absolute-git-dir",
            "--show-toplevel",
        )
        done = self._start(asked)
        said = done.stdout.decode("utf-8", "surrogateescape").splitlines()
        bare = len(said) > 1 and said[1] == "false"
        if done.returncode != 0 and not bare:
            raise _refused(asked, done)
        self.root = Path(said[2 if bare else -1])
        """The work tree's root, and git's own folder where there is no work tree."""
        self._folder = self.root  # else what git lists would be what lies below the folder that was named
        self._objects = Objects(self._git, self._environment)
        self.shallow = said[0] != "false"
        """Whether history was cut off when this repository was cloned."""

    @property
    def _git(self) -> list[str]:
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        return ["git", "-C", str(self._folder), "--no-optional-locks", *settings]

    def run(self, *arguments: str, data: bytes | None = None) -> bytes:
        """Return what a git command prints; UsageError with git's own words where it fails."""
        done = self._start(arguments, data)
        if done.returncode != 0:
            raise _refused(arguments, done)
        return done.stdout

    def _start(self, arguments: Sequence[str], data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        command = [*self._git, *arguments]
        try:
            return subprocess.run(command, env=self._environment, input=data, capture_output=True, check=False)
        except OSError as err:
            raise UsageError(f"git: {err.strerror or err}", remedy="install git, name a folder that is there") from err

    def _text(self, *arguments: str) -> str:
        return self.run(*arguments).decode("utf-8", "surrogateescape").strip()

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
        found = self._objects.read(f"{name}^{{commit}}")
        return None if found is None else found.id

    def tag(self, name: str) -> Tag | None:
        """Return a tag of this repository, or None.

        Raises
        ------
        IntegrityError
            What stands under that name leads to no commit, to another tag, or was made under another name.
        """
        found = self._objects.read(f"refs/tags/{name}")
        if found is None or found.kind == "commit":
            return None if found is None else Tag(name, found.id, annotated=False, message="")
        if found.kind != "tag":
            raise IntegrityError(f"{name}: a tag of a {found.kind}, not of a commit", remedy="delete it: git tag -d")
        head, _, message = found.data.decode("utf-8", "replace").partition("\n\n")
        fields = dict(line.partition(" ")[::2] for line in head.splitlines())
        if (fields.get("type"), fields.get("tag")) != ("commit", name):
            said = f"of a {fields.get('type')}, made as {fields.get('tag', '')[:80]!r}"
            raise IntegrityError(f"{name}: a tag {said}; not one commit's own", remedy="delete it: git tag -d")
        return Tag(name, fields["object"], annotated=True, message=message)

    def tags_before(self, commit: str) -> list[tuple[str, str]]:
        """Return name and commit of every tag in the history of a commit, but not of itself, the nearest first.

        A tag of a tag, of a tree or of a file is passed over.
        """
        form = "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"
        found: dict[str, list[str]] = {}
        for line in self._text("for-each-ref", f"--merged={commit}", form, "refs/tags/").splitlines():
            kind, one, inner, of, ref = line.split(" ", 4)
            tagged = one if kind == "commit" else of if inner == "commit" else commit
            if tagged != commit:
                found.setdefault(tagged, []).append(ref.removeprefix("refs/tags/"))
        near = self._text("rev-list", "--topo-order", commit).split() if len(found) > 1 else list(found)
        return [(name, one) for one in near if one in found for name in sorted(found[one], reverse=True)]

    def tree(self, commit: str) -> Tree:
        """Return the files of a commit."""
        return Tree(self, commit)

    def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """Return the content of several blobs; IntegrityError where one is missing or too large."""
        return [self._object(one, "blob").data for one in ids]

    def _object(self, name: str, kind: str) -> Object:
        found = self._objects.read(name)
        if found is None or found.kind != kind:
            raise IntegrityError(f"git object {name[:80]}: {'missing' if found is None else found.kind}, not a {kind}")
        return found

    def entries(self, tree: str) -> tuple[tuple[str, Entry], ...]:
        """Return name and entry of each line of a tree, by its id or as ``<commit>^{tree}``."""
        if tree not in self._trees:
            self._trees[tree] = tuple(self._object(tree, "tree").entries())
        return self._trees[tree]

    def parents(self, commit: str) -> list[str]:
        """Return the parents of a commit."""
        if commit not in self._parents:
            head = self._object(commit, "commit").data.partition(b"\n\n")[0].decode("utf-8", "replace")
            found = [line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")]
            self._parents[commit] = found
        return self._parents[commit]

    def blob_at(self, commit: str, path: str) -> str | None:
        """Return the blob that a path is in a commit, or None; IntegrityError for a link."""
        entry = Tree(self, commit).entry(path)
        return None if entry is None or entry.mode == TREE else entry.blob

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether *commit* is in the history of *of*, or is it."""
        return self._start(("merge-base", "--is-ancestor", commit, of)).returncode == 0

    def holding(self, text: str, commit: str, folder: str) -> list[str]:
        """Return the files below a folder of a commit that hold a text, letter by letter."""
        asked = ("grep", "--no-color", "-l", "-z", "-F", "-e", text, commit, "--", folder)
        done = self._start(asked)
        if done.returncode not in (0, 1):  # 1: none does
            raise _refused(asked, done)
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
        listed = self._text("rev-list", "--full-history", "--topo-order", "--reverse", *starts, "--", *prefixes)
        pairs = [(commit, parent) for commit in listed.split() for parent in (self.parents(commit) or [""])]
        if not pairs:
            return []
        asked = "".join(f"{commit} {parent}".rstrip() + "\n" for commit, parent in pairs).encode()
        options = ("--root", "--always", "-r", "--raw", "-z", "--no-renames", "--no-abbrev")
        return list(_changes(self.run("diff-tree", "--stdin", *options, "--", *prefixes, data=asked), pairs))


def _refused(arguments: Sequence[str], done: subprocess.CompletedProcess[bytes]) -> UsageError:
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    text = next((line for line in said if line.startswith(("fatal", "error"))), f"exit {done.returncode}")
    return UsageError(f"git {arguments[0]}: {text}", remedy="name a whole git repository with --repo")


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

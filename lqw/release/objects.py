"""The objects of a git repository, read by one process: commits, trees and files, by their content alone."""

from __future__ import annotations

import hashlib
import subprocess
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.canonical import MAX_BYTES
from lqw.errors import IntegrityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["TREE", "Entry", "Object", "Objects"]

TREE = "40000"
SHA1_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree: git's mode, in octal, and the object it leads to."""

    mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Object:
    """What a name leads to. ``kind`` is git's word: commit, tree, blob or tag."""

    id: str
    kind: str
    data: bytes

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield name and entry of each line of a tree, in git's order.

        Raises
        ------
        IntegrityError
            A line is cut short, a name stands twice or is none: git itself writes no such tree.
        """
        width, at, seen = len(self.id) // 2, 0, {"", ".", "..", ".git"}
        while at < len(self.data):
            space, end = self.data.find(b" ", at), self.data.find(b"\0", at)
            name = self.data[space + 1 : end].decode("utf-8", "surrogateescape")
            if not at < space < end <= len(self.data) - 1 - width or name in seen or "/" in name:
                raise IntegrityError(f"git tree {self.id[:12]}: not a tree that git writes, at {name[:80]!r}")
            seen.add(name)
            yield (
                name,
                Entry(self.data[at:space].decode("ascii", "replace"), self.data[end + 1 : end + 1 + width].hex()),
            )
            at = end + 1 + width


def _named(name: str, kind: str, data: bytes) -> bool:
    """Return whether an object's name is the hash of its content: SHA-1, and SHA-256 where a repository uses that."""
    begun = hashlib.sha1(usedforsecurity=False) if len(name) == SHA1_DIGITS else hashlib.sha256()
    begun.update(f"{kind} {len(data)}\0".encode())
    begun.update(data)
    return begun.hexdigest() == name


class Objects:
    """Reads objects by name, through one ``git cat-file --batch`` that lives as long as this does.

    Parameters
    ----------
    command : sequence of str
        ``git`` and the options that say where.
    environment : mapping
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = (*command, "cat-file", "--batch"), dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, name: str) -> Object | None:
        """Return the object that a name leads to, or None where there is none.

        Raises
        ------
        IntegrityError
            It is larger than a receipt may be, or the repository is damaged.
        """
        if not name or any(character in name for character in "\n\r\0"):
            return None
        process = self._running()
        if process.stdin is None or process.stdout is None:
            raise AssertionError(name)  # both are pipes
        try:
            process.stdin.write(name.encode("utf-8", "surrogateescape") + b"\n")
            process.stdin.flush()
            head = process.stdout.readline()
        except OSError:
            head = b""
        words = head.decode("utf-8", "replace").rsplit(" ", 2)
        if head.endswith((b" missing\n", b" ambiguous\n")):
            return None
        if not words[-1].strip().isdigit():
            self.close()
            raise IntegrityError(f"git object {name[:80]}: git cannot read it", remedy="git fsck says more")
        size = int(words[-1])
        if size > MAX_BYTES:
            self.close()  # it would have to be read to the end before anything else is
            raise IntegrityError(f"git object {name[:80]}: {words[-2]} of {size} bytes, not at most {MAX_BYTES}")
        data = process.stdout.read(size + 1)[:size]
        if not _named(words[0], words[1], data):  # git itself does not look
            self.close()
            raise IntegrityError(
                f"git object {words[0][:80]}: holds another content than its name says", remedy="git fsck says more"
            )
        return Object(words[0], words[1], data)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command, env=self._environment,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            except OSError as err:
                remedy = "install git, name a folder that is there"
                raise UsageError(f"git: {err.strerror or err}", remedy=remedy) from err
            weakref.finalize(self, _end, self._process)
        return self._process

    def close(self) -> None:
        """End the process; the next read starts another."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        process.kill()
        process.communicate()

"""Making a tag, and a hook that lets no release tag out of this clone without one that was made so."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

from lqw.errors import Exit, GateError, IntegrityError, UsageError
from lqw.release.tag import verify_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lqw.release.git import Repository
    from lqw.release.tag import TagVerdict

__all__ = ["Blocked", "check_push", "install_hook", "make_tag", "message_of", "tag_findings"]

MARK = "# lqw: pre-push hook"
_LINE = re.compile(r"^lqw-receipt (?P<host>[a-z0-9._-]+) (?P<sha256>[0-9a-f]{64})$", re.MULTILINE)
_HOOK = """#!/bin/sh
{mark}; it verifies every v* tag that leaves this clone. Made by: lqw hooks install
exec {python} -P -c 'from lqw.cli.app import main; main()' hooks pre-push "$@"
"""


class Blocked(GateError):
    """A tag that may not be made, or may not be pushed."""

    def __init__(self, message: str, status: Exit) -> None:
        super().__init__(message, remedy="lqw verify --tag says everything that speaks against it")
        self.exit_status = status


def message_of(verdict: TagVerdict) -> str:
    """Return a tag's message: the verdict, and the sha256 of each host's receipt."""
    lines = [
        f"lqw-receipt {one.host} {one.verified.receipt_sha256}" for one in verdict.hosts if one.verified is not None
    ]
    return "\n".join([verdict.tag, "", verdict.sentence, "", *lines]) + "\n"


def make_tag(repository: Repository, name: str, *, at: str | None, policy: str | None, day: str) -> TagVerdict:
    """Verify, and only then make an annotated tag that names the receipts.

    Raises
    ------
    UsageError
        There is such a tag, or the name is no version's.
    Blocked
        The verdict is not PASS; its exit status is the verdict's.
    """
    if not re.fullmatch(r"v[0-9][0-9A-Za-z.+_-]{0,63}", name):
        raise UsageError(f"{name}: not a release's tag", remedy="a v and the version, such as v0.69.4")
    if repository.tag(name) is not None:
        raise UsageError(
            f"{name}: there is such a tag", remedy="tags are never moved: give the release another version"
        )
    verdict = verify_tag(repository, name, at=at, policy=policy, day=day)
    if verdict.exit_status is not Exit.PASS:
        raise Blocked(f"no tag was made: {verdict.sentence}", verdict.exit_status)
    repository.run(
        "tag", "-a", name, "-F", "-", "--cleanup=verbatim", verdict.commit, data=message_of(verdict).encode()
    )
    return verdict


def tag_findings(repository: Repository, name: str, verdict: TagVerdict) -> Iterator[str]:
    """Yield in words why an existing tag does not name the receipts it was made with."""
    tag = repository.tag(name)
    if tag is None:
        yield f"{name}: there is no such tag here"
        return
    if not tag.annotated:
        yield f"{name}: not annotated; make it with: lqw tag {name}"
        return
    named = {found["host"]: found["sha256"] for found in _LINE.finditer(tag.message)}
    for one in verdict.hosts:
        sha256 = one.verified.receipt_sha256 if one.verified else ""
        if named.get(one.host) != sha256:
            said = named.get(one.host, "no receipt")[:12]
            yield f"{name}: its message names {said} of {one.host}, the receipt is {sha256[:12] or 'absent'}"


def check_push(repository: Repository, lines: Iterable[str], *, policy: str | None, day: str) -> list[str]:
    """Judge what a push would send; return the tags that were looked at.

    Parameters
    ----------
    lines : iterable of str
        What git gives a pre-push hook: local ref, its object, remote ref, the remote's object.

    Raises
    ------
    Blocked
        A ``v*`` tag that is deleted, moved, or not made by a PASS of its own commit.
    """
    looked: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        local, new, remote, old = line.split()
        name = remote.removeprefix("refs/tags/")
        if not remote.startswith("refs/tags/v") or not name[1:2].isdigit():
            continue
        looked.append(name)
        if set(new) == {"0"} or set(old) != {"0"}:
            raise Blocked(f"{name}: release tags are neither deleted nor moved", Exit.INVALID)
        if local != remote:
            raise Blocked(f"{local} would become {remote}: push a tag under its own name", Exit.INVALID)
        verdict = verify_tag(repository, name, policy=policy, day=day)
        if verdict.exit_status is not Exit.PASS:
            raise Blocked(f"{name} is not pushed: {verdict.sentence}", verdict.exit_status)
        for text in tag_findings(repository, name, verdict):
            raise Blocked(f"{name} is not pushed: {text}", Exit.INVALID)
    return looked


def install_hook(repository: Repository) -> Path:
    """Write the pre-push hook; return its path. Twice is once; a hook of somebody else's is left as it is.

    Raises
    ------
    UsageError
        There is another pre-push hook, or hooks are kept outside of the repository.
    IntegrityError
        The hook is a symbolic link.
    """
    place = repository.hooks / "pre-push"
    if not any(place.is_relative_to(inside) for inside in (repository.root.resolve(), repository.git_folder)):
        raise UsageError(f"{place}: git runs hooks from outside of this repository", remedy="unset core.hooksPath")
    if place.is_symlink():
        raise IntegrityError(f"{place}: a symbolic link", remedy="remove it, and install again")
    if place.exists() and MARK not in place.read_text(encoding="utf-8", errors="replace"):
        remedy = 'call lqw in it, with its standard input: lqw hooks pre-push "$@"'
        raise UsageError(f"{place}: another hook is there", remedy=remedy)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_HOOK.format(mark=MARK, python=shlex.quote(sys.executable)), encoding="utf-8")
    place.chmod(0o755 if os.name == "posix" else 0o666)
    return place

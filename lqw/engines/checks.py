"""Checks of an engine's spec before anything is started; each failure names file, field, value and remedy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.engines.binaries import file_sha256
from lqw.errors import ParamsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.engines.base import Where
    from lqw.params import EngineSpec

__all__ = ["check_binary", "check_settings"]


_KEY = re.compile(r"_API_KEY(_HASH|_FILE)?$")


def check_settings(
    spec: EngineSpec,
    kinds: Mapping[str, type],
    least: Mapping[str, int],
    words: Mapping[str, Sequence[str]],
    where: Where,
) -> None:
    """Raise ParamsError for a setting that is unknown, of another type, too small or none of its words; for a key."""
    for name in spec.env:
        if _KEY.search(name):
            raise ParamsError(
                file=where.file,
                field=f"{where.field}.env.{name}",
                value="(not shown)",
                problem="it would answer 401 to lqw, which sends no key; and a release file is no place for one",
                remedy="remove the variable: the server listens on 127.0.0.1 only",
            )
    for name, value in spec.settings.items():
        problem = ""
        if name not in kinds:
            problem, remedy = "no such setting of this engine", f"known: {', '.join(kinds)}"
        elif not _is_a(value, kinds[name]):
            wanted = "a whole number or a word" if kinds[name] is object else kinds[name].__name__
            problem, remedy = f"must be {wanted}", "correct the value; docs/operators-guide.md lists them"
        elif name in least and isinstance(value, int) and value < least[name]:
            problem, remedy = f"must be {least[name]} or more", "correct the value; docs/operators-guide.md lists them"
        elif name in words and value not in words[name]:
            problem, remedy = "not one of its words", f"one of: {', '.join(words[name])}"
        if problem:
            raise ParamsError(
                file=where.file, field=f"{where.field}.settings.{name}", value=value, problem=problem, remedy=remedy
            )


def _is_a(value: object, kind: type) -> bool:
    """Return whether a value may stand for *kind*: a whole number may for a float, a bool for nothing but a bool."""
    more: dict[type, tuple[type, ...]] = {object: (int, str), float: (float, int)}
    return type(value) in more.get(kind, (kind,))


def check_binary(spec: EngineSpec, where: Where) -> None:
    """Raise ParamsError where the binary is not named, not there, not executable, or not the pinned bytes."""
    field = f"{where.field}.binary"
    if not spec.binary:
        raise ParamsError(
            file=where.file,
            field=field,
            value=spec.binary,
            problem=f"{spec.engine} needs a program",
            remedy="name the path of the binary",
        )
    path = Path(spec.binary)
    problem = ""
    if not path.is_file():
        problem, remedy = (
            "no such file",
            f"put the build there, install -m 755 BUILD {spec.binary}, or correct the path",
        )
    elif not os.access(path, os.X_OK):
        problem, remedy = "not executable", f"chmod +x {spec.binary}"
    elif spec.sha256 is not None and (found := file_sha256(path)) != spec.sha256:
        problem, remedy = (
            f"its sha256 is {found}, pinned is {spec.sha256}",
            f"install -m 755 BUILD {spec.binary} of the pinned build, or pin this one",
        )
    if problem:
        raise ParamsError(file=where.file, field=field, value=spec.binary, problem=problem, remedy=remedy)

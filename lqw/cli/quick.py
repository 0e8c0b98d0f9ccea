"""The plain forms of ``lqw verify``, read without typer, whose import takes longer than judging a receipt.

Only what needs no second thought is read here; help, abbreviations, repetitions and every mistake are left to the
command line proper, so that there is one place that says what is wrong. A test holds both to the same answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["verify_options"]

_FLAGS = {"--history": "history", "--all": "every", "--json": "as_json", "--github": "github"}
_TEXTS = {"--tag": "tag", "--at": "at", "--since": "since", "--policy": "policy", "--day": "day", "--link": "link"}
_PATHS = {"--repo": "repo", "--junit": "junit", "--markdown": "markdown", "--params": "params"}
_VALUES = _TEXTS | _PATHS


def verify_options(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of :func:`lqw.cli.judging.judged`, or None where typer has to look."""
    options: dict[str, Any] = {}
    paths: list[Path] = []
    rest = iter(words)
    for word in rest:
        name, joined, value = word.partition("=")
        found: str | Path | bool | None
        if not word.startswith("-"):
            paths.append(Path(word))
            continue
        if word in _FLAGS:
            key, found = _FLAGS[word], True
        elif name in _VALUES:
            key, found = _VALUES[name], _value(name, value if joined else next(rest, ""))
        else:
            return None
        if found is None or key in options:
            return None
        options[key] = found
    if "" in words:
        return None
    return options | ({"paths": paths} if paths else {})


def _value(name: str, text: str) -> str | Path | None:
    if not text or (text.startswith("-") and text != "-"):
        return None
    return Path(text) if name in _PATHS else text

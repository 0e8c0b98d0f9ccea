"""Engines of earlier releases on a host: the third arm of a confirmation. ``params/earlier/<host>.yaml``.

The file stands beside the release files and is no part of them: it names paths of one machine, grows with every
release, and may be completed after a run went RED without changing what that run was.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from lqw.params.loading import params_root, parse_spec
from lqw.params.specs import EngineSpec, Version
from lqw.params.strict import Strict

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.params.hosts import HostSpec

__all__ = ["earlier_file", "load_earlier"]


class _Earlier(Strict):
    """By release: the engine as it was released."""

    schema_: Literal["lqw-earlier/1"] = Field(alias="schema")
    releases: dict[Version, EngineSpec] = Field(max_length=64)

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        for release, spec in self.releases.items():
            if spec.sha256 is None:
                raise ValueError(f"{release}: an old build needs its sha256, or nobody knows which one was measured")
        return self


def earlier_file(params_file: Path, host: str) -> Path:
    """Return where the earlier releases of a host are named; the file need not be there."""
    return params_root(params_file) / "earlier" / f"{host}.yaml"


def load_earlier(params_file: Path, host: HostSpec) -> dict[str, EngineSpec]:
    """Return the engines of earlier releases that can be measured on *host*; none where no file names any.

    Program and settings that are the host's come from its file, as they do for a release.

    Raises
    ------
    ParamsError
        Naming file, field, value and remedy.
    """
    path = earlier_file(params_file, host.name)
    if not os.path.lexists(path):
        return {}
    spec = parse_spec(
        _Earlier, path, {}, params_root(params_file), remedy="docs/operators-guide.md has a whole example"
    )
    return {release: engine.placed(host.engines) for release, engine in spec.releases.items()}

"""The typed parameters: what a release and its targets may say, and all of a run together."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from lqw.metrics import RowId
from lqw.params.hosts import FileName, HostEngineSpec, HostSpec, Name, Setting
from lqw.params.parity import ParityParams
from lqw.params.protocol import ProtocolSpec
from lqw.params.roofline import RooflineSpec
from lqw.params.strict import Strict

__all__ = [
    "MAX_ROWS",
    "BesideSpec",
    "EngineSpec",
    "ModelSpec",
    "Params",
    "ReleaseSpec",
    "TargetsSpec",
]

Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PinnedSha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64}|unpinned)$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]

MAX_ROWS = 1_024
"""Rows of a release, over all its models; sixty are usual. A receipt of more would hold its verifier up."""


class EngineSpec(Strict):
    """An engine and how it is started. ``settings`` are the adapter's own words (see its module).

    ``sha256`` is of the program's bytes, ``commit`` the one it was built from (7 to 40 digits; it need not say all): a
    subject that has not both can be measured, but not tagged.
    """

    engine: Name
    binary: FileName | None = None
    sha256: Sha256 | None = None
    commit: Commit | None = None
    settings: dict[str, Setting] = Field(default={})
    env: dict[EnvName, EnvValue] = Field(default={})

    def placed(self, engines: dict[str, HostEngineSpec]) -> Self:
        """Return the spec with the program and the settings that a host has for this engine, where it names none."""
        if (here := engines.get(self.engine)) is None:
            return self
        update = {"binary": self.binary or here.binary, "settings": {**here.settings, **self.settings}}
        return self.model_copy(update=update)


class BesideSpec(EngineSpec):
    """A further engine, measured after the pairs and published beside them: it gates nothing and can fail nothing."""

    name: Name


class ModelSpec(Strict):
    """One GGUF. ``gguf`` is a path (relative to the params file), or ``package:NAME`` of an installed wheel.

    ``sha256: unpinned`` says openly that nobody has pinned the bytes yet: such a file can be read, and not be measured.
    """

    name: Name
    gguf: FileName = Field(min_length=1)
    sha256: PinnedSha256

    @field_validator("sha256")
    @classmethod
    def _no_placeholder(cls, sha256: str) -> str:
        if len(set(sha256)) == 1:
            raise ValueError("one digit 64 times is a placeholder, not a sha256; say `unpinned` where it is not known")
        return sha256


class ReleaseSpec(Strict):
    """One release to be judged.

    ``blessed`` names the model of ``parity/blessed.yaml`` whose parity receipts the release needs on each of its
    hosts. Without it nothing is claimed of the batched path; a tag cannot be had that way. ``binaries`` maps a host to
    the sha256 of the subject's program there, where hosts of unlike processors run unlike builds of one commit.
    ``beside`` are engines that are measured once, after all pairs, and published: never gating.
    """

    schema_: Literal["lqw-release/1"] = Field(alias="schema")
    release: Version
    hosts: list[Name] = Field(min_length=1)
    protocol: Name
    seed: int = Field(ge=0, lt=2**53)
    subject: EngineSpec
    comparator: EngineSpec
    models: list[ModelSpec] = Field(min_length=1, max_length=64)
    blessed: Name | None = None
    binaries: dict[Name, Sha256] = Field(default={})
    beside: list[BesideSpec] = Field(default=[], max_length=8)

    def on(self, host: str, engines: dict[str, HostEngineSpec]) -> ReleaseSpec:
        """Return the release as it is measured on *host*, whose *engines* lie where that host's file says.

        What the release itself says of a program or a setting goes before what the host says.
        """
        subject, comparator = self.subject.placed(engines), self.comparator.placed(engines)
        if host in self.binaries:
            subject = subject.model_copy(update={"sha256": self.binaries[host]})
        beside = [one.placed(engines) for one in self.beside]
        return self.model_copy(update={"subject": subject, "comparator": comparator, "beside": beside})

    @field_validator("models", "beside")
    @classmethod
    def _distinct(cls, named: list[Any], info: ValidationInfo) -> list[Any]:
        names = [one.name for one in named]
        if len(set(names)) != len(names):
            raise ValueError(f"two of {info.field_name} have the same name")
        return named


class TargetsSpec(Strict):
    """Published targets, by metric: for rates the least ratio, for latencies the most "× slower"."""

    schema_: Literal["lqw-targets/1"] = Field(alias="schema")
    targets: dict[str, float] = Field(default={})

    @field_validator("targets")
    @classmethod
    def _sane(cls, targets: dict[str, float]) -> dict[str, float]:
        for metric, value in targets.items():
            RowId.parse(f"any/{metric}" if metric in ("decode", "vram_peak", "rss_peak") else f"any/{metric}@1")
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"target of {metric} must be a positive number")
        return targets


class Params(Strict):
    """Everything a run may depend on, resolved; ``files`` holds the sha256 of every file that was read."""

    path: str
    release: ReleaseSpec
    host: HostSpec
    protocol: ProtocolSpec
    targets: TargetsSpec
    prompts: dict[str, str]
    files: dict[str, Sha256]
    parity: ParityParams | None = None
    roofline: RooflineSpec | None = None

    @cached_property
    def folder(self) -> Path:
        """Return the folder relative paths in the release file start from."""
        return Path(self.path).resolve().parent

    def resolved(self) -> dict[str, Any]:
        """Return the JSON form that plan, journal and receipt carry; no path of this machine in it.

        Commit, binaries, parity, roofline, a host's class and engines, and engines beside stand in it only where they
        are declared: older journals keep their hash.
        """
        out = self.model_dump(mode="json", by_alias=True)
        out["path"] = Path(self.path).name
        for name, declared in (("class", self.host.class_), ("engines", self.host.engines)):
            if not declared:
                del out["host"][name]
        for arm in ("subject", "comparator"):
            if out["release"][arm]["commit"] is None:
                del out["release"][arm]["commit"]
        if self.parity is None:
            del out["parity"], out["release"]["blessed"]
        if self.roofline is None:
            del out["roofline"]
        for name in ("binaries", "beside"):
            if not getattr(self.release, name):
                del out["release"][name]
        return out

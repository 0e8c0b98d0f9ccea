"""The typed parameters: what a release, host, protocol, target and prompt file may say."""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lqw.metrics import RowId
from lqw.params.hosts import HostEngineSpec, HostSpec, Name, Setting
from lqw.params.parity import ParityParams
from lqw.params.strict import Strict

__all__ = [
    "MAX_ROWS",
    "BesideSpec",
    "EngineSpec",
    "IdentityPrompts",
    "IdentitySpec",
    "LaunchSpec",
    "ModelSpec",
    "Params",
    "ProtocolSpec",
    "ReleaseSpec",
    "StepSpec",
    "TargetsSpec",
]

Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PinnedSha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64}|unpinned)$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]

A_WEEK_S = 604_800.0
MAX_ROWS = 1_024
"""Rows of a release, over all its models; sixty are usual. A receipt of more would hold its verifier up."""


class EngineSpec(Strict):
    """An engine and how it is started. ``settings`` are the adapter's own words (see its module).

    ``sha256`` is of the program's bytes, ``commit`` the one it was built from (7 to 40 digits; it need not say all): a
    subject that has not both can be measured, but not tagged.
    """

    engine: Name
    binary: str | None = None
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
    gguf: str = Field(min_length=1)
    sha256: PinnedSha256

    @field_validator("sha256")
    @classmethod
    def _no_placeholder(cls, sha256: str) -> str:
        if len(set(sha256)) == 1:
            raise ValueError("one digit 64 times is a placeholder, not a sha256; say `unpinned` where it is not known")
        return sha256


def _is_default_route(route: str) -> bool:
    return route == "completion"


class StepSpec(Strict):
    """One shape of work inside a start.

    ``cold``: prompts of ``prompt_tokens``, one token each. ``decode``: one stream of ``output_tokens``.
    ``agg``: ``streams`` parallel streams. ``cached``: prime with ``prompt_tokens``, then the same plus
    ``suffix_tokens`` new ones; ``reprime`` primes again before each repeat, which hybrid models need, because their
    state cannot be cut back to the prefix. ``warmups`` requests of the same shape are recorded and dropped by rule.
    ``route``: raw completion, or chat, whose template counts among ``prompt_tokens``; both arms take the same.
    """

    kind: Literal["cold", "decode", "agg", "cached"]
    prompt_tokens: int = Field(ge=8, le=262_144)
    output_tokens: int = Field(default=1, ge=1, le=65_536)
    suffix_tokens: int = Field(default=64, ge=1, le=65_536)
    streams: int = Field(default=1, ge=1, le=256)
    repeats: int = Field(ge=1, le=1_000)
    warmups: int = Field(default=2, ge=0, le=100)
    reprime: bool = True
    # Written where it is declared only: protocols from before there was a route keep their hash.
    route: Literal["completion", "chat"] = Field(default="completion", exclude_if=_is_default_route)

    @property
    def size(self) -> int | None:
        """Return what a row id carries after ``@``."""
        return {
            "cold": self.prompt_tokens,
            "cached": self.prompt_tokens,
            "agg": self.streams,
            "decode": None,
        }[self.kind]

    @property
    def step_id(self) -> str:
        """Return ``kind@size``, unique within a protocol."""
        return self.kind if self.size is None else f"{self.kind}@{self.size}"

    @property
    def peak_tokens(self) -> int:
        """Return the context one slot must hold for this step."""
        suffix = self.suffix_tokens if self.kind == "cached" else 0
        return self.prompt_tokens + suffix + self.output_tokens

    @model_validator(mode="after")
    def _shape(self) -> StepSpec:
        if self.kind in ("decode", "agg") and self.output_tokens < 16:  # noqa: PLR2004
            raise ValueError(f"{self.kind} needs output_tokens >= 16; a rate over fewer tokens is mostly its edges")
        if self.kind in ("cold", "cached") and self.output_tokens != 1:
            raise ValueError(f"{self.kind} times the first token: leave output_tokens at 1")
        if self.kind != "agg" and self.streams != 1:
            raise ValueError("only agg has streams")
        if self.kind == "cached" and self.route == "chat":
            raise ValueError("a chat ends in its template, so none is the prefix of a longer one: leave route out")
        return self


class LaunchSpec(Strict):
    """One fresh start of an engine, per arm: its slots and the steps it serves, in order."""

    slots: int = Field(ge=1, le=256)
    steps: list[StepSpec] = Field(min_length=1, max_length=64)

    @property
    def context_tokens_per_slot(self) -> int:
        """Return the context every slot needs: the largest step plus 64 (MEASUREMENT, protocol 3)."""
        return max(step.peak_tokens for step in self.steps) + 64

    @model_validator(mode="after")
    def _streams_fit(self) -> LaunchSpec:
        for step in self.steps:
            if step.streams > self.slots:
                raise ValueError(f"{step.step_id} wants {step.streams} streams of a start with {self.slots} slots")
        return self


class IdentitySpec(Strict):
    """Token identity: which prompts, how many tokens, how often (self-identity needs two).

    ``at_shapes`` names the prompts that are asked again at every other shape the protocol times (cached prefix, each
    number of parallel streams); without it, all of them.
    """

    prompts: str = "identity.yaml"
    at_shapes: list[Name] | None = Field(default=None, min_length=1)
    output_tokens: int = Field(default=64, ge=8, le=4096)
    repeats: int = Field(default=2, ge=2, le=10)


class ProtocolSpec(Strict):
    """What is measured and how: rows, work, looks. Its hash is part of the epoch key."""

    schema_: Literal["lqw-protocol/1"] = Field(alias="schema")
    name: Name
    rows: list[str] = Field(min_length=1, max_length=256)
    launches: list[LaunchSpec] = Field(min_length=1, max_length=64)
    looks: list[int] = Field(default=[3, 5, 7, 9], min_length=1, max_length=16)
    floor_pairs: int = Field(default=10, ge=6, le=50)
    identity: IdentitySpec = IdentitySpec.model_construct()  # its validator waits until it is needed
    corpus: str = "corpus.txt"
    start_timeout_s: float = Field(default=600.0, gt=0, le=A_WEEK_S)
    request_timeout_s: float = Field(default=600.0, gt=0, le=A_WEEK_S)
    total_deadline_s: float = Field(default=10_800.0, gt=0, le=A_WEEK_S)
    min_window_s: float = Field(default=2.0, gt=0)

    @property
    def steps(self) -> list[StepSpec]:
        """Return the steps of all launches, in their order."""
        return [step for launch in self.launches for step in launch.steps]

    @field_validator("looks")
    @classmethod
    def _looks(cls, looks: list[int]) -> list[int]:
        if looks[0] < 3 or any(b <= a for a, b in itertools.pairwise(looks)):  # noqa: PLR2004
            raise ValueError("looks must rise strictly and start at 3 or more: fewer pairs cannot show a variance")
        if looks[-1] > 200:  # noqa: PLR2004
            raise ValueError("more than 200 pairs: lengthen the work of a start instead")
        return looks

    @model_validator(mode="after")
    def _rows_have_steps(self) -> ProtocolSpec:
        seen: set[str] = set()
        steps = {step.step_id for step in self.steps}
        if len(steps) != len(self.steps):
            raise ValueError("two steps have the same kind and size")
        for short in self.rows:
            row = RowId.parse(f"any/{short}")
            if short in seen:
                raise ValueError(f"row {short!r} stands twice")
            seen.add(short)
            step = row.kind.step if row.size is None else f"{row.kind.step}@{row.size}"
            if row.kind.step != "memory" and step not in steps:
                raise ValueError(f"row {short!r} needs a step {step!r}; there are {sorted(steps)}")
        return self


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

    @cached_property
    def folder(self) -> Path:
        """Return the folder relative paths in the release file start from."""
        return Path(self.path).resolve().parent

    def resolved(self) -> dict[str, Any]:
        """Return the JSON form that plan, journal and receipt carry; no path of this machine in it.

        Commit, binaries, parity, a host's class and engines, and engines beside stand in it only where they are
        declared: older journals keep their hash.
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
        for name in ("binaries", "beside"):
            if not getattr(self.release, name):
                del out["release"][name]
        return out


class IdentityPrompts(Strict):
    """The fixed prompts of the identity stage, by name."""

    schema_: Literal["lqw-identity-prompts/1"] = Field(alias="schema")
    prompts: dict[Name, str] = Field(min_length=1)

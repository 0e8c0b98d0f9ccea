"""The protocol: which rows are measured, by which steps, in which starts, and how often it is looked at them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from lqw.metrics import RowId
from lqw.params.hosts import Name
from lqw.params.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["IdentityPrompts", "IdentitySpec", "LaunchSpec", "ProtocolSpec", "StepSpec"]

A_WEEK_S = 604_800.0


def _is_default_route(route: str) -> bool:
    return route == "completion"


def _is_zero(number: int) -> bool:
    return number == 0


class StepSpec(Strict):
    """One shape of work inside a start.

    ``cold``: prompts of ``prompt_tokens``, one token each. ``decode``: one stream of ``output_tokens``.
    ``agg``: ``streams`` parallel streams. ``cached``: prime with ``prompt_tokens``, then the same plus
    ``suffix_tokens`` new ones; ``reprime`` primes again before each repeat, which hybrid models need, because their
    state cannot be cut back to the prefix. ``warmups`` requests of the same shape are recorded and dropped by rule.
    ``max_repeats`` is the ceiling up to which repeats are lengthened where a start's own error is large beside the
    spread between starts (:mod:`lqw.noise.lengthen`); 0: never. ``route``: raw completion, or chat, whose template
    counts among ``prompt_tokens``; both arms take the same.
    """

    kind: Literal["cold", "decode", "agg", "cached"]
    prompt_tokens: int = Field(ge=8, le=262_144)
    output_tokens: int = Field(default=1, ge=1, le=65_536)
    suffix_tokens: int = Field(default=64, ge=1, le=65_536)
    streams: int = Field(default=1, ge=1, le=256)
    repeats: int = Field(ge=1, le=1_000)
    warmups: int = Field(default=2, ge=0, le=100)
    reprime: bool = True
    # Written where they are declared only: protocols from before there were a ceiling and a route keep their hash.
    max_repeats: int = Field(default=0, ge=0, le=1_000, exclude_if=_is_zero)
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
        if 0 < self.max_repeats < self.repeats:
            raise ValueError(f"max_repeats {self.max_repeats} is below repeats {self.repeats}: it is their ceiling")
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

    def repeated(self, repeats: Mapping[str, int]) -> LaunchSpec:
        """Return the launch with other timed repeats, by step id, where given."""
        steps = [step.model_copy(update={"repeats": repeats.get(step.step_id, step.repeats)}) for step in self.steps]
        return self.model_copy(update={"steps": steps})

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
            if row.kind.step != "memory" and row.step_id not in steps:
                raise ValueError(f"row {short!r} needs a step {row.step_id!r}; there are {sorted(steps)}")
        return self


class IdentityPrompts(Strict):
    """The fixed prompts of the identity stage, by name."""

    schema_: Literal["lqw-identity-prompts/1"] = Field(alias="schema")
    prompts: dict[Name, str] = Field(min_length=1)

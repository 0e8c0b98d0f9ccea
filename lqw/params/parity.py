"""The two parameter files of parity: floors with their bases, and the blessed model with its receipts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from lqw.params.strict import Strict

__all__ = ["HOST", "BlessedSpec", "ParityParams", "ReceiptsSpec", "ThresholdSpec", "ThresholdsSpec"]

HOST = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Host = Annotated[str, StringConstraints(pattern=HOST)]


class ThresholdSpec(Strict):
    """One floor. ``basis`` says which populations, n, spread and hosts it rests on."""

    min_cosine: float = Field(gt=0, le=1)
    basis: str

    @field_validator("basis")
    @classmethod
    def _basis(cls, basis: str) -> str:
        if not basis.strip():
            raise ValueError("a floor needs the basis of its number: populations, n, spread, hosts")
        return basis


class ThresholdsSpec(Strict):
    """``params/parity/thresholds.yaml``."""

    schema_: Literal["apr-parity-thresholds/v1"] = Field(alias="schema")
    min_positions: int = Field(ge=1)
    default: ThresholdSpec
    models: dict[str, ThresholdSpec] = Field(default={})
    methods: dict[str, ThresholdSpec] = Field(default={})
    """Floors of records that were not taken by ``apr parity``: their cosines have another scale."""

    def of(self, model: str) -> tuple[ThresholdSpec, str]:
        """Return the floor of *model* and where it comes from (``models.NAME`` or ``default``)."""
        if model in self.models:
            return self.models[model], f"models.{model}"
        return self.default, "default"


class ReceiptsSpec(Strict):
    """Where one host's two receipts lie, from the repository root."""

    m1: str | None = None
    serving: str | None = None


class BlessedSpec(Strict):
    """``params/parity/blessed.yaml``. No model or no host is a verdict (FAIL), not a usage error."""

    schema_: Literal["apr-parity-blessed/v1"] = Field(alias="schema")
    model: str = ""
    file: str = ""
    hosts: list[Host] = Field(default=[])
    receipts: dict[str, ReceiptsSpec] = Field(default={})

    @model_validator(mode="after")
    def _hosts(self) -> BlessedSpec:
        if len(set(self.hosts)) != len(self.hosts):
            raise ValueError("a host stands twice in hosts")
        strange = sorted(set(self.receipts) - set(self.hosts))
        if strange and self.hosts:
            raise ValueError(f"receipts names {', '.join(strange)}, which hosts does not")
        return self


class ParityParams(Strict):
    """What a release that names a blessed model is held to: the blessing and the floors, whole."""

    blessed: BlessedSpec
    thresholds: ThresholdsSpec

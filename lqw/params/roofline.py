"""What a host can do at best, measured once: ``params/rooflines/HOST.json``, written by ``lqw doctor --roofline``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from lqw.params.hosts import Name
from lqw.params.strict import Strict

__all__ = ["CopyRate", "MatmulRate", "RooflineSpec"]

Words = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class CopyRate(Strict):
    """Bytes read plus bytes written a second while memory is copied."""

    bytes_s: int = Field(gt=0)
    method: Words


class MatmulRate(Strict):
    """Floating point operations a second of a large product of matrices, 2·n³ of each."""

    flop_s: int = Field(gt=0)
    method: Words


class RooflineSpec(Strict):
    """Measured limits of one device; what could not be measured is absent, and ``missing`` says why."""

    schema_: Literal["lqw-roofline/1"] = Field(alias="schema")
    host: Name
    compute: Literal["cpu", "cuda"]
    device: Words  # as the journal's header names it: the GPU, or the processor
    measured_utc: Words
    copy_: CopyRate | None = Field(default=None, alias="copy")
    matmul: MatmulRate | None = None
    missing: dict[Literal["copy", "matmul"], Words] = Field(default={})

"""What ran and where: the engine, the host, and the work that one pass over a model is."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lqw.samples.base import Many, Record

__all__ = ["EngineFacts", "HostFacts", "ModelWork"]


class EngineFacts(Record):
    """What actually ran: recorded after readiness, from the running process."""

    engine: str
    version: str
    build: str
    binary_sha256: str
    command: Many[str]  # paths shortened to their names
    env: dict[str, str]
    settings: dict[str, Any]  # read back from the server
    compute: Literal["cpu", "cuda"]


class HostFacts(Record):
    """The host class of the epoch key; no clocks, no readings."""

    name: str
    cpu_model: str
    cores: int
    ram_gib: int
    gpu: str | None = None
    vram_mib: int | None = None
    power_limit_w: int | None = None
    driver: str | None = None
    cuda: str | None = None
    kernel: str
    python: str


class ModelWork(Record):
    """What one pass over a model must read and compute at least, from its GGUF's header: for the roofline."""

    weight_bytes: int = Field(gt=0)  # read for every token: all but a table of embeddings that only gives rows
    layer_weights: int = Field(gt=0)  # numbers in the matrices of the layers
    output_weights: int = Field(ge=0)  # of the output matrix
    kv_bytes_per_token: int = Field(ge=0)
    kv_window: int = Field(ge=0)  # tokens an attention layer looks back at most; 0: all of them
    state_bytes: int = Field(ge=0)  # of the recurrent layers, per stream

    def kv(self, tokens: int) -> int:
        """Return the bytes of keys and values of *tokens*; where layers look back a window, what is certain."""
        return self.kv_bytes_per_token * (min(tokens, self.kv_window) if self.kv_window else tokens)

"""What a record was taken on: the GPU, its compute capability, and the architecture the model's file names."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from lqw.host.gpu import open_gpu
from lqw.synth.gguf import BadGguf, read_metadata

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["hardware", "utc_now"]


def utc_now() -> str:
    """Return now as ISO 8601, UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def hardware(model: Path, *, cuda: bool) -> dict[str, str | None]:
    """Return GPU, its compute capability and the model's architecture; None for what is not told."""
    out: dict[str, str | None] = {"gpu": None, "sm": None, "arch": _architecture(model)}
    if cuda:
        gpu = open_gpu()
        capability = gpu.ask("nvmlDeviceGetCudaComputeCapability", gpu.devices[0])
        out |= {
            "gpu": str(gpu.facts()["gpu"]),
            "sm": None if capability is None else "sm_" + "".join(map(str, capability)),
        }
    return out


def _architecture(model: Path) -> str | None:
    try:
        with model.open("rb") as handle:
            name = read_metadata(handle, wanted="general.architecture")["general.architecture"]
    except (BadGguf, KeyError, OSError):
        return None
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else None

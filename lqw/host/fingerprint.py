"""The host class: what about this machine decides its numbers. No readings, no clocks: they would split the history."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Literal

from lqw.samples import HostFacts

__all__ = ["cpu_model", "host_facts"]


def cpu_model(cpuinfo: str) -> str:
    """Return the processor's name from the text of ``/proc/cpuinfo``; the architecture where it has none (ARM)."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model") and value.strip():
            return " ".join(value.split())
    return platform.machine()


def _ram_gib() -> int:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)


def host_facts(name: str, compute: Literal["cpu", "cuda"]) -> HostFacts:
    """Return the facts of this machine under the name the params give it.

    ``cores`` are those this process may use (affinity), not those of the box. GPU fields are filled with
    ``compute="cuda"`` only, and None where NVML does not say.
    """
    gpu: dict[str, str | int | None] = {}
    if compute == "cuda":
        from lqw.host.gpu import gpu_facts  # noqa: PLC0415 - NVML is loaded only where a GPU is used

        gpu = gpu_facts()
    return HostFacts.model_validate(
        {
            "name": name,
            "cpu_model": cpu_model(Path("/proc/cpuinfo").read_text()),
            "cores": len(os.sched_getaffinity(0)),
            "ram_gib": _ram_gib(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            **gpu,
        }
    )

"""What kind of machine this is: the host class of the epoch key. No clocks, no readings that drift."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from lqw.samples import HostFacts

__all__ = ["host_facts"]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("model name", "Model", "CPU part")):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()


def host_facts(name: str) -> HostFacts:
    """Return the facts of this machine under the host name *name* (from the params, already normalised)."""
    cores = len(os.sched_getaffinity(0))
    return HostFacts(
        name=name,
        cpu_model=_cpu_model(),
        cores=cores,
        ram_gib=round(psutil.virtual_memory().total / 2**30),
        kernel=platform.release().split("-")[0],
        python=platform.python_version(),
    )

"""GPUs through NVML: facts, memory, processes. The only module that loads it; none of it runs on a CPU host.

NVML says "not supported" for some readings on unified-memory machines and virtual ones (memory totals on GB10,
everything per process under WSL): such a reading is None here, and the caller falls back by name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from lqw.errors import UsageError
from lqw.host.memory import available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Gpu", "VramMeter", "gpu_facts", "open_gpu"]

VramMethod = Literal["nvml_process", "nvml_device_delta", "unified_meminfo"]
_MIB = 2**20


def _visible(count: int, handles: Callable[[int], Any], uuid: Callable[[Any], str]) -> list[Any]:
    """Return the devices ``CUDA_VISIBLE_DEVICES`` leaves (indices or UUID prefixes), all where it is unset."""
    everyone = [handles(index) for index in range(count)]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return everyone
    chosen = []
    for word in filter(None, (part.strip() for part in wanted.split(","))):
        if word.isdecimal():
            if int(word) >= count:
                break  # CUDA ignores everything from the first bad index on
            chosen.append(everyone[int(word)])
        else:
            chosen += [each for each in everyone if uuid(each).startswith(word)]
    return chosen


class Gpu:
    """The visible devices of this machine.

    Parameters
    ----------
    library : module
        ``pynvml``, or what speaks like it.
    """

    def __init__(self, library: Any) -> None:
        self._nvml = library
        count = library.nvmlDeviceGetCount()
        self.devices = _visible(count, library.nvmlDeviceGetHandleByIndex, library.nvmlDeviceGetUUID)

    def ask(self, function: str, *args: Any) -> Any:
        """Return what an NVML function gives, or None where it says that it cannot."""
        try:
            return getattr(self._nvml, function)(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def used_bytes(self) -> int | None:
        """Return the memory in use on the visible devices, by anybody; None where one of them does not say."""
        readings = [self.ask("nvmlDeviceGetMemoryInfo", device) for device in self.devices]
        if not readings or any(one is None for one in readings):
            return None
        return sum(int(one.used) for one in readings)

    def processes(self) -> dict[int, int | None] | None:
        """Return pid → bytes (None: not told) of the processes that compute on the visible devices; None: not told.

        In a container NVML may give pids of the outer namespace; :func:`lqw.host.idle.strangers` copes with that.
        """
        out: dict[int, int | None] = {}
        for device in self.devices:
            listed = self.ask("nvmlDeviceGetComputeRunningProcesses", device)
            if listed is None:
                return None
            for one in listed:
                used, before = one.usedGpuMemory, out.get(one.pid, 0)
                out[one.pid] = None if used is None or before is None else before + int(used)
        return out

    def best_method(self) -> VramMethod:
        """Return the best way this machine's memory can be read (:class:`VramMeter`)."""
        if self.processes() is not None:
            return "nvml_process"
        return "unified_meminfo" if self.used_bytes() is None else "nvml_device_delta"

    def facts(self) -> dict[str, str | int | None]:
        """Return the GPU fields of :class:`lqw.samples.HostFacts`, of the first visible device."""
        device = self.devices[0]
        memory = self.ask("nvmlDeviceGetMemoryInfo", device)
        limit = self.ask("nvmlDeviceGetEnforcedPowerLimit", device)
        cuda = self.ask("nvmlSystemGetCudaDriverVersion")
        names = [str(self.ask("nvmlDeviceGetName", one)) for one in self.devices]
        return {
            "gpu": names[0] if len(names) == 1 else f"{len(names)} x {', '.join(sorted(set(names)))}",
            "vram_mib": None if memory is None else int(memory.total) // _MIB,
            "power_limit_w": None if limit is None else round(limit / 1000),
            "driver": self.ask("nvmlSystemGetDriverVersion"),
            "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        }


@lru_cache(maxsize=1)
def open_gpu() -> Gpu:
    """Load NVML, once; UsageError where there is none or no device is visible."""
    import pynvml  # noqa: PLC0415 - loads the driver's library

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as err:
        raise UsageError(
            f"the host's params say compute: cuda, but NVML says: {err}",
            remedy="nvidia-smi must find it: install its driver, run on the GPU host, or name a host with compute: cpu",
        ) from err
    gpu = Gpu(pynvml)
    if not gpu.devices:
        raise UsageError("no GPU is visible", remedy="correct CUDA_VISIBLE_DEVICES")
    return gpu


def gpu_facts() -> dict[str, str | int | None]:
    """Return the GPU fields of the host facts of this machine."""
    return open_gpu().facts()


@dataclass(slots=True)
class VramMeter:
    """Peak GPU memory of a process tree, by the best method the machine allows, named.

    ``nvml_process``: the sum over the tree's pids. ``nvml_device_delta``: the devices' use above what it was when
    this meter was made (before the engine's start); an idle GPU is checked elsewhere. ``unified_meminfo``: the fall
    of ``MemAvailable`` on unified memory where NVML tells neither; it contains the engine's host memory.
    """

    gpu: Gpu
    before_bytes: int | None = None
    available_before: int = 0
    _process: int | None = None
    _delta: int | None = None
    _fall: int = 0

    @classmethod
    def begin(cls, gpu: Gpu | None = None) -> VramMeter:
        """Return a meter whose baseline is now."""
        gpu = gpu or open_gpu()
        return cls(gpu, gpu.used_bytes(), available_bytes())

    def sample(self, members: Iterable[int]) -> None:
        """Read once for the tree *members*."""
        listed = self.gpu.processes() or {}
        told = [listed[pid] for pid in members if listed.get(pid) is not None]
        if told:
            self._process = max(self._process or 0, sum(filter(None, told)))
        used = self.gpu.used_bytes()
        if used is not None and self.before_bytes is not None:
            self._delta = max(self._delta or 0, used - self.before_bytes)
        if used is None:
            self._fall = max(self._fall, self.available_before - available_bytes())

    def held_bytes(self, members: Iterable[int]) -> int | None:
        """Return what the tree *members* holds now, by process or else by the devices' rise; None: not told."""
        listed = self.gpu.processes() or {}
        told = [listed[pid] for pid in members if listed.get(pid) is not None]
        if told:
            return sum(filter(None, told))
        used = self.gpu.used_bytes()
        return None if used is None or self.before_bytes is None else max(0, used - self.before_bytes)

    @property
    def method(self) -> VramMethod:
        """Return how :attr:`peak_bytes` was read."""
        if self._process is not None:
            return "nvml_process"
        return "unified_meminfo" if self._delta is None else "nvml_device_delta"

    @property
    def peak_bytes(self) -> int | None:
        """Return the peak so far, None where nothing was read."""
        if self._process is not None:
            return self._process
        return self._delta if self._delta is not None else (self._fall or None)

    @property
    def delta_bytes(self) -> int | None:
        """Return the devices' peak above the baseline, to be printed beside :attr:`peak_bytes`."""
        return self._delta

    def returned(self, slack_bytes: int = 64 * _MIB) -> bool:
        """Return whether the devices are back at the baseline; True where they do not say."""
        used = self.gpu.used_bytes()
        return used is None or self.before_bytes is None or used <= self.before_bytes + slack_bytes

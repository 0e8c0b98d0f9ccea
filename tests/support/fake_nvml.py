"""A library that speaks like ``pynvml``, for tests without a GPU."""
# ruff: noqa: N802 - the names are NVML's

from dataclasses import dataclass, field
from types import SimpleNamespace

from lqw.host.gpu import Gpu


class NVMLError(Exception):
    """What an unsupported reading raises."""


@dataclass
class FakeNvml:
    """Per device: bytes in use (None: not supported) and pid -> bytes (None: processes not supported)."""

    used: list = field(default_factory=lambda: [0])
    processes: list = field(default_factory=lambda: [{}])
    reasons: list = field(default_factory=lambda: [0])
    NVMLError: type = NVMLError

    def nvmlDeviceGetCount(self):
        return len(self.used)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, device):
        return f"GPU-{device}a"

    def nvmlDeviceGetName(self, device):
        return f"Fake {device}"

    def nvmlDeviceGetMemoryInfo(self, device):
        if self.used[device] is None:
            raise NVMLError("not supported")
        return SimpleNamespace(total=24 * 2**30, used=self.used[device])

    def nvmlDeviceGetComputeRunningProcesses(self, device):
        listed = self.processes[device]
        if listed is None:
            raise NVMLError("not supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in listed.items()]

    def nvmlDeviceGetEnforcedPowerLimit(self, device):
        return 450_000

    def nvmlSystemGetDriverVersion(self):
        return "570.10"

    def nvmlSystemGetCudaDriverVersion(self):
        return 12080

    def nvmlDeviceGetClockInfo(self, device, kind):
        return {1: 2_500, 2: 10_000}[kind]

    def nvmlDeviceGetTemperature(self, device, sensor):
        return 60

    def nvmlDeviceGetPowerUsage(self, device):
        return 300_000

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device):
        return self.reasons[device]


def gpu_of(nvml):
    return Gpu(nvml)

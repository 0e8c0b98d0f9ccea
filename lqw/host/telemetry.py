"""What the machine did beside a start: GPU clocks, temperature, power and throttling; CPU time that went elsewhere."""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from lqw.host.gpu import Gpu

__all__ = ["THROTTLES", "CpuTimes", "Telemetry"]

# Names and bits of NVML's clock event reasons; 0x1 idle, 0x2 application clocks and 0x100 display are no throttling.
THROTTLES = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
}
_VOIDS = ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_slowdown", "hw_power_brake")
_CLOCK_SM, _CLOCK_MEM, _TEMPERATURE_GPU = 1, 2, 0


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Jiffies of the whole machine since boot, from ``/proc/stat``."""

    total: int
    idle: int
    steal: int

    @classmethod
    def now(cls) -> CpuTimes:
        """Read them."""
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return cls(sum(fields), fields[3] + fields[4], fields[7])

    def since(self, before: CpuTimes) -> dict[str, float]:
        """Return the shares of busy and of stolen time between two readings, rounded to 0.001."""
        total = max(1, self.total - before.total)
        return {
            "busy_share": round(1 - (self.idle - before.idle) / total, 3),
            "steal_share": round((self.steal - before.steal) / total, 3),
        }


class Telemetry:
    """Samples the GPU from a thread of its own until it is left; without a GPU it says so by name.

    Parameters
    ----------
    gpu : Gpu or None
        None on a CPU host.
    interval_s : float
        Time between samples.
    """

    def __init__(self, gpu: Gpu | None, interval_s: float = 0.2) -> None:
        self._gpu, self._interval_s = gpu, interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lqw-telemetry", daemon=True)
        self._series: dict[str, list[float]] = {}
        self._throttles: dict[str, int] = {}
        self._samples = 0
        self._cpu_before = self._cpu_after = CpuTimes.now()

    def __enter__(self) -> Self:
        """Start sampling."""
        self._cpu_before = CpuTimes.now()
        if self._gpu is not None:
            self._sample(self._gpu)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End sampling."""
        self._done.set()
        if self._gpu is not None:
            self._thread.join()
        self._cpu_after = CpuTimes.now()

    def summary(self) -> dict[str, Any]:
        """Return JSON for the start's record: least, median and largest of each reading, throttle bits by name."""
        cpu = self._cpu_after.since(self._cpu_before)
        if self._gpu is None:
            return {"cpu": cpu, "gpu": {"skipped": "host without a GPU"}}
        readings = {
            name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
            for name, values in sorted(self._series.items())
        }
        return {"cpu": cpu, "gpu": {"samples": self._samples, "throttled": dict(self._throttles), **readings}}

    def failure(self) -> Failure | None:
        """Return THROTTLED where power or heat slowed the clocks (MEASUREMENT, protocol 8), or None."""
        slowed = {name: count for name, count in self._throttles.items() if name in _VOIDS}
        if not slowed:
            return None
        said = ", ".join(f"{name} in {count} of {self._samples} samples" for name, count in sorted(slowed.items()))
        return Failure(reason=Reason.THROTTLED, detail=said)

    def _run(self) -> None:
        while not self._done.wait(self._interval_s):
            if self._gpu is not None:
                self._sample(self._gpu)

    def _sample(self, gpu: Gpu) -> None:
        self._samples += 1
        seen = set()
        for device in gpu.devices:
            self._note("sm_clock_mhz", gpu.ask("nvmlDeviceGetClockInfo", device, _CLOCK_SM))
            self._note("memory_clock_mhz", gpu.ask("nvmlDeviceGetClockInfo", device, _CLOCK_MEM))
            self._note("temperature_c", gpu.ask("nvmlDeviceGetTemperature", device, _TEMPERATURE_GPU))
            power = gpu.ask("nvmlDeviceGetPowerUsage", device)
            self._note("power_w", None if power is None else power / 1000)
            bits = gpu.ask("nvmlDeviceGetCurrentClocksEventReasons", device)
            if bits is None:  # drivers before 535 know the older name only
                bits = gpu.ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
            seen |= {name for name, bit in THROTTLES.items() if (bits or 0) & bit}
        for name in seen:
            self._throttles[name] = self._throttles.get(name, 0) + 1

    def _note(self, name: str, value: float | None) -> None:
        if value is not None:
            self._series.setdefault(name, []).append(float(value))

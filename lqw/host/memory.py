"""Memory peaks of a process tree: RssAnon (what gates), RssFile, VmHWM, and GPU memory where there is a GPU."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from lqw.host.supervise import tree
from lqw.samples import MemoryPeaks

if TYPE_CHECKING:
    from lqw.host.gpu import VramMeter

__all__ = ["MemorySampler", "available_bytes", "read_status"]

Compute = Literal["cpu", "cuda"]
_KEYS = (b"VmHWM:", b"RssAnon:", b"RssFile:")
_REFRESH_TICKS = 25  # the tree is listed anew every 25 samples: listing costs more than reading


def read_status(pid: int) -> tuple[int, int, int] | None:
    """Return (VmHWM, RssAnon, RssFile) of a process in bytes; None when it is gone or a zombie."""
    try:
        data = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return None
    out = []
    for key in _KEYS:
        at = data.find(key)
        if at < 0:
            return None
        out.append(int(data[at + len(key) : data.index(b"kB", at)]) * 1024)
    return out[0], out[1], out[2]


def available_bytes() -> int:
    """Return the kernel's ``MemAvailable``; 0 where it does not say."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class MemorySampler:
    """Samples a process tree from a thread of its own until it is left.

    The value of an instant is the sum over the tree; the peak is the largest instant. ``VmHWM`` is the kernel's own
    high-water mark, summed over the processes: it misses nothing between samples, but counts mapped file pages too.

    Parameters
    ----------
    pid : int
        Root of the tree (leader of its session); 0 where the server runs elsewhere and nothing can be read.
    compute : {"cpu", "cuda"}
        With ``cuda``, GPU memory is sampled too.
    vram : VramMeter, optional
        A meter whose baseline was taken before the engine started (:meth:`RunningEngine.memory` passes it); without
        one, the baseline is now.
    interval_s : float
        Time between samples.
    """

    def __init__(
        self, pid: int, *, compute: Compute = "cpu", vram: VramMeter | None = None, interval_s: float = 0.02
    ) -> None:
        self._pid = pid
        self._interval_s = interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lqw-memory", daemon=True)
        self._members: list[int] = [pid] if pid else []
        self._anon = self._file = self._samples = 0
        self._hwm: dict[int, int] = {}
        self._vram = vram
        if compute == "cuda" and vram is None:
            from lqw.host.gpu import VramMeter  # noqa: PLC0415 - NVML is loaded only where a GPU is used

            self._vram = VramMeter.begin()

    def __enter__(self) -> Self:
        """Take the first sample and start the thread."""
        self._sample(0)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the last sample and end the thread."""
        self._done.set()
        self._thread.join()
        self._sample(0)

    def peaks(self) -> MemoryPeaks:
        """Return the peaks so far; a field is None where nothing could be read."""
        seen = bool(self._samples)
        return MemoryPeaks(
            rss_anon_bytes=self._anon if seen else None,
            rss_file_bytes=self._file if seen else None,
            vm_hwm_bytes=sum(self._hwm.values()) if seen else None,
            vram_bytes=self._vram.peak_bytes if self._vram and seen else None,
            vram_method=self._vram.method if self._vram and seen else None,
            samples=self._samples,
        )

    def _run(self) -> None:
        tick = 0
        while not self._done.wait(self._interval_s):
            tick += 1
            self._sample(tick)

    def _sample(self, tick: int) -> None:
        if self._pid and tick % _REFRESH_TICKS == 0:
            self._members = tree(self._pid)
        anon = file = 0
        found = False
        for pid in self._members:
            status = read_status(pid)
            if status is None:
                continue
            found = True
            hwm, one_anon, one_file = status
            self._hwm[pid] = max(hwm, self._hwm.get(pid, 0))
            anon += one_anon
            file += one_file
        if self._vram is not None:
            self._vram.sample(self._members)
        if found:
            self._samples += 1
            self._anon, self._file = max(self._anon, anon), max(self._file, file)

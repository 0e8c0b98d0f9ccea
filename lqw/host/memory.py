"""Peak host memory of a server's process tree, sampled while it serves.

RssAnon is what gates: an mmapped GGUF is RssFile, shared with the page cache and not the engine's own.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from lqw.samples import MemoryPeaks

__all__ = ["MemorySampler"]

PERIOD_S = 0.02
FAMILY_PERIOD_S = 0.5
_FIELDS = {b"RssAnon:": 0, b"RssFile:": 1, b"VmHWM:": 2}


def _status(pid: int) -> tuple[int, int, int]:
    found = [0, 0, 0]
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/status").open("rb") as lines:
        for line in lines:
            index = _FIELDS.get(line.split(b"\t", 1)[0])
            if index is not None:
                found[index] = int(line.split()[1]) * 1024
    return found[0], found[1], found[2]


class MemorySampler:
    """Context manager; ``peaks()`` after it gives the maxima over the tree.

    Parameters
    ----------
    pid : int
        Root of the tree; descendants are looked up every half second.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._peaks = [0, 0, 0]
        self._samples = 0
        self._thread = threading.Thread(target=self._run, name="lqw-memory", daemon=True)

    def __enter__(self) -> Self:
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def _family(self) -> list[int]:
        try:
            root = psutil.Process(self._pid)
            return [self._pid, *(child.pid for child in root.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def _run(self) -> None:
        family, renewed = self._family(), time.monotonic()
        while not self._stop.is_set():
            if time.monotonic() - renewed > FAMILY_PERIOD_S:
                family, renewed = self._family(), time.monotonic()
            totals = [sum(column) for column in zip(*(_status(pid) for pid in family), strict=True)] or [0, 0, 0]
            self._peaks = [max(old, new) for old, new in zip(self._peaks, totals, strict=True)]
            self._samples += 1
            self._stop.wait(PERIOD_S)

    def peaks(self) -> MemoryPeaks:
        """Return the maxima seen, bytes; None where nothing was read."""
        anon, file, hwm = (value or None for value in self._peaks)
        return MemoryPeaks(rss_anon_bytes=anon, rss_file_bytes=file, vm_hwm_bytes=hwm, samples=self._samples)

"""Is the GPU ours alone? Checked before the run, then watched to its end: a daemon that ignores the lock may wake."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lqw.errors import HostBusy
from lqw.host.supervise import note
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lqw.host.gpu import Gpu

__all__ = ["IdleWatch", "require_idle", "strangers"]


def strangers(gpu: Gpu, own: Collection[int]) -> list[str]:
    """Return the processes that compute on the GPU and are not *own*, described; empty where NVML lists none.

    Pids that ``/proc`` does not know come from an outer pid namespace (a container). They cannot be told from ours by
    number, so as many of them as we have processes are taken to be ours.
    """
    listed = set(gpu.processes() or ())
    foreign = listed - set(own)
    unseen = {pid for pid in foreign if not Path(f"/proc/{pid}").exists()}
    found = [str(note(pid)) for pid in sorted(foreign - unseen)]
    if len(unseen) > len(set(own) - listed):
        found.append(f"{len(unseen)} processes outside this pid namespace, {len(own)} expected")
    return found


def require_idle(gpu: Gpu) -> None:
    """Raise HostBusy where anybody computes on the GPU before a run has started anything."""
    found = strangers(gpu, ())
    if found:
        raise HostBusy(f"the GPU is used by {', '.join(found)}", remedy="end it, then run again; nothing was started")


class IdleWatch:
    """Watches for foreign compute processes from a thread of its own, ten times a second and more.

    Parameters
    ----------
    gpu : Gpu
        Where to look.
    own : callable
        Returns the pids that may compute now (the engine's tree); called at every look.
    """

    def __init__(self, gpu: Gpu, own: Callable[[], Collection[int]], interval_s: float = 0.08) -> None:
        self._gpu, self._own, self._interval_s = gpu, own, interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lqw-idle", daemon=True)
        self._found: list[str] = []
        self.looks = 0

    def __enter__(self) -> Self:
        """Look once and start the thread."""
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look a last time and end the thread."""
        self._done.set()
        self._thread.join()
        self._look()

    def failure(self) -> Failure | None:
        """Return CONTENDED with who was seen, or None."""
        if not self._found:
            return None
        return Failure(reason=Reason.CONTENDED, detail=f"the GPU was used by {', '.join(self._found)}"[:4000])

    def _run(self) -> None:
        while not self._done.wait(self._interval_s):
            self._look()

    def _look(self) -> None:
        self.looks += 1
        self._found += [each for each in strangers(self._gpu, self._own()) if each not in self._found]

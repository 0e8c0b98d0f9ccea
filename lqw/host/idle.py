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


def strangers(listed: Collection[int], own: Collection[int], former: Collection[int] = ()) -> dict[int, str]:
    """Return, by pid and described, the processes NVML has *listed* that are not ours.

    Parameters
    ----------
    listed : collection of int
        The pids that compute on the GPU (:meth:`lqw.host.gpu.Gpu.processes`).
    own : collection of int
        Our living processes, looked up *after* the listing.
    former : collection of int
        Our earlier ones: a killed engine is listed for some 0.2 s more, while the driver takes its memory back.

    Notes
    -----
    Pids that ``/proc`` does not know come from an outer pid namespace (a container). They cannot be told from ours by
    number, so as many of them as we have living processes are taken to be ours; more are one entry under pid 0.
    """
    foreign = set(listed) - set(own) - set(former)
    unseen = {pid for pid in foreign if not Path(f"/proc/{pid}").exists()}
    found = {pid: str(note(pid)) for pid in sorted(foreign - unseen)}
    if len(unseen) > len(set(own) - set(listed)):
        found[0] = f"{len(unseen)} processes outside this pid namespace, {len(own)} expected"
    return found


def require_idle(gpu: Gpu) -> None:
    """Raise HostBusy where anybody computes on the GPU before a run has started anything."""
    found = strangers(gpu.processes() or (), ())
    if found:
        raise HostBusy(
            f"the GPU is used by {', '.join(found.values())}", remedy="end it, then run again; nothing was started"
        )


class IdleWatch:
    """Watches for foreign compute processes from a thread of its own, ten times a second and more.

    Parameters
    ----------
    gpu : Gpu
        Where to look.
    own : callable
        Returns the pids that may compute now (the engine's tree); called at every look. Who was ours stays ours.
    """

    def __init__(self, gpu: Gpu, own: Callable[[], Collection[int]], interval_s: float = 0.08) -> None:
        self._gpu, self._own, self._interval_s = gpu, own, interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lqw-idle", daemon=True)
        self._found: dict[int, str] = {}
        self._ours: set[int] = set()
        self._known: frozenset[int] = frozenset()
        self._blind_looks = 0
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
        return Failure(reason=Reason.CONTENDED, detail=f"the GPU was used by {', '.join(self._found.values())}"[:4000])

    def summary(self) -> dict[str, int]:
        """Return how often it looked, and how often the driver would not say who computes."""
        return {"looks": self.looks, "blind_looks": self._blind_looks}

    def _run(self) -> None:
        while not self._done.wait(self._interval_s):
            self._look()

    def _look(self) -> None:
        self.looks += 1
        told = self._gpu.processes()
        self._blind_looks += told is None
        listed = frozenset(told or ())
        if listed == self._known:  # nobody came: whose they are was asked, and asking walks all of /proc
            return
        self._known = listed
        own = self._own()
        self._ours |= set(own)
        for pid, description in strangers(listed, own, self._ours).items():
            self._found.setdefault(pid, description)

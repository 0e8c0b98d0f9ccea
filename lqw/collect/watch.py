"""What is watched beside every start: the GPU's clocks and heat, and who else computes on it.

A host without a GPU skips both by name. A throttled start is a failed one (MEASUREMENT, protocol 8); a stranger on
the GPU ends the run, because nothing measured beside him is a verdict (protocol 2).
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from lqw.errors import HostBusy
from lqw.host.gpu import open_gpu
from lqw.host.idle import IdleWatch, require_idle
from lqw.host.supervise import tree
from lqw.host.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lqw.host.gpu import Gpu
    from lqw.params import HostSpec
    from lqw.samples import Failure

__all__ = ["StartWatch", "watched_gpu"]


def watched_gpu(host: HostSpec) -> Gpu | None:
    """Return the host's GPU, proven idle, or None on a CPU host.

    Raises
    ------
    UsageError
        The host says ``compute: cuda`` and has no GPU.
    HostBusy
        Somebody computes on it; nothing was started.
    """
    if host.compute != "cuda":
        return None
    gpu = open_gpu()
    require_idle(gpu)
    return gpu


def _our_processes() -> list[int]:
    return tree(os.getpid())


class StartWatch:
    """Context manager around one engine start.

    Parameters
    ----------
    gpu : Gpu or None
        None on a CPU host: processor time is noted, the rest is skipped by name.
    own : callable
        Returns the pids that may compute on the GPU; by default this process and all it has started.
    """

    def __init__(self, gpu: Gpu | None, own: Callable[[], Collection[int]] = _our_processes) -> None:
        self._telemetry = Telemetry(gpu)
        self._idle = None if gpu is None else IdleWatch(gpu, own)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._stack.enter_context(self._telemetry)
        if self._idle is not None:
            self._stack.enter_context(self._idle)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._stack.close()

    @property
    def failure(self) -> Failure | None:
        """Return THROTTLED with the reasons counted, or None; after the watch has ended."""
        return self._telemetry.failure()

    def summary(self) -> dict[str, Any]:
        """Return what the start's record carries, and whether strangers could be seen at all."""
        said = self._telemetry.summary()
        if self._idle is not None:
            said["idle_watch"] = self._idle.summary()
        return said

    @property
    def contended(self) -> Failure | None:
        """Return CONTENDED with who else computed on the GPU, or None; after the watch has ended."""
        return None if self._idle is None else self._idle.failure()

    def require_alone(self) -> None:
        """Raise HostBusy where a stranger was seen: the start does not count, and a resumed run measures it again."""
        found = self.contended
        if found is not None:
            raise HostBusy(
                f"{found.reason}: {found.detail}",
                remedy="end it, then go on with lqw gate --resume RUN; what was measured before is kept",
            )

"""A stage's kernel, started before papermill is loaded: the one takes as long to come up as the other to import.

Own kernel specification, IPC transport, scrubbed environment. IPC, because two of 36 concurrent kernels failed over TCP
and none over IPC. Started in the main thread: the kernel's order to die with its parent follows the thread that started
it.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync

from lqw.host.supervise import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["KERNEL", "SCRUBBED", "kernel_environment", "started_kernel"]

KERNEL = "lqw"

SCRUBBED = (
    "PYTHONOPTIMIZE",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONBREAKPOINT",
    "MPLBACKEND",
    "PYDEVD_DISABLE_FILE_VALIDATION",
)
"""Variables of the caller that must not reach a kernel: they strip asserts, run code or drop plots."""

_SOCKET_PATH_LIMIT = 90  # sun_path holds 107 bytes; jupyter appends "-ipc-N"


def kernel_environment(marker: str, home: Path) -> dict[str, str]:
    """Return the environment of a kernel: the caller's, scrubbed, marked, and with an empty IPython profile.

    Parameters
    ----------
    marker : str
        Names the run on every process below the kernel (:data:`lqw.host.supervise.RUN_ID`).
    home : Path
        Scratch folder; start-up files of the user's IPython profile would run inside a gating notebook.
    """
    env = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    env |= {RUN_ID: marker, "IPYTHONDIR": str(home / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    return env


class _OnlySpec(KernelSpecManager):
    """Knows one kernel: this very Python, whatever kernelspecs the machine has."""

    modules: tuple[str, ...] = ()

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the chain's specification for any name."""
        return KernelSpec(
            argv=[sys.executable, "-m", "lqw.pipeline.kernel", *self.modules, "-f", "{connection_file}"],
            display_name=f"lqw ({kernel_name})",
            language="python",
        )


class _Client(AsyncKernelClient):
    """Ready when the kernel has answered; jupyter's own goes on to listen for 0.2 s that nothing more comes.

    What comes late is told apart by the request it belongs to.
    """

    async def wait_for_ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - jupyter's signature
        """Return when requests are answered and what a kernel publishes arrives.

        Raises
        ------
        RuntimeError
            The kernel died, or did not answer within *timeout* seconds.
        """
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        while True:
            self.kernel_info()
            with contextlib.suppress(queue.Empty):
                reply = await self.shell_channel.get_msg(timeout=1)
                await self.iopub_channel.get_msg(timeout=0.2)
                self._handle_kernel_info_reply(reply)
                return
            if not await self.is_alive():
                raise RuntimeError("Kernel died before replying to kernel_info")
            if time.monotonic() > end:
                raise RuntimeError(f"Kernel didn't respond in {timeout:g} seconds")


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="lqw-", dir=base if len(base) < _SOCKET_PATH_LIMIT - 20 else "/tmp"))  # noqa: S108 - a socket's path is short, or it is none
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def started_kernel(marker: str, log_path: Path, modules: Sequence[str] = ()) -> Iterator[AsyncKernelManager]:
    """Start a kernel and yield its manager while it still comes up; it is gone afterwards.

    Parameters
    ----------
    marker : str
        Names the run on every process below the kernel.
    log_path : path
        What the kernel's process writes is added to it.
    modules : sequence of str
        What the notebook's cells will import: loaded while the kernel waits for its first request.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    spec = _OnlySpec()
    spec.modules = tuple(modules)
    with _scratch() as home:
        manager = AsyncKernelManager(
            kernel_name=KERNEL,
            kernel_spec_manager=spec,
            client_factory=_Client,
            transport="ipc",
            connection_file=str(home / "k.json"),
            shutdown_wait_time=4.0,
        )
        try:
            with log_path.open("ab") as log:
                run_sync(manager.start_kernel)(env=kernel_environment(marker, home), stdout=log, stderr=log)
            yield manager
        finally:
            if manager.has_kernel:  # who ran a notebook in it has ended it
                run_sync(manager.shutdown_kernel)(now=True)

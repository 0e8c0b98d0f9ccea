"""Runs one notebook with papermill: own kernel specification, IPC transport, scrubbed environment.

papermill's Python API is used in the main thread (the kernel's order to die with its parent follows the thread that
started it). IPC, because two of 36 concurrent kernels failed over TCP and none over IPC.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lqw.report.nb  # noqa: F401 - before papermill loads nbformat the slow way

# isort: split
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import execute_notebook

from lqw.host.supervise import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ENGINE", "KERNEL", "SCRUBBED", "PapermillExecutionError", "kernel_environment", "run_notebook"]

ENGINE = "lqw"
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

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the chain's specification for any name."""
        return KernelSpec(
            argv=[sys.executable, "-m", "lqw.pipeline.kernel", "-f", "{connection_file}"],
            display_name=f"lqw ({kernel_name})",
            language="python",
        )


class _Engine(NBClientEngine):  # type: ignore[misc]
    """papermill engine that hands nbclient a kernel manager of our own."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        start_timeout: int,
        lqw_home: Path,
        lqw_marker: str,
        lqw_log: Path,
        **_: Any,
    ) -> None:
        manager = AsyncKernelManager(
            kernel_name=kernel_name,
            kernel_spec_manager=_OnlySpec(),
            transport="ipc",
            connection_file=str(lqw_home / "k.json"),
            shutdown_wait_time=4.0,
        )
        client = PapermillNotebookClient(
            nb_man, km=manager, startup_timeout=start_timeout, timeout=None, log=logging.getLogger("papermill")
        )
        with lqw_log.open("ab") as log:
            client.execute(cleanup_kc=True, env=kernel_environment(lqw_marker, lqw_home), stdout=log, stderr=log)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        """Return the chain's kernel, whatever the notebook's metadata say."""
        return KERNEL


papermill_engines.register(ENGINE, _Engine)


@contextmanager
def _scratch() -> Iterator[Path]:
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="lqw-", dir=base if len(base) < _SOCKET_PATH_LIMIT - 20 else "/tmp"))  # noqa: S108 - a socket's path is short, or it is none
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _quiet_log(path: Path) -> Iterator[None]:
    logger = logging.getLogger("papermill")
    handler = logging.FileHandler(path)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        handler.close()


def run_notebook(
    source: Path,
    executed: Path,
    parameters: Mapping[str, str | None],
    *,
    marker: str,
    log: Path,
    start_timeout_s: int = 60,
) -> None:
    """Execute *source* into *executed*.

    Raises
    ------
    papermill.exceptions.PapermillExecutionError
        A cell raised; ``ename`` and ``evalue`` say what.
    nbclient.exceptions.DeadKernelError, RuntimeError
        The kernel died or did not start.
    """
    executed.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with _scratch() as home, _quiet_log(log):
        execute_notebook(
            # papermill formats braces in paths: doubled, they stay themselves
            _unformatted(source),
            _unformatted(executed),
            parameters={name: value for name, value in parameters.items() if value is not None},
            engine_name=ENGINE,
            kernel_name=KERNEL,
            language="python",
            progress_bar=False,
            start_timeout=start_timeout_s,
            autosave_cell_every=0,
            lqw_home=home,
            lqw_marker=marker,
            lqw_log=log,
        )


def _unformatted(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")

"""Runs one notebook with papermill's Python API, in a kernel that was started before (:mod:`lqw.pipeline.kernels`)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lqw.report.nb  # noqa: F401 - before papermill loads nbformat the slow way

# isort: split
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import execute_notebook

from lqw.pipeline.kernels import KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jupyter_client.manager import AsyncKernelManager

__all__ = ["ENGINE", "PapermillExecutionError", "run_notebook"]

ENGINE = "lqw"


class _Engine(NBClientEngine):  # type: ignore[misc]
    """papermill engine that hands nbclient a kernel manager of our own."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        start_timeout: int,
        lqw_kernel: AsyncKernelManager,
        **_: Any,
    ) -> None:
        del kernel_name  # the one that was started, whatever the notebook's metadata say
        client = PapermillNotebookClient(
            nb_man, km=lqw_kernel, startup_timeout=start_timeout, timeout=None, log=logging.getLogger("papermill")
        )
        client.execute(cleanup_kc=True)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        """Return the chain's kernel, whatever the notebook's metadata say."""
        return KERNEL


papermill_engines.register(ENGINE, _Engine)


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
    kernel: AsyncKernelManager,
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
    with _quiet_log(log):
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
            lqw_kernel=kernel,
        )


def _unformatted(path: Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")

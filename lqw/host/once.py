"""Run a program to its end: it dies with whoever asked, and its two outputs are kept apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from lqw.host import _exec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Done", "run_once"]


class Done(NamedTuple):
    """How a program ended; ``status`` is None where it was stopped at its time limit."""

    status: int | None
    out: str
    err: str


def run_once(command: Sequence[str], *, env: Mapping[str, str], timeout_s: float) -> Done:
    """Run *command*; its whole session is killed at the limit, and when the calling thread dies.

    A program that cannot be started ends with status 126 and says why in ``err``.
    """
    launcher = [sys.executable, "-I", "-S", _exec.__file__, str(os.getpid()), *command]
    with subprocess.Popen(
        launcher,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
            status: int | None = process.returncode
        except BaseException as stopped:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = None
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
    return Done(status, out.decode(errors="replace"), err.decode(errors="replace"))

"""Processes that never outlive their run.

An engine is started through a tiny guard that asks the kernel to kill it when its parent dies (PR_SET_PDEATHSIG),
checks that the parent is still there (closing the race between fork and prctl) and then becomes the engine. The signal
is tied to the *thread* that started the process, so engines are started from the main thread only; this is enforced.
A subreaper adopts what is orphaned all the same, so that it can be killed and named.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RUN_MARKER", "Leftover", "become_subreaper", "die_with_parent", "kill_leftovers", "kill_tree", "spawn"]

RUN_MARKER = "LQW_RUN_ID"
"""Environment variable every engine carries, so that a leftover can be told from a stranger."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_GUARD = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(125)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that should have been gone."""

    pid: int
    command: str


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def become_subreaper() -> None:
    """Adopt orphaned descendants instead of leaving them to init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(expected_parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; end at once if the parent is gone already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != expected_parent:
        os.kill(os.getpid(), signal.SIGKILL)


def spawn(command: Sequence[str], *, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start *command* in a session of its own, output into *log*, to die with this thread.

    Raises
    ------
    RuntimeError
        When called from another thread than the main one (see the module's text).
    OSError
        When the executable cannot be run.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("engines must be started from the main thread: PR_SET_PDEATHSIG follows the thread")
    if not os.access(command[0], os.X_OK) or Path(command[0]).is_dir():
        raise PermissionError(13, "not an executable file", command[0])
    guarded = [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), *command]
    with log.open("ab") as out:
        return subprocess.Popen(
            guarded,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )


def _family(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_tree(
    process: subprocess.Popen[bytes],
    *,
    first: signal.Signals = signal.SIGTERM,
    grace_s: float = 2.0,
    deadline_s: float = 10.0,
) -> bool:
    """Stop a process and all its descendants; return False if something outlived *deadline_s*.

    *first* goes to the process alone and is given *grace_s* seconds; then everything gets SIGKILL and is waited for.
    """
    end = time.monotonic() + deadline_s
    family = _family(process.pid)
    if process.poll() is None:
        process.send_signal(first)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(grace_s, deadline_s))
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            member.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, end - time.monotonic()))
    alive = psutil.wait_procs(family, timeout=max(0.0, end - time.monotonic()))[1]
    return not [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def _marked(run_id: str) -> list[psutil.Process]:
    marker = f"{RUN_MARKER}={run_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker in variables:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(entry.name)))
    return found


def kill_leftovers(run_id: str, *, deadline_s: float = 10.0) -> list[Leftover]:
    """Kill every process that carries this run's marker; return what was found, by name."""
    leftovers = []
    processes = _marked(run_id)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                leftovers.append(Leftover(process.pid, " ".join(process.cmdline())[:200] or process.name()))
                process.kill()
    psutil.wait_procs(processes, timeout=deadline_s)
    return leftovers

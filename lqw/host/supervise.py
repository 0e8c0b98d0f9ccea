"""Start processes so that none outlives its run: own session, killed with the parent, marked by the run's id.

Four nets, each for what the one before lets through:

1. ``PR_SET_PDEATHSIG``: the kernel kills a started program when the thread that started it dies (kill -9 included).
   That thread must be the main one; :func:`start` refuses others, whose end would take the engine with it.
2. A session of its own: :meth:`Child.stop` ends every process of the session and every descendant, and waits.
3. A guard (:mod:`lqw.host._guard`), which outlives this process and kills what the program itself had started.
4. ``LQW_RUN_ID`` in the environment: :func:`leftovers` finds whatever carries a run's mark, wherever it was reparented.
"""

from __future__ import annotations

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

from lqw.host import _exec, _guard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "RUN_ID",
    "Child",
    "ProcessNote",
    "ancestors",
    "become_subreaper",
    "die_with_parent",
    "kill_leftovers",
    "leftovers",
    "log_tail",
    "note",
    "start",
    "tree",
]

RUN_ID = "LQW_RUN_ID"
START = "LQW_START"  # the mark of one start, in the environment of all that comes of it
PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class ProcessNote:
    """A process as a person would want it named."""

    pid: int
    name: str
    command: str

    def __str__(self) -> str:
        """Return ``pid 123 llama-server (llama-server -m …)``."""
        return f"pid {self.pid} {self.name} ({self.command})"


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    state: str
    ppid: int
    session: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold blanks and brackets
    return _Stat(pid, fields[0], int(fields[1]), int(fields[3]))


def _all_stats() -> list[_Stat]:
    pids = (int(entry) for entry in os.listdir(PROC) if entry.isdigit())  # noqa: PTH208 - half the cost of iterdir
    return [stat for stat in map(_stat, pids) if stat is not None]


def ancestors(pid: int) -> list[int]:
    """Return *pid* and the processes above it, nearest first."""
    line: list[int] = []
    while pid > 0 and pid not in line and (stat := _stat(pid)) is not None:
        line.append(pid)
        pid = stat.ppid
    return line


def tree(pid: int) -> list[int]:
    """Return the living processes of *pid*'s session and its descendants, *pid* first (zombies left out)."""
    stats = {stat.pid: stat for stat in _all_stats()}
    found = {pid} | {stat.pid for stat in stats.values() if stat.session == pid}
    while True:
        more = {stat.pid for stat in stats.values() if stat.ppid in found} - found
        if not more:
            break
        found |= more
    alive = [each for each in found if each in stats and stats[each].state not in "ZX"]
    return sorted(alive, key=lambda each: (each != pid, each))


def note(pid: int) -> ProcessNote:
    """Return name and command line of a process, as far as they can be read."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
        name = (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ProcessNote(pid, "(gone)", "")
    words = [Path(word).name if word.startswith("/") else word for word in raw.decode(errors="replace").split("\0")]
    return ProcessNote(pid, name, " ".join(words).strip()[:200])


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, so that they can be found, killed and waited for."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int) -> bool:
    """Have the kernel kill this process when *parent_pid* dies; return False when it already had.

    For a process that was not started by :func:`start` (a notebook kernel): call it first thing, with the pid the
    parent passed on. True only when the signal is armed and the parent was alive after arming.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent_pid


def log_tail(path: Path, lines: int = 20, width: int = 400) -> list[str]:
    """Return the last lines of a log, each cut to *width* characters; empty when there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 64 * 1024))
            text = handle.read().decode(errors="replace")
    except OSError:
        return []
    return [line[:width] for line in text.replace("\0", "").splitlines() if line.strip()][-lines:]


class Child:
    """A started process and the session it leads."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path, guard: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._guard = guard
        self.pid = process.pid
        self.log_path = log_path

    def returncode(self) -> int | None:
        """Return the exit status (negative: the signal), or None while it runs."""
        return self._process.poll()

    def describe_end(self) -> str:
        """Return how it ended, in words."""
        code = self.returncode()
        if code is None:
            return "still running"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with status {code}"

    def tree(self) -> list[int]:
        """Return the living processes of its session and descendants."""
        return tree(self.pid)

    def stop(
        self, deadline_s: float = 10.0, *, signals: Sequence[signal.Signals] = (signal.SIGTERM,)
    ) -> list[ProcessNote]:
        """End the whole tree and wait; return what would not die, named (empty: all gone).

        *signals* are tried in order on the leader, sharing the first two thirds of the deadline; then everything
        that is left gets SIGKILL.
        """
        end = time.monotonic() + deadline_s
        members = set(self.tree())
        for number, each in enumerate(signals):
            if self._process.poll() is not None:
                break
            self._send(each)
            self._wait_until(time.monotonic() + deadline_s * 2 / 3 / (len(signals) - number))
        members |= set(self.tree())
        # The leader must be reaped, not only look dead: a killed process stays a zombie leader until its last
        # thread has given back memory and sockets, and the next start must not overlap with that.
        while members or self._process.poll() is None:
            for pid in members:
                _kill(pid)
            if time.monotonic() >= end:
                break
            time.sleep(_POLL_S)
            members = set(_living(members)) | set(self.tree())
        self._guard.kill()
        self._guard.wait()
        left = members if self._process.poll() is not None else members | {self.pid}
        return [note(pid) for pid in sorted(left)]

    def _send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _wait_until(self, end: float) -> None:
        while self._process.poll() is None and time.monotonic() < end:
            time.sleep(_POLL_S)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _living(pids: Iterable[int]) -> list[int]:
    stats = (_stat(pid) for pid in pids)
    return [stat.pid for stat in stats if stat is not None and stat.state not in "ZX"]


def start(
    command: Sequence[str], *, env: Mapping[str, str], log_path: Path, run_id: str, cwd: Path | None = None
) -> Child:
    """Start *command* in a session of its own, output to *log_path*, to be killed when this process dies.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; no shell.
    env : mapping
        The whole environment of the program. ``LQW_RUN_ID`` and ``LQW_START`` are added.
    log_path : path
        Where standard output and error go (created, truncated).
    run_id : str
        The mark :func:`leftovers` looks for. A mark this process itself carries goes before it, so that whoever
        started the whole run finds everything below with one mark.

    Raises
    ------
    RuntimeError
        When called from another thread than the main one: the program would die with that thread.
    OSError
        When the launcher cannot be started. A *program* that cannot be started ends with status 126.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("start processes from the main thread: PR_SET_PDEATHSIG fires when the starting thread ends")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    python, mark = [sys.executable, "-I", "-S"], f"{os.getpid()}.{time.monotonic_ns()}"
    launcher = [*python, _exec.__file__, str(os.getpid()), *command]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            launcher,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**env, RUN_ID: os.environ.get(RUN_ID, run_id), START: mark},
            start_new_session=True,
            cwd=cwd,
        )
    quiet = subprocess.DEVNULL
    watch = [*python, _guard.__file__, str(os.getpid()), f"{START}={mark}"]
    guard = subprocess.Popen(watch, stdin=quiet, stdout=quiet, stderr=quiet, env={}, start_new_session=True, cwd="/")
    return Child(process, log_path, guard)


def leftovers(run_id: str) -> list[ProcessNote]:
    """Return every living process that carries the run's mark, this one and its ancestors left out."""
    mark = f"{RUN_ID}={run_id}".encode()
    stats = {stat.pid: stat for stat in _all_stats() if stat.state not in "ZX"}
    found = []
    for each in stats.keys() - set(ancestors(os.getpid())):
        try:
            environ = (PROC / str(each) / "environ").read_bytes()
        except OSError:
            continue
        if mark in environ.split(b"\0"):
            found.append(note(each))
    return sorted(found, key=lambda one: one.pid)


def kill_leftovers(run_id: str, deadline_s: float = 5.0) -> tuple[list[ProcessNote], list[ProcessNote]]:
    """Kill what carries the run's mark; return (all that was found, what is still there at the deadline)."""
    end = time.monotonic() + deadline_s
    found: dict[int, ProcessNote] = {}
    while True:
        left = leftovers(run_id)
        found |= {each.pid: each for each in left}
        if not left or time.monotonic() >= end:
            return list(found.values()), left
        for each in left:
            _kill(each.pid)
        time.sleep(_POLL_S)

"""Outlive whoever started a program, to end what that program has started: ``python -I -S _guard.py PARENT MARK``.

The kernel kills a program with its parent (:mod:`lqw.host._exec`), not what it started itself: ollama's runner and
vLLM's workers would live on after a ``kill -9``, memory, GPU and all. This waits, without waking, for its parent's end,
and then kills whatever carries ``MARK`` (``NAME=value``) in its environment, until nothing does.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
DEADLINE_S = 10.0
POLL_S = 0.02


def marked(mark: bytes) -> list[int]:
    """Return the processes that carry the mark; a dead one has no environment any more."""
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - no pathlib in a process that only waits
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as handle:  # noqa: PTH123
                    environ = handle.read()
            except OSError:
                continue
            if mark in environ.split(b"\0"):
                found.append(int(entry))
    return found


def main() -> int:
    """Wait for the parent's end, then kill until nothing is left; 1 where something stayed."""
    parent, mark = int(sys.argv[1]), sys.argv[2].encode()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0) != 0:
        return 1
    while os.getppid() == parent:
        signal.sigwait({signal.SIGUSR1})
    end = time.monotonic() + DEADLINE_S
    while (left := marked(mark)) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(POLL_S)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())

"""Become another program that dies with its parent: ``python -I -S _exec.py PARENT_PID PROGRAM ARGS…``.

``PR_SET_PDEATHSIG`` survives ``execve``, so the program needs no knowledge of it. It is set here, in the child and
before the program starts, because ``preexec_fn`` is unsafe in a parent with threads (a Jupyter kernel has several).
The parent may have died before the signal was armed; then ``getppid`` has changed and nothing is started.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_ORPHAN = 125
EXIT_NO_EXEC = 126


def main() -> int:
    """Arm the signal, check that the parent still is the parent, and become the program."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}\n")
        return EXIT_ORPHAN
    if os.getppid() != parent:
        return EXIT_ORPHAN
    # Python ignores SIGPIPE, and an ignored signal stays ignored across execve: give the program the usual world.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming another program is this script's purpose
    except OSError as err:
        sys.stderr.write(f"{command[0]}: {err.strerror}\n")
    return EXIT_NO_EXEC


if __name__ == "__main__":
    sys.exit(main())

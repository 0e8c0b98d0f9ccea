"""The command line as a process of its own, as a captain starts it."""

import os
import subprocess
import sys

LQW = (sys.executable, "-c", "from lqw.cli.app import main; main()")


def lqw(folder, *arguments, timeout_s=120, **environment):
    """Run ``lqw`` in *folder*; return its exit status and all it said."""
    done = subprocess.run(
        [*LQW, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr

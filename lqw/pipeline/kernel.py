"""The kernel process of a chain: an IPython kernel that dies with the gate.

``python -m lqw.pipeline.kernel -f CONNECTION_FILE`` is the command of the chain's own kernel specification, so a
kernelspec of the user's cannot put another Python in its place. The order to die with the parent is given before
anything heavy is imported: ``kill -9`` of the gate leaves nothing behind, not even during the start.
"""

from __future__ import annotations

import os

from lqw.host.supervise import die_with_parent

__all__ = ["main"]


def main() -> None:
    """Bind this process to its parent's life and become a kernel."""
    if not die_with_parent(int(os.environ["JPY_PARENT_PID"])):
        os._exit(125)
    from ipykernel import kernelapp  # noqa: PLC0415 - after the line above, see the module's text

    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()

"""The kernel process of a chain: an IPython kernel that dies with the gate.

``python -m lqw.pipeline.kernel [MODULE …] -f CONNECTION_FILE`` is the command of the chain's own kernel specification,
so a kernelspec of the user's cannot put another Python in its place. The order to die with the parent is given before
anything heavy is imported: ``kill -9`` of the gate leaves nothing behind, not even during the start. The modules are
those that the stage's cells will ask for: they are imported while the gate's process still loads papermill.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING

from lqw.host.supervise import die_with_parent
from lqw.imports import absent

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_CONNECTION = 2  # -f FILE: what is jupyter's


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        with contextlib.suppress(Exception):  # the cell that needs it says why, where a person sees it
            import_module(name)


def main() -> None:
    """Bind this process to its parent's life and become a kernel."""
    if not die_with_parent(int(os.environ["JPY_PARENT_PID"])):
        os._exit(125)
    with absent("debugpy"):  # a third of what a kernel takes to come up, and nobody steps through a gate
        from ipykernel import debugger, kernelapp  # noqa: F401, PLC0415 - after the line above, see the module's text

    modules, argv = sys.argv[1:-_CONNECTION], sys.argv[-_CONNECTION:]
    threading.Thread(target=_load, args=(modules,), daemon=True).start()
    kernelapp.launch_new_instance(argv=argv)


if __name__ == "__main__":
    main()

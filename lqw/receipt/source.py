"""Which lqw measured and judged: one hash over the package's own source."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import lqw
from lqw.canonical import sha256_bytes

__all__ = ["source_sha256"]


@lru_cache(maxsize=1)
def source_sha256() -> str:
    """Return the sha256 over name and bytes of every ``.py`` file of the installed package, in the order of names.

    A checkout and the wheel built from it give the same; an edited line gives another.
    """
    root = str(Path(lqw.__file__).parent)
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(".py"):
                path = f"{folder}/{name}"
                with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - some hundred files, each time lqw starts
                    found[path[len(root) + 1 :].replace(os.sep, "/")] = sha256_bytes(file.read())
    return sha256_bytes("".join(f"{name} {sha256}\n" for name, sha256 in sorted(found.items())).encode())

"""nbformat, loaded without the grammar it never uses.

jsonschema compiles a grammar of internationalised web addresses while it is imported: 1.2 s of CPU in every process
that reads a notebook, two thirds of papermill's whole import. No schema of a notebook holds such an address, and
jsonschema leaves that check out where the grammar's package is absent, so it is absent for this one import.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["nbformat"]


@contextmanager
def _absent(package: str) -> Iterator[None]:
    if package in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[package] = None  # what the import system reads as "not there"
    try:
        yield
    finally:
        del modules[package]


with _absent("rfc3987_syntax"):
    import nbformat

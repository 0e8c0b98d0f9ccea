"""nbformat, loaded without the grammar it never uses.

jsonschema compiles a grammar of internationalised web addresses while it is imported: 1.2 s of CPU in every process
that reads a notebook, two thirds of papermill's whole import. No schema of a notebook holds such an address, and
jsonschema leaves that check out where the grammar's package is absent, so it is absent for this one import.
"""

from __future__ import annotations

from lqw.imports import absent

__all__ = ["nbformat"]

with absent("rfc3987_syntax"):
    import nbformat

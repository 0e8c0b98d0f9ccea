"""What is imported when, and what not at all: a gate begins with imports, and a resumed run pays them again."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["absent", "exports"]


def exports(package: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the ``__getattr__`` (PEP 562) and the ``__all__`` of a package whose names are imported when asked for.

    Who needs a light module of the package does not wait for its heavy ones then.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    modules : mapping of str to tuple of str
        Module of the package to the names that come from it. No name may be a module's: once that module was imported
        the name would mean the module.
    """
    where = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(where[name]), name)

    return attribute, sorted(where)


@contextmanager
def absent(package: str) -> Iterator[None]:
    """Let *package* be as if it were not installed for what is imported meanwhile; nothing where it is loaded."""
    if package in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[package] = None  # what the import system reads as "not there"
    try:
        yield
    finally:
        del modules[package]

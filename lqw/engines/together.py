"""Requests that leave together: one thread each, released at one moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["together"]

_T = TypeVar("_T")


def together(asks: Sequence[Callable[[], _T]]) -> list[_T]:
    """Call all of *asks* at one moment and return what they gave, in order."""
    barrier = threading.Barrier(len(asks))

    def one(ask: Callable[[], _T]) -> _T:
        barrier.wait()
        return ask()

    with ThreadPoolExecutor(len(asks)) as pool:
        return list(pool.map(one, asks))

"""The shapes at which tokens are compared: those that the gate times, each with itself only (PITFALLS 50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CACHED", "SINGLE", "is_strict", "other_shapes", "shape_of", "streams_of"]

SINGLE = "single"
CACHED = "cached"
_PARALLEL = "agg@"


def shape_of(kind: str, streams: int) -> str:
    """Return the shape that a step is timed at."""
    return CACHED if kind == "cached" else SINGLE if streams == 1 else f"{_PARALLEL}{streams}"


def other_shapes(steps: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the shapes besides ``single`` of a protocol's steps, each given as (kind, streams)."""
    timed = {shape_of(kind, streams) for kind, streams in steps} - {SINGLE}
    return tuple(sorted(timed, key=lambda shape: (shape != CACHED, streams_of(shape))))


def streams_of(shape: str) -> int:
    """Return how many streams run together at *shape*."""
    return int(shape.removeprefix(_PARALLEL)) if shape.startswith(_PARALLEL) else 1


def is_strict(shape: str) -> bool:
    """Return whether any difference at this shape voids.

    Parallel streams meet in batches of another composition every time, which legitimately changes greedy output
    (14 to 15 of 16 answers equal to serial on llama.cpp): there answers that differ among themselves are a flag, and
    those that agree with each other are held to the reference like any. Garbage voids everywhere.
    """
    return not shape.startswith(_PARALLEL)

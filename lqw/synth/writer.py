"""Streams a synthetic model to disk: checked for room before, written under another name, renamed when whole."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lqw.errors import UsageError
from lqw.synth.gguf import ALIGNMENT, header
from lqw.synth.metadata import fields_of
from lqw.synth.mixes import tensor_bytes
from lqw.synth.tensors import Part, data_of, parts_of
from lqw.synth.words import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lqw.synth.recipe import Recipe

__all__ = ["Written", "planned_bytes", "synthesise"]

SPARE_BYTES = 64 * 1024 * 1024  # left free on the disk beside the file
THREADS = 4  # more do not help: hashing and writing are one stream
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file: where, how large, its sha256, how many tensors, how long it took."""

    path: Path
    size_bytes: int
    sha256: str
    tensors: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Layout:
    head: bytes
    parts: tuple[tuple[Part, ...], ...]
    padding: tuple[int, ...]  # zero bytes after each tensor
    size_bytes: int


def _layout(recipe: Recipe) -> _Layout:
    tensors, offset, described, padding = recipe.tensors(), 0, [], []
    for tensor, fmt in tensors:
        size = tensor_bytes(tensor, fmt)
        described.append((tensor, fmt, offset))
        padding.append(-size % ALIGNMENT)
        offset += size + padding[-1]
    head = header(fields_of(recipe), described)
    return _Layout(head, tuple(tuple(parts_of(*pair)) for pair in tensors), tuple(padding), len(head) + offset)


def planned_bytes(recipe: Recipe) -> int:
    """Return the exact size of the file of *recipe*, bytes, by arithmetic alone."""
    return _layout(recipe).size_bytes


def synthesise(
    recipe: Recipe, out: Path, *, replace: bool = False, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Written:
    """Write the model of *recipe* to *out*; memory stays bounded whatever its size.

    Parameters
    ----------
    recipe : Recipe
        What to make.
    out : Path
        The file. It appears whole or not at all; nothing is left behind on an error or an interrupt.
    replace : bool
        Whether an existing file may be replaced.
    progress : callable
        Called with bytes done and bytes in all.

    Raises
    ------
    UsageError
        *out* exists, cannot be written, or its disk has no room for the file.
    ParamsError
        The vocabulary has too few words.
    """
    start = time.perf_counter()
    _check_place(out, replace=replace)
    layout = _layout(recipe)
    _check_room(out, layout.size_bytes)
    words = words_of(recipe)
    digest = hashlib.sha256()
    try:
        with _appearing(out) as handle:
            done = 0
            for piece in chain([layout.head], _pieces(layout, lambda part: data_of(part, recipe, words))):
                handle.write(piece)
                digest.update(piece)
                done += len(piece)
                progress(done, layout.size_bytes)
    except OSError as err:
        raise _failed(out, err, layout.size_bytes) from err
    return Written(out, done, digest.hexdigest(), len(layout.parts), time.perf_counter() - start)


def _pieces(layout: _Layout, make: Callable[[Part], memoryview]) -> Iterator[memoryview | bytes]:
    """Yield the data section in order, made a few parts ahead by a few threads."""
    threads = min(THREADS, os.cpu_count() or 1)
    waiting: deque[Future[memoryview]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="synth") as pool:
        try:
            for parts, padding in zip(layout.parts, layout.padding, strict=True):
                for part in parts:
                    waiting.append(pool.submit(make, part))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                if padding:
                    yield from (waiting.popleft().result() for _ in range(len(waiting)))
                    yield bytes(padding)
            yield from (future.result() for future in waiting)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class _appearing:  # noqa: N801 - a context manager, read as a verb
    """Opens a temporary file beside *out*; renames it when the block ends well, removes it when it does not."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __enter__(self) -> BinaryIO:
        descriptor, name = tempfile.mkstemp(dir=self._out.parent, prefix=f".{self._out.name}.", suffix=".part")
        self._part = Path(name)
        self._handle: BinaryIO = os.fdopen(descriptor, "wb")  # buffered: a raw write may stop half-way
        return self._handle

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                os.fsync(self._handle.fileno())
                self._handle.close()
                self._part.chmod(0o644)
                self._part.replace(self._out)
        finally:
            self._handle.close()
            self._part.unlink(missing_ok=True)


def _check_place(out: Path, *, replace: bool) -> None:
    if out.is_dir():
        raise UsageError(f"{out} is a folder", remedy="name the file to write, e.g. model.gguf")
    if out.exists() and not (replace and out.is_file()):
        raise UsageError(f"{out} exists", remedy="choose another name, or pass --force to replace a file")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent} is no folder", remedy="make it first")


def _check_room(out: Path, size_bytes: int) -> None:
    free = shutil.disk_usage(out.parent).free
    if free < size_bytes + SPARE_BYTES:
        short = size_bytes + SPARE_BYTES - free
        raise UsageError(
            f"{out}: the file takes {size_bytes:,} bytes and {SPARE_BYTES:,} stay free, the disk has {free:,}",
            remedy=f"free {short:,} bytes, choose another disk, a smaller --shape or another --mix",
        )


def _failed(out: Path, err: OSError, size_bytes: int) -> UsageError:
    why = err.strerror or str(err)
    if err.errno in NO_ROOM:
        return UsageError(f"{out}: {why} while {size_bytes:,} bytes were written; nothing is left", remedy="make room")
    return UsageError(f"{out}: {why}", remedy="choose a place that can be written")

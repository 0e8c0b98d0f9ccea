r"""Standard output and standard error that neither lose a verdict nor hide that nobody could read it.

A reader that has gone (``lqw show … | head``) changes nothing: the command goes on in silence and ends in its own
status. A device that takes no more (``> /dev/full``) ends in 74, whatever the verdict was. Characters that the
terminal's encoding lacks are written as ``\u2026``.
"""

from __future__ import annotations

import io
import os
import sys

from lqw.errors import OutputError

__all__ = ["flush", "guard"]


class _Stream(io.FileIO):
    """A file descriptor that is thrown away, with what is still to come, once it cannot be written."""

    def write(self, data: object, /) -> int:
        """Write; OutputError where there is no room for it."""
        try:
            return super().write(data)  # type: ignore[arg-type] # whatever the buffer hands on
        except BrokenPipeError:
            self._drop()
        except OSError as err:
            self._drop()
            name = {1: "standard output", 2: "standard error"}.get(self.fileno(), "output")
            remedy = "give it room, or another place; what it would have said is lost"
            raise OutputError(f"{name}: {err.strerror or err}", remedy=remedy) from err
        return memoryview(data).nbytes  # type: ignore[arg-type]

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def guard() -> None:
    """Put such streams in the place of this process's own."""
    for name in ("stdout", "stderr"):
        own = getattr(sys, name)
        if own is None or not hasattr(own, "reconfigure"):
            continue  # closed at the start, or somebody else's already
        raw = _Stream(own.fileno(), "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedWriter(raw), own.encoding, "backslashreplace",
            line_buffering=own.line_buffering, write_through=own.write_through,
        )  # fmt: skip
        text.mode = "w"  # type: ignore[misc] # as the interpreter names its own
        setattr(sys, name, text)


def flush() -> None:
    """Write what waits; OutputError where there is no room for it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()

"""The generations of apr, by version: what each can give. A row that one cannot give fails by name, never by guess.

What is known was read in the source and seen on real binaries; the changes are those of Qwen3.5's routes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["GENERATIONS", "UNSEEN", "Generation", "generation_of"]


UNSEEN = "not seen: the engine's answers tell"


@dataclass(frozen=True, slots=True)
class Generation:
    """One line of the table.

    Attributes
    ----------
    first : tuple of int
        The first version of it.
    unsupported : str
        Why no row can be measured, or nothing.
    effective_config : bool
        Whether ``/v1/effective-config`` is there.
    stream, timings, stop, batches : str
        How ``/v1/completions`` streams, which answers carry ``timings``, which signal is its graceful stop, and what
        forms batches on a GPU: for people, in the receipt. What nobody has seen is :data:`UNSEEN`.
    """

    name: str
    first: tuple[int, int, int]
    unsupported: str = ""
    effective_config: bool = False
    stream: str = UNSEEN
    timings: str = UNSEEN
    stop: str = UNSEEN
    batches: str = UNSEEN

    def capabilities(self) -> dict[str, str]:
        """Return what it can, by name."""
        return {"stream": self.stream, "timings": self.timings, "stop": self.stop, "batches": self.batches}


GENERATIONS = (
    Generation("no completions", (0, 0, 0), unsupported="/v1/completions answers 503 for Qwen3.5", stream="none: 503"),
    # Between 0.69.2 and 0.72.2 the stream was buffered first and live later; which version changed it is not known,
    # so the stream itself tells: a buffered one fails NOT_STREAMED (lqw.collect.requests).
    Generation("completions", (0, 69, 2), stream="buffered, which fails NOT_STREAMED, or live"),
    Generation(
        "live completions",
        (0, 72, 3),
        effective_config=True,
        stream="live",
        timings="chat, unless it was in a batch",
        stop="SIGINT; SIGTERM kills",
        batches="chat, up to CUDA_MAX_BATCH (16); completions queue",
    ),
)
"""In rising order of their first version."""


def generation_of(version: str) -> Generation:
    """Return the generation of a version such as ``0.72.3``, ``0.72.3 (9c34b9a91)`` or ``0.70.0+no-git``.

    What is no version counts as the oldest: it cannot be measured, and its row says so.
    """
    found = re.match(r"\D*(\d+)\.(\d+)\.(\d+)", version)
    key = tuple(map(int, found.groups())) if found else (0, 0, 0)
    return [one for one in GENERATIONS if one.first <= key][-1]

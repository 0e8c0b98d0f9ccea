"""How fast a run goes and how much time it has: the estimate on the live display, and the total deadline."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["Pace"]

_LAST_STARTS = 6


class Pace:
    """The pace of the last few starts, and the deadline.

    Parameters
    ----------
    deadline_s : float
        From now on, the whole stage.
    """

    def __init__(self, deadline_s: float) -> None:
        self._end = time.monotonic() + deadline_s
        self._walls: deque[float] = deque(maxlen=_LAST_STARTS)

    def add(self, wall_s: float) -> None:
        """Note how long a start took."""
        self._walls.append(wall_s)

    def left_s(self, starts: int) -> float | None:
        """Return how long *starts* more starts will take, or None before the first."""
        return round(starts * sum(self._walls) / len(self._walls), 1) if self._walls else None

    @property
    def spare_s(self) -> float:
        """Return how long is left until the deadline, seconds; below zero after it."""
        return self._end - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Return whether the deadline does not bear another start as long as the longest of the last ones."""
        return time.monotonic() + max(self._walls, default=0.0) > self._end

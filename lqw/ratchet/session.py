"""The session term τ, estimated once a release has been measured often enough (STATISTICS §2)."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lqw.ratchet.baseline import Point

__all__ = ["LEAST_TAU", "MIN_SESSIONS", "session_sd"]

MIN_SESSIONS = 5
LEAST_TAU = 0.001  # sessions that agree better than this were lucky


def session_sd(rows: Iterable[Iterable[Point]]) -> float | None:
    """Return τ: what a session moves a ratio by, beyond the noise of its pairs.

    Where one release was measured in k ≥ 5 sessions, the variance of its k means exceeds the mean of ``s²/n`` by τ².
    The excess is averaged over rows with weights k − 1, and is at least 0.1 %. None where no release has five sessions:
    then the policy's 0.5 % stands.

    Parameters
    ----------
    rows : iterable of iterables of Point
        Every session of each row: floor batch and history; a receipt counts once.
    """
    total, weight = 0.0, 0
    for points in rows:
        releases: dict[str, dict[str, Point]] = defaultdict(dict)
        for point in points:
            releases[point.release][point.receipt_sha256] = point
        for sessions in releases.values():
            if len(sessions) >= MIN_SESSIONS:
                means = [point.value for point in sessions.values()]
                within = [point.ss / point.df / point.n for point in sessions.values() if point.df > 0]
                excess = float(np.var(means, ddof=1)) - (float(np.mean(within)) if within else 0.0)
                total, weight = total + (len(sessions) - 1) * excess, weight + len(sessions) - 1
    return max(math.sqrt(max(total / weight, 0.0)), LEAST_TAU) if weight else None

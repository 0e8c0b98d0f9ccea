"""Flags for a person: drift over the run, dispersion, two groups where there should be one. None changes a verdict."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.metrics.digits import percent
from lqw.noise.quantiles import norm_isf
from lqw.outcomes import Arm, Purpose
from lqw.verdict.results import GuardFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import RowId
    from lqw.noise.rows import RowData
    from lqw.plan import Policy
    from lqw.samples import StartRecord

__all__ = ["bimodality", "dispersion", "drift"]

Floats = NDArray[np.float64]

MIN_POINTS = 5
DRIFT_LEVEL = 0.01
GAP = 3.0  # the empty middle against the width of both groups together


def drift(data: Mapping[RowId, RowData], starts: Sequence[StartRecord], policy: Policy) -> list[GuardFinding]:
    """Flag rows whose ratio moved with time: Theil–Sen slope of d on start position, its 99 % interval without zero.

    Pairs run side by side, so drift of the machine cancels; what remains is an engine that warms up, fills up or
    throttles in its own way. Needs five pairs; fewer say nothing.
    """
    where: dict[tuple[str, int], list[int]] = defaultdict(list)
    for start in starts:
        where[start.model, start.pair].append(start.position)
    out, places = [], {}
    for row, pairs in data.items():
        if len(pairs.d) < MIN_POINTS:
            continue
        place = (row.model, pairs.pairs)
        if place not in places:
            mine = [where[row.model, pair] for pair in pairs.pairs]
            places[place] = np.array([sum(positions) / len(positions) for positions in mine])
        at = places[place]
        slope, low, high = theil_sen(at, np.array(pairs.d))
        total = float(slope * (at.max() - at.min()))
        if (low > 0 or high < 0) and abs(total) > policy.margin / 2:
            text = f"{row}: the ratio moved by {percent(math.expm1(total), signed=True)} over the run (Theil–Sen)"
            out.append(_flag("drift", row, text, {"total": total}))
    return out


def theil_sen(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Return the median of all pairwise slopes of *y* on *x* and its 99 % interval (Sen 1968)."""
    n = len(x)
    i, j = _each_pair(n)
    slopes = np.sort((y[j] - y[i]) / (x[j] - x[i]))
    width = float(norm_isf(DRIFT_LEVEL / 2)) * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(round((len(slopes) - width) / 2) - 1, 0)
    high = min(round((len(slopes) + width) / 2), len(slopes) - 1)
    half = len(slopes) // 2
    median = slopes[-1] if np.isnan(slopes[-1]) else (slopes[half] + slopes[-half - 1]) / 2  # what is none sorts last
    return float(median), float(slopes[low]), float(slopes[high])


@lru_cache(maxsize=16)
def _each_pair(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(n, k=1)


def dispersion(data: Mapping[RowId, RowData], policy: Policy, purpose: Purpose) -> list[GuardFinding]:
    """Flag rows whose pairs scatter more than the margin can bear: SD of d above the margin itself.

    A floor must not be measured so: a batch with 66 % spread once gave healthy runs −19…+35 %. When a floor is adopted
    the finding therefore blocks.
    """
    out = []
    for row, sd in _scatter(data).items():
        if sd > policy.margin:
            text = f"{row}: pairs scatter by {percent(sd)} (SD), more than the margin of {percent(policy.margin)}"
            finding = _flag("dispersion", row, text, {"sd": sd})
            out.append(finding.model_copy(update={"effect": "undecided"}) if purpose is Purpose.ADOPT else finding)
    return out


def _scatter(data: Mapping[RowId, RowData]) -> dict[RowId, float]:
    """Return the SD of each row's pairs; rows of as many pairs are one array."""
    alike: dict[int, list[RowId]] = defaultdict(list)
    for row, pairs in data.items():
        alike[len(pairs.d)].append(row)
    found = {
        row: sd
        for rows in alike.values()
        for row, sd in zip(rows, np.std([data[row].d for row in rows], axis=-1, ddof=1).tolist(), strict=True)
    }
    return {row: found[row] for row in data}


def bimodality(data: Mapping[RowId, RowData], policy: Policy) -> list[GuardFinding]:
    """Flag an arm whose starts fall into two groups: a mean of two modes describes neither.

    The widest gap between sorted values is three times the width of both groups together, and wider than the margin.
    """
    out = []
    for row, pairs in data.items():
        for arm, values in ((Arm.SUBJECT, pairs.subject), (Arm.COMPARATOR, pairs.comparator)):
            if len(values) < MIN_POINTS:
                continue
            logs = np.sort(np.log(values))
            gaps = np.diff(logs)
            at = int(np.argmax(gaps))
            rest = float(logs[-1] - logs[0] - gaps[at])
            if gaps[at] > GAP * rest and gaps[at] > policy.margin:
                low, high = math.exp(logs[: at + 1].mean()), math.exp(logs[at + 1 :].mean())
                text = (
                    f"{row}: {arm} has two groups: {at + 1} starts near {low:.4g}, "
                    f"{len(logs) - at - 1} near {high:.4g} {row.kind.unit}"
                )
                out.append(_flag("bimodality", row, text, {"low": low, "high": high}))
    return out


def _flag(guard: str, row: RowId, text: str, numbers: dict[str, float]) -> GuardFinding:
    return GuardFinding.model_validate(
        {"guard": guard, "effect": "flag", "subject": str(row), "text": text, "numbers": numbers}
    )

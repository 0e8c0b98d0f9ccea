"""Rows as arrays: what a method decides on, for one release (rows) or many simulated ones (…, rows)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.metrics import Family, RowId
from lqw.noise.rows import Reference, RowData, RowReferences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.plan import Policy

__all__ = ["MAX_DF", "Bands", "Batch", "batch_of", "effect_floor", "padded", "pooled_prior"]

Floats = NDArray[np.float64]

MAX_DF = 24
"""Most degrees of freedom a row's pooled variance may have: older noise must not outvote today's (STATISTICS §2)."""

FAMILIES = tuple(Family)


@dataclass(frozen=True, slots=True)
class Batch:
    """Arrays over rows. Leading axes, if any, are simulated releases; an array without them is the same for all.

    Attributes
    ----------
    d : float array, shape (..., rows, pairs)
        Oriented log ratios, NaN beyond a row's n.
    n : float array, shape (..., rows)
    family : int array, shape (rows,)
        Index into ``tuple(Family)``.
    floor, last : float arrays, shape (..., rows)
        F (after folding) and L; NaN where there is none.
    n_floor, n_last : float arrays, shape (..., rows)
        Pairs behind them; NaN where there is none.
    session_ss, session_df : float arrays, shape (..., rows, sessions)
        Within-session sums of squares of earlier sessions and their degrees of freedom, in the order in which they
        are pooled: the floor's batch, then the newest first. Zeros where a row has fewer.
    floor_d, last_d : float arrays, shape (..., rows, pairs of the reference)
        The references' own pairs, for methods that need them; NaN where there are fewer, or none.
    wanted : bool array, shape (..., rows), or None
        Rows whose answer will be used at this look; a slow method need not answer for others. None: all.
    """

    d: Floats
    n: Floats
    family: NDArray[np.int64]
    floor: Floats
    n_floor: Floats
    last: Floats
    n_last: Floats
    session_ss: Floats
    session_df: Floats
    floor_d: Floats
    last_d: Floats
    wanted: NDArray[np.bool_] | None = None

    @property
    def is_memory(self) -> NDArray[np.bool_]:
        """Return which rows are memory rows: they have their own noise floor and δ."""
        return np.asarray(self.family == FAMILIES.index(Family.MEMORY))

    def first(self, n: Floats) -> Batch:
        """Return the same rows with their first *n* pairs only, shape (..., rows): what an earlier look saw."""
        n = np.minimum(n, self.n)
        width = max(int(n.max(initial=0)), 1)
        d = self.d[..., :width]
        return replace(self, d=np.where(np.arange(width) < n[..., None], d, np.nan), n=n)

    def take(self, releases: NDArray[np.bool_]) -> Batch:
        """Return the simulated releases that *releases* marks; arrays they all share stay as they are."""
        own = {name: np.ndim(self.d) - (0 if name in _BY_PAIR else 1) for name in _ARRAYS}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return replace(self, **{name: x[releases] for name, x in arrays.items() if np.ndim(x) == own[name]})


_BY_PAIR = ("d", "session_ss", "session_df", "floor_d", "last_d")
_ARRAYS = (*_BY_PAIR, "n", "floor", "n_floor", "last", "n_last")


@dataclass(frozen=True, slots=True)
class Bands:
    """What a method says, arrays of shape (..., rows); NaN where a reference is absent. See :class:`RowBand`."""

    estimate: Floats
    s2: Floats
    v: Floats
    sd: Floats
    nu: Floats
    se_floor: Floats
    t_red: Floats
    u_pass: Floats
    threshold: Floats
    lower: Floats
    se_last: Floats
    t_last: Floats
    threshold_last: Floats
    red_floor: NDArray[np.bool_]
    red_last: NDArray[np.bool_]
    passed: NDArray[np.bool_]  # only where not red

    @property
    def red(self) -> NDArray[np.bool_]:
        """Return which rows are RED, by either reference."""
        return self.red_floor | self.red_last

    @property
    def open(self) -> NDArray[np.bool_]:
        """Return which rows are neither RED nor passed."""
        return ~self.red & ~self.passed


def pooled_prior(session_ss: Floats, session_df: Floats, own_df: Floats) -> tuple[Floats, Floats]:
    """Return (SS, df) of the earlier sessions that are pooled with this run's *own_df*, arrays (..., rows).

    Sessions count in their order; the one that would exceed :data:`MAX_DF` in total is taken in proportion.
    """
    room = np.maximum(MAX_DF - own_df, 0.0)[..., None]
    before = np.cumsum(session_df, axis=-1) - session_df
    df = np.clip(room - before, 0.0, session_df)
    share = df / np.maximum(session_df, 1.0)
    return np.asarray((share * session_ss).sum(axis=-1)), np.asarray(df.sum(axis=-1))


def batch_of(
    data: Sequence[RowData], references: Mapping[RowId, RowReferences], folded: Mapping[RowId, float]
) -> Batch:
    """Return the arrays of one release.

    *folded* gives ln T of rows whose target a released version met: their reference is ``max(F, ln T)``.
    """
    none = RowReferences()
    refs = [references.get(row.row, none) for row in data]
    floors = [
        max(ref.floor.value, folded.get(row.row, -np.inf)) if ref.floor else np.nan
        for row, ref in zip(data, refs, strict=True)
    ]
    lasts = [_distinct_last(ref) for ref in refs]
    sessions = [_sessions(ref) for ref in refs]
    return Batch(
        d=padded([row.d for row in data], np.nan),
        n=np.array([len(row.d) for row in data], dtype=float),
        family=np.array([FAMILIES.index(row.row.kind.family) for row in data], dtype=np.int64),
        floor=np.array(floors, dtype=float),
        n_floor=np.array([ref.floor.n if ref.floor else np.nan for ref in refs], dtype=float),
        last=np.array([last.value if last else np.nan for last in lasts], dtype=float),
        n_last=np.array([last.n if last else np.nan for last in lasts], dtype=float),
        session_ss=padded([[ss for ss, _ in row] for row in sessions], 0.0),
        session_df=padded([[df for _, df in row] for row in sessions], 0.0),
        floor_d=padded([ref.floor.d if ref.floor else () for ref in refs], np.nan),
        last_d=padded([last.d if last else () for last in lasts], np.nan),
    )


def _sessions(references: RowReferences) -> list[tuple[float, int]]:
    """Return (SS, df) of the floor's batch and the history, newest first."""
    floor = [] if references.floor is None else [(references.floor.ss, references.floor.df)]
    return [(ss, df) for ss, df in (*floor, *((s.ss, s.df) for s in reversed(references.history))) if df > 0]


def padded(rows: Sequence[Sequence[float]], fill: float) -> Floats:
    """Return rows of unequal length as one array, *fill* beyond each."""
    out = np.full((len(rows), max((len(row) for row in rows), default=0)), fill)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def _distinct_last(references: RowReferences) -> Reference | None:
    """Return the last release, unless it is the floor's own batch: that is one reference, not two."""
    last, floor = references.last, references.floor
    if last is None or (floor is not None and last.receipt_sha256 == floor.receipt_sha256):
        return None
    return last


def effect_floor(batch: Batch, policy: Policy) -> Floats:
    """Return ``ln(1/(1−δ))`` per row: smaller losses are never RED (δ = 1 %, memory 2 %)."""
    delta = np.where(batch.is_memory, policy.delta_memory, policy.delta)
    return np.asarray(-np.log1p(-delta), dtype=float)

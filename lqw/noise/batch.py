"""Rows as arrays: what a method decides on, for one release (rows) or many simulated ones (…, rows)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.metrics import Family, RowId
from lqw.noise.rows import RowData, RowReferences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.plan import Policy

__all__ = ["MAX_DF", "Bands", "Batch", "batch_of", "pooled_prior"]

Floats = NDArray[np.float64]

MAX_DF = 24
"""Most degrees of freedom a row's pooled variance may have: older noise must not outvote today's (STATISTICS §2)."""

FAMILIES = tuple(Family)


@dataclass(frozen=True, slots=True)
class Batch:
    """Arrays over rows at one look. Leading axes, if any, are simulated releases.

    Attributes
    ----------
    d : float array, shape (..., rows, pairs)
        Oriented log ratios, NaN beyond a row's n.
    n : float array, shape (rows,)
    family : int array, shape (rows,)
        Index into ``tuple(Family)``.
    floor, last : float arrays, shape (..., rows)
        F (after folding) and L; NaN where there is none.
    n_floor, n_last : float arrays, shape (rows,)
        Pairs behind them; NaN where there is none.
    prior_ss, prior_df : float arrays, shape (..., rows) and (rows,)
        Within-session sum of squares of floor batch and history, and its degrees of freedom, before the cap.
    floor_d : sequence of float arrays
        The floor's own pairs, per row, for methods that need them; may be empty.
    """

    d: Floats
    n: Floats
    family: NDArray[np.int64]
    floor: Floats
    n_floor: Floats
    last: Floats
    n_last: Floats
    prior_ss: Floats
    prior_df: Floats
    floor_d: Sequence[Floats] = ()

    @property
    def is_memory(self) -> NDArray[np.bool_]:
        """Return which rows are memory rows: they have their own noise floor and δ."""
        return np.asarray(self.family == FAMILIES.index(Family.MEMORY))


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


def pooled_prior(references: RowReferences, own_df: int) -> tuple[float, float]:
    """Return (SS, df) of the earlier sessions that are pooled with this run's *own_df*: floor, then newest first.

    The session that would exceed :data:`MAX_DF` in total is taken in proportion.
    """
    sessions = [(s.ss, s.df) for s in reversed(references.history)]
    if references.floor is not None:
        sessions.insert(0, (references.floor.ss, references.floor.df))
    ss, df, room = 0.0, 0.0, float(max(MAX_DF - own_df, 0))
    for session_ss, session_df in sessions:
        if session_df <= 0 or room <= 0:
            continue
        share = min(1.0, room / session_df)
        ss, df, room = ss + share * session_ss, df + share * session_df, room - share * session_df
    return ss, df


def batch_of(
    data: Sequence[RowData], references: Mapping[RowId, RowReferences], folded: Mapping[RowId, float]
) -> Batch:
    """Return the arrays of one release.

    *folded* gives ln T of rows whose target a released version met: their reference is ``max(F, ln T)``.
    """
    none = RowReferences()
    refs = [references.get(row.row, none) for row in data]
    priors = [pooled_prior(ref, len(row.d) - 1) for row, ref in zip(data, refs, strict=True)]
    width = max((len(row.d) for row in data), default=0)
    d = np.full((len(data), width), np.nan)
    for i, row in enumerate(data):
        d[i, : len(row.d)] = row.d
    floors = [
        max(ref.floor.value, folded.get(row.row, -np.inf)) if ref.floor else np.nan
        for row, ref in zip(data, refs, strict=True)
    ]
    lasts = [_distinct_last(ref) for ref in refs]
    return Batch(
        d=d,
        n=np.array([len(row.d) for row in data], dtype=float),
        family=np.array([FAMILIES.index(row.row.kind.family) for row in data], dtype=np.int64),
        floor=np.array(floors, dtype=float),
        n_floor=np.array([ref.floor.n if ref.floor else np.nan for ref in refs], dtype=float),
        last=np.array([value for value, _ in lasts], dtype=float),
        n_last=np.array([n for _, n in lasts], dtype=float),
        prior_ss=np.array([ss for ss, _ in priors], dtype=float),
        prior_df=np.array([df for _, df in priors], dtype=float),
        floor_d=[np.array(ref.floor.d if ref.floor else ()) for ref in refs],
    )


def _distinct_last(references: RowReferences) -> tuple[float, float]:
    """Return the last release, unless it is the floor's own batch: that is one reference, not two."""
    last, floor = references.last, references.floor
    if last is None or (floor is not None and last.receipt_sha256 == floor.receipt_sha256):
        return np.nan, np.nan
    return last.value, float(last.n)


def effect_floor(batch: Batch, policy: Policy) -> Floats:
    """Return ``ln(1/(1−δ))`` per row: smaller losses are never RED (δ = 1 %, memory 2 %)."""
    delta = np.where(batch.is_memory, policy.delta_memory, policy.delta)
    return np.asarray(-np.log1p(-delta), dtype=float)

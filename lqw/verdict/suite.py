"""The suite test: a family's mean change, for the broad small loss that no row shows alone (STATISTICS §3)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import padded
from lqw.noise.quantiles import t_isf
from lqw.verdict.results import SuiteResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.metrics import Family, RowId
    from lqw.noise.rows import RowBand, RowData, RowReferences

__all__ = ["MIN_ROWS", "Members", "SuiteCalls", "suite_calls", "suite_tests"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Z = 2.576
"""One-sided 0.5 % per family."""
LEVEL = 0.005
TAU_COMMON = 0.005  # τ_c: what a session may move a whole family by
MIN_ROWS = 3  # below this the row tests are the suite


@dataclass(frozen=True, slots=True)
class Members:
    """The rows of one family; leading axes are simulated releases.

    Attributes
    ----------
    gating : bool array, shape (..., rows)
        Which rows count; the numbers of others are ignored.
    delta, se : float arrays, shape (..., rows)
        D − F and its standard error, of the look that decided the row.
    d : float array, shape (..., rows, pairs)
        Log ratios, of which the first *n*, shape (..., rows), decided.
    n : float array, shape (..., rows)
    floor_d : float array, shape (..., rows, pairs of the floor)
        NaN beyond a row's own, and everywhere in a model whose floors are of different batches: pairs of one batch line
        up, others do not.
    n_floor : float array, shape (..., rows)
    models : int array, shape (rows,)
    """

    gating: Bools
    delta: Floats
    se: Floats
    d: Floats
    n: Floats
    floor_d: Floats
    n_floor: Floats
    models: NDArray[np.int64]

    def of(self, rows: Bools | NDArray[np.intp]) -> Members:
        """Return the marked *rows* only, or those whose numbers are given, in that order."""
        by_pair = ("d", "floor_d")
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        return Members(**{name: x[..., rows, :] if name in by_pair else x[..., rows] for name, x in arrays.items()})


@dataclass(frozen=True, slots=True)
class SuiteCalls:
    """What the test says of one family, arrays of shape (...): G, its standard error, the limit, and the call."""

    rows: NDArray[np.int64]
    mean: Floats
    se: Floats
    threshold: Floats
    tested: Bools

    @property
    def red(self) -> Bools:
        """Return where the family is RED."""
        return np.asarray(self.tested & (self.mean < self.threshold))


def suite_tests(
    data: Mapping[RowId, RowData], bands: Mapping[RowId, RowBand], references: Mapping[RowId, RowReferences]
) -> tuple[SuiteResult, ...]:
    """Test every family with at least three gating rows; see :func:`suite_calls`."""
    families: dict[Family, list[RowId]] = defaultdict(list)
    for row, band in bands.items():
        if band.delta_floor is not None:
            families[row.kind.family].append(row)
    calls = suite_calls([_members(rows, data, bands, references) for rows in families.values()])
    return tuple(
        SuiteResult(
            family=str(family),
            rows=int(call.rows),
            mean_delta=float(call.mean),
            se=float(call.se),
            threshold=float(call.threshold),
            red=bool(call.red),
        )
        for family, call in zip(families, calls, strict=True)
        if call.tested
    )


def _members(
    rows: list[RowId],
    data: Mapping[RowId, RowData],
    bands: Mapping[RowId, RowBand],
    references: Mapping[RowId, RowReferences],
) -> Members:
    names = sorted({row.model for row in rows})
    batches: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        floor = references[row].floor
        batches[row.model].add(floor.receipt_sha256 if floor else "")
    floors = [references[row].floor for row in rows]
    return Members(
        gating=np.ones(len(rows), dtype=bool),
        delta=np.array([bands[row].delta_floor for row in rows], dtype=float),
        se=np.array([bands[row].se_floor or 0.0 for row in rows], dtype=float),
        d=padded([data[row].d for row in rows], np.nan),
        n=np.array([bands[row].n for row in rows], dtype=float),
        floor_d=padded(
            [
                floor.d if floor and len(batches[row.model]) == 1 else ()
                for row, floor in zip(rows, floors, strict=True)
            ],
            np.nan,
        ),
        n_floor=np.array([floor.n if floor else np.nan for floor in floors], dtype=float),
        models=np.array([names.index(row.model) for row in rows], dtype=np.int64),
    )


def suite_calls(families: list[Members]) -> list[SuiteCalls]:
    """Test families, for one release or many.

    ``G = mean_r(D − F)``; RED below ``−2.576·sqrt(Σse²/m² + 2τ_c²)``. That variance takes rows for independent, but the
    rows of one model come from the same starts and share their luck. So the spread of the *pair means* over a model's
    rows is estimated too, from this run's and the floor's pairs, and the test needs both: RED only below
    ``−sqrt(t²·V + 2.576²·2τ_c²)`` as well, with ``V = Σ_models w²·s²_mean·(1/n + 1/n_F)``, ``t = t.isf(0.005/k, ν)``,
    k families tested. On a quiet host τ_c rules both; on a loud one the second keeps the k tests together at 0.5 %.
    """
    counts = [np.asarray(family.gating.sum(axis=-1)) for family in families]
    tested = [count >= MIN_ROWS for count in counts]
    level = LEVEL / np.maximum(np.sum(tested, axis=0), 1)
    return [_test(*one, level=level) for one in zip(families, counts, tested, strict=True)]


def _test(family: Members, count: NDArray[np.int64], tested: Bools, *, level: Floats) -> SuiteCalls:
    m = np.maximum(count, 1)
    mean = np.where(family.gating, family.delta, 0.0).sum(axis=-1) / m
    independent = np.where(family.gating, family.se**2, 0.0).sum(axis=-1) / m**2
    shared, df = _shared_variance(family, m)
    common = 2 * TAU_COMMON**2
    t = np.where(df > 0, t_isf(level, np.maximum(df, 1e-9)), 0.0)
    as_shared = np.where(df > 0, np.sqrt(t**2 * shared + Z**2 * common), 0.0)
    threshold = -np.maximum(Z * np.sqrt(independent + common), as_shared)
    return SuiteCalls(count, mean, np.sqrt(np.maximum(independent, shared) + common), threshold, tested)


def _shared_variance(family: Members, m: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return Var(G) from the pair means of each model, and its Satterthwaite degrees of freedom."""
    order = np.argsort(family.models, kind="stable")
    by_model = family.of(order)
    first = np.flatnonzero(np.diff(by_model.models, prepend=-1))  # where each model's rows begin
    gating = by_model.gating
    rows = np.add.reduceat(gating.astype(np.int64), first, axis=-1)
    n, n_floor = (
        np.minimum.reduceat(np.where(gating, x, np.inf), first, axis=-1) for x in (by_model.n, by_model.n_floor)
    )
    ss, df = _scatter_of_means(by_model.d, n, gating, rows, first)
    whole = np.logical_and.reduceat(~gating[..., None] | ~np.isnan(by_model.floor_d), first, axis=-2)
    floor_ss, floor_df = _scatter_of_means(by_model.floor_d, whole.sum(axis=-1), gating, rows, first)
    ss, df = ss + floor_ss, df + floor_df
    variance = ss / np.maximum(df, 1) * (1 / np.maximum(n, 1) + 1 / np.maximum(n_floor, 1))
    part = np.where(df > 0, (rows / m[..., None]) ** 2 * variance, 0.0)
    total, square = part.sum(axis=-1), (part**2 / np.maximum(df, 1)).sum(axis=-1)
    return total, np.where(square > 0, total**2 / np.where(square > 0, square, 1.0), 0.0)


def _scatter_of_means(
    d: Floats, n: Floats, gating: Bools, rows: NDArray[np.int64], first: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return, per model, the sum of squares of the first *n* pair means of its gating rows, and their freedom."""
    pairs = (np.arange(d.shape[-1]) < n[..., None]) & (rows > 0)[..., None]
    sums = np.add.reduceat(np.where(gating[..., None], d, 0.0), first, axis=-2)
    means = sums / np.maximum(rows, 1)[..., None]
    count = pairs.sum(axis=-1)
    centre = np.where(pairs, means, 0.0).sum(axis=-1) / np.maximum(count, 1)
    ss = np.where(pairs, (means - centre[..., None]) ** 2, 0.0).sum(axis=-1)
    return ss, np.maximum(count - 1.0, 0.0)

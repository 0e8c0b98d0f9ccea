"""The noise-band table of a release: every measured row at one look, by a named method."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from lqw.noise.batch import Bands, Batch, batch_of
from lqw.noise.methods import method_of
from lqw.noise.rows import Call, RowBand, RowData, RowReferences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from lqw.metrics import RowId
    from lqw.plan import Policy

__all__ = ["band_table", "row_band"]


def band_table(
    data: Sequence[RowData],
    references: Mapping[RowId, RowReferences],
    policy: Policy,
    *,
    look: int,
    m: int,
    folded: Mapping[RowId, float] = MappingProxyType({}),
) -> dict[RowId, RowBand]:
    """Return the band of every row.

    Parameters
    ----------
    data : sequence of RowData
        Measured rows with the pairs this look may see; families are shrunk over exactly these rows.
    references : mapping of RowId to RowReferences
        Of this epoch; a row without a floor gets its estimate and noise only.
    policy : Policy
        ``policy.method`` names the method.
    look : int
        From 0.
    m : int
        Rows of the manifest: the level is shared among them.
    folded : mapping of RowId to float
        ln T (oriented) of rows whose target a released version met.
    """
    if not data:
        return {}
    batch = batch_of(data, references, folded)
    bands = method_of(policy)(batch, policy, look=look, m=m)
    return {row.row: row_band(row, references, batch, bands, at=(i,), look=look) for i, row in enumerate(data)}


def row_band(
    row: RowData,
    references: Mapping[RowId, RowReferences],
    batch: Batch,
    bands: Bands,
    *,
    at: tuple[int, ...],
    look: int,
) -> RowBand:
    """Return one row of the arrays as a record; *at* is its place in *bands*, whose last axis is *batch*'s rows."""
    i = at[-1]

    def value(array: np.ndarray) -> float | None:
        number = float(array[at])
        return number if math.isfinite(number) else None

    floor = references.get(row.row, RowReferences()).floor
    red = bool(bands.red[at])
    reference, last = (float(x[i]) if math.isfinite(x[i]) else None for x in (batch.floor, batch.last))
    se, t_red = value(bands.se_floor), value(bands.t_red)
    estimate = float(bands.estimate[at])
    return RowBand(
        row=row.row,
        look=look,
        n=len(row.d),
        estimate=estimate,
        s2=float(bands.s2[at]),
        v=float(bands.v[at]),
        sd=float(bands.sd[at]),
        nu=float(bands.nu[at]),
        floor=reference,
        folded=floor is not None and reference is not None and reference > floor.value,
        delta_floor=None if reference is None else estimate - reference,
        se_floor=se,
        t_red=t_red,
        u_pass=value(bands.u_pass),
        threshold=value(bands.threshold),
        lower=value(bands.lower),
        last=last,
        delta_last=None if last is None else estimate - last,
        se_last=value(bands.se_last),
        t_last=value(bands.t_last),
        threshold_last=value(bands.threshold_last),
        band_fraction=None if se is None or t_red is None else -math.expm1(-t_red * se),
        call=Call.RED if red else Call.PASS if bool(bands.passed[at]) else Call.OPEN,
        red_by="floor" if bands.red_floor[at] else "last" if bands.red_last[at] else "",
    )

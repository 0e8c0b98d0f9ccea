"""The noise-band table of a release: every measured row at one look, by a named method."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from lqw.errors import UsageError
from lqw.noise.batch import Bands, Batch, batch_of
from lqw.noise.methods import METHODS
from lqw.noise.rows import Call, RowBand, RowData, RowReferences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from lqw.metrics import RowId
    from lqw.plan import Policy

__all__ = ["band_table"]


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
    method = METHODS.get(policy.method)
    if method is None:
        raise UsageError(f"unknown method {policy.method!r}", remedy=f"one of: {', '.join(METHODS)}")
    batch = batch_of(data, references, folded)
    bands = method(batch, policy, look=look, m=m)
    return {row.row: _band(row, references, batch, bands, i=i, look=look) for i, row in enumerate(data)}


def _band(
    row: RowData,
    references: Mapping[RowId, RowReferences],
    batch: Batch,
    bands: Bands,
    *,
    i: int,
    look: int,
) -> RowBand:
    def at(values: np.ndarray) -> float | None:
        value = float(values[i])
        return value if math.isfinite(value) else None

    floor = references.get(row.row, RowReferences()).floor
    red = bool(bands.red_floor[i]) or bool(bands.red_last[i])
    se, t_red = at(bands.se_floor), at(bands.t_red)
    return RowBand(
        row=row.row,
        look=look,
        n=len(row.d),
        estimate=float(bands.estimate[i]),
        s2=float(bands.s2[i]),
        v=float(bands.v[i]),
        sd=float(bands.sd[i]),
        nu=float(bands.nu[i]),
        floor=at(batch.floor),
        folded=floor is not None and float(batch.floor[i]) > floor.value,
        delta_floor=at(bands.estimate - batch.floor),
        se_floor=se,
        t_red=t_red,
        u_pass=at(bands.u_pass),
        threshold=at(bands.threshold),
        lower=at(bands.lower),
        last=at(batch.last),
        delta_last=at(bands.estimate - batch.last),
        se_last=at(bands.se_last),
        t_last=at(bands.t_last),
        threshold_last=at(bands.threshold_last),
        band_fraction=None if se is None or t_red is None else -math.expm1(-t_red * se),
        call=Call.RED if red else Call.PASS if bool(bands.passed[i]) else Call.OPEN,
        red_by="floor" if bands.red_floor[i] else "last" if bands.red_last[i] else "",
    )

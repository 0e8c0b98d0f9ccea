"""The sequential decision, replayed: every look sees what it saw when it was taken, and a decided row stays decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.band import row_band
from lqw.noise.batch import batch_of
from lqw.noise.looks import take_looks
from lqw.noise.methods import method_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.metrics import RowId
    from lqw.noise.rows import RowBand, RowData, RowReferences
    from lqw.plan import Policy

__all__ = ["Replay", "replay"]


@dataclass(frozen=True, slots=True)
class Replay:
    """What the looks decided.

    Attributes
    ----------
    bands : dict of RowId to RowBand
        Of every measured row: from the look that decided it, or the last one it saw.
    needing : tuple of str
        Models that the next look wants more pairs of.
    """

    bands: dict[RowId, RowBand]
    needing: tuple[str, ...]


def replay(
    data: Mapping[RowId, RowData],
    references: Mapping[RowId, RowReferences],
    policy: Policy,
    *,
    m: int,
    available: Mapping[str, int],
    folded: Mapping[RowId, float],
) -> Replay:
    """Run the looks over *data* by the rule of :func:`lqw.noise.looks.take_looks`.

    Parameters
    ----------
    data : mapping of RowId to RowData
        Measured rows that are not void, all pairs of each.
    references, policy, m, folded
        As in :func:`lqw.noise.band.band_table`.
    available : mapping of str to int
        Complete pairs in the samples, per model.
    """
    if not data:
        return Replay({}, ())
    models = sorted({row.model for row in data})
    batch = batch_of(list(data.values()), references, folded)
    looked = take_looks(
        replace(batch, d=batch.d[None], n=batch.n[None]),
        method_of(policy),
        policy,
        m=m,
        models=np.array([models.index(row.model) for row in data]),
        available=np.array([[available.get(model, 0) for model in models]], dtype=float),
    )
    bands = {}
    for i, (row, pairs) in enumerate(data.items()):
        look = int(looked.look[0, i])
        if look >= 0:
            seen = pairs.first(policy.looks[look])
            bands[row] = row_band(seen, references, batch, looked.bands, at=(0, i), look=look)
    return Replay(bands, tuple(model for model, more in zip(models, looked.needing[0], strict=True) if more))

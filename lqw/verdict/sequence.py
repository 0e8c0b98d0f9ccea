"""The sequential decision, replayed: every look sees what it saw when it was taken, and a decided row stays decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.noise.band import band_table
from lqw.noise.rows import Call, RowBand, RowData, RowReferences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.metrics import RowId
    from lqw.plan import Policy

__all__ = ["Replay", "replay"]


@dataclass(frozen=True, slots=True)
class Replay:
    """What the looks decided.

    Attributes
    ----------
    bands : dict of RowId to RowBand
        Of every measured row: from the look that decided it, or the last one it saw.
    pairs_used : dict of str to int
        Pairs of each model that the decision rests on.
    needing : tuple of str
        Models that the next look wants more pairs of.
    """

    bands: dict[RowId, RowBand]
    pairs_used: dict[str, int]
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
    """Run the looks over *data*.

    At each look the models with an OPEN gating row get the pairs of that look; all others keep what they had, so that
    a run which measured more than it needed is judged by the same numbers as one that stopped. A model with a RED row
    asks for no more: the gate is blocked already, and its other open rows are reported as they stand.

    Parameters
    ----------
    data : mapping of RowId to RowData
        Measured rows that are not void, all pairs of each.
    references, policy, m, folded
        As in :func:`lqw.noise.band.band_table`.
    available : mapping of str to int
        Complete pairs in the samples, per model.
    """
    models = {row.model for row in data}
    used = dict.fromkeys(models, policy.looks[0])
    bands: dict[RowId, RowBand] = {}
    going, needing = set(models), set[str]()
    for look, pairs in enumerate(policy.looks):
        for model in sorted(going):
            if available.get(model, 0) < pairs:
                needing.add(model)
        going -= needing
        if not going:
            break
        used.update(dict.fromkeys(going, pairs))
        seen = [row.first(used[row.row.model]) for row in data.values()]
        table = band_table(seen, references, policy, look=look, m=m, folded=folded)
        for row, band in table.items():
            if row.model in going and (row not in bands or bands[row].call is Call.OPEN):
                bands[row] = band
        going = {model for model in going if _undecided(model, bands)}
    return Replay(bands, used, tuple(sorted(needing)))


def _undecided(model: str, bands: Mapping[RowId, RowBand]) -> bool:
    calls = [band.call for row, band in bands.items() if row.model == model and band.floor is not None]
    return Call.OPEN in calls and Call.RED not in calls

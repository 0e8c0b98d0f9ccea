"""The suite test: a family's mean change, for the broad small loss that no row shows alone (STATISTICS §3)."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.quantiles import t_isf
from lqw.verdict.results import SuiteResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import Family, RowId
    from lqw.noise.rows import RowBand, RowData, RowReferences

__all__ = ["suite_tests"]

Z = 2.576
"""One-sided 0.5 % per family."""
LEVEL = 0.005
TAU_COMMON = 0.005  # τ_c: what a session may move a whole family by
MIN_ROWS = 3  # below this the row tests are the suite


@dataclass(frozen=True, slots=True)
class _Member:
    data: RowData
    band: RowBand
    references: RowReferences


def suite_tests(
    data: Mapping[RowId, RowData], bands: Mapping[RowId, RowBand], references: Mapping[RowId, RowReferences]
) -> tuple[SuiteResult, ...]:
    """Test every family with at least three gating rows.

    ``G = mean_r(D − F)``; RED below ``−2.576·sqrt(Σse²/m² + 2τ_c²)``. That variance takes rows for independent, but the
    rows of one model come from the same starts and share their luck. So the spread of the *pair means* over a model's
    rows is estimated too, from this run's and the floor's pairs, and the test needs both: RED only below
    ``−sqrt(t²·V + 2.576²·2τ_c²)`` as well, with ``V = Σ_models w²·s²_mean·(1/n + 1/n_F)``, ``t = t.isf(0.005/k, ν)``,
    k families tested. On a quiet host τ_c rules both; on a loud one the second keeps the k tests together at 0.5 %.
    """
    families: dict[Family, list[_Member]] = defaultdict(list)
    for row, band in bands.items():
        if band.delta_floor is not None:
            families[row.kind.family].append(_Member(data[row], band, references[row]))
    tested = {family: members for family, members in families.items() if len(members) >= MIN_ROWS}
    return tuple(_test(family, members, LEVEL / len(tested)) for family, members in tested.items())


def _test(family: Family, members: Sequence[_Member], level: float) -> SuiteResult:
    m = len(members)
    mean = float(np.mean([member.band.delta_floor for member in members]))
    independent = sum((member.band.se_floor or 0.0) ** 2 for member in members) / m**2
    shared, df = _shared_variance(members)
    common = 2 * TAU_COMMON**2
    as_independent = Z * math.sqrt(independent + common)
    as_shared = math.sqrt(float(t_isf(level, df)) ** 2 * shared + Z**2 * common) if df > 0 else 0.0
    threshold = -max(as_independent, as_shared)
    se = math.sqrt(max(independent, shared) + common)
    return SuiteResult(family=str(family), rows=m, mean_delta=mean, se=se, threshold=threshold, red=mean < threshold)


def _shared_variance(members: Sequence[_Member]) -> tuple[float, float]:
    """Return Var(G) from the pair means of each model, and its Satterthwaite degrees of freedom."""
    models: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        models[member.data.row.model].append(member)
    total, square = 0.0, 0.0
    for rows in models.values():
        ss, df = 0.0, 0
        batches = [[member.data.d[: member.band.n] for member in rows]]
        floors = [member.references.floor for member in rows if member.references.floor is not None]
        if len({floor.receipt_sha256 for floor in floors}) == 1:  # pairs of one batch line up, others do not
            batches.append([floor.d for floor in floors])
        for batch in batches:
            length = min((len(d) for d in batch), default=0)
            if length > 1:
                means = np.mean([d[:length] for d in batch], axis=0)
                ss, df = ss + float(np.sum((means - means.mean()) ** 2)), df + length - 1
        if df == 0:
            continue
        n = min(member.band.n for member in rows)
        n_floor = min(member.references.floor.n for member in rows if member.references.floor is not None)
        part = (len(rows) / len(members)) ** 2 * (ss / df) * (1 / n + 1 / n_floor)
        total, square = total + part, square + part**2 / df
    return total, total**2 / square if square > 0 else 0.0

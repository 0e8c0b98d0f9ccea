"""Published targets: MET, LIKELY or OPEN, and folding into the ratchet (STATISTICS §4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lqw.noise.quantiles import t_isf
from lqw.outcomes import TargetState
from lqw.verdict.results import TargetResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lqw.metrics import RowId
    from lqw.noise.rows import RowBand
    from lqw.plan import Policy

__all__ = ["folded_targets", "oriented", "target_of"]

CONFIDENCE = 0.01


def oriented(row: RowId, target: float) -> float:
    """Return ``ln T`` in the row's good direction: ln 0.8 for a rate, −ln 1.5 for "at most 1.5× slower"."""
    return row.kind.sign * math.log(target)


def folded_targets(met: Iterable[RowId], targets: Mapping[str, float]) -> dict[RowId, float]:
    """Return ln T of the rows whose target a *released* version met: their reference is ``max(F, ln T)``.

    Only a bound that held in a release folds; folding on point estimates would flap.
    """
    return {row: oriented(row, targets[row.metric]) for row in met if row.metric in targets}


def target_of(row: RowId, band: RowBand, targets: Mapping[str, float], policy: Policy) -> TargetResult | None:
    """Return where *row* stands, by its own session: ``se² = s̃²/n + τ²``, one-sided 99 %."""
    target = targets.get(row.metric)
    if target is None:
        return None
    goal, sign = oriented(row, target), row.kind.sign
    se = math.sqrt(band.sd**2 / band.n + policy.tau**2)
    bound = band.estimate - float(t_isf(CONFIDENCE, band.nu)) * se
    state = TargetState.MET if bound >= goal else TargetState.LIKELY if band.estimate >= goal else TargetState.OPEN
    return TargetResult(
        target=target,
        state=state,
        ratio=math.exp(sign * band.estimate),
        bound=math.exp(sign * bound),
        distance=math.exp(goal - band.estimate),
    )

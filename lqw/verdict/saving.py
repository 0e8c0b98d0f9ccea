"""What stopping when decided has saved: pairs that no look asked for, and the time they would have taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.plan import Plan
    from lqw.samples import StartRecord
    from lqw.verdict.results import Judgement

__all__ = ["Saving", "saving_of"]


@dataclass(frozen=True, slots=True)
class Saving:
    """Pairs that were not measured, of at most ``most`` per model, and their seconds at the pace of those that were."""

    pairs: int
    most: int
    seconds: float


def saving_of(judgement: Judgement, starts: Sequence[StartRecord], plan: Plan) -> Saving:
    """Return the saving: of models that stopped at a look, and none where the judgement still wants pairs."""
    saved, seconds = 0, 0.0
    for model, pairs in judgement.pairs.items() if judgement.pairs_saved else ():
        if pairs in plan.policy.looks:  # elsewhere it was cut short, and no look has said that this is enough
            wall_s = sum(start.wall_s for start in starts if start.model == model)
            saved += plan.max_pairs - pairs
            seconds += (plan.max_pairs - pairs) * wall_s / pairs
    return Saving(saved, plan.max_pairs, seconds)

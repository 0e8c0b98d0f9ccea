"""The order guard: starts must have run as the plan drew them; a blocked order is refused.

With all subjects first and all comparators after (AAABBB) clock drift becomes a ratio whose error grows with n.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from lqw.verdict.results import GuardFinding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.outcomes import Arm
    from lqw.plan import Plan
    from lqw.samples import StartRecord

__all__ = ["order_findings"]


def order_findings(plan: Plan, starts: Sequence[StartRecord]) -> list[GuardFinding]:
    """Return an ``invalid`` finding for each way the starts contradict the plan, or one finding of effect ``none``."""
    problems = [*_duplicates(starts), *_strangers(plan, starts)]
    if not problems:
        models = sorted({start.model for start in starts})
        problems = [text for model in models for text in _model_order(plan, model, starts)]
    if problems:
        return [GuardFinding(guard="order", effect="invalid", subject="run", text=text) for text in problems]
    text = f"{len(starts)} starts ran in the order drawn from seed {plan.seed}"
    return [GuardFinding(guard="order", effect="none", subject="run", text=text)]


def _duplicates(starts: Sequence[StartRecord]) -> list[str]:
    keys = Counter((start.model, start.pair, start.arm, start.launch) for start in starts)
    positions = Counter(start.position for start in starts)
    out = [
        f"{model}: pair {pair}, {arm}, launch {launch} stands {count} times in the samples"
        for (model, pair, arm, launch), count in sorted(keys.items())
        if count > 1
    ]
    return out + [f"{count} starts claim position {at}" for at, count in sorted(positions.items()) if count > 1]


def _strangers(plan: Plan, starts: Sequence[StartRecord]) -> list[str]:
    unknown = sorted({start.model for start in starts} - plan.orders.keys())
    out = [f"{model}: measured, but not in the plan" for model in unknown]
    beyond = sorted(
        {(s.model, s.pair) for s in starts if s.model in plan.orders and s.pair > len(plan.orders[s.model])}
    )
    return out + [f"{model}: pair {pair} is beyond the plan's {len(plan.orders[model])}" for model, pair in beyond]


def _model_order(plan: Plan, model: str, starts: Sequence[StartRecord]) -> list[str]:
    pairs: dict[int, list[StartRecord]] = defaultdict(list)
    for start in sorted((one for one in starts if one.model == model), key=lambda one: one.position):
        pairs[start.pair].append(start)
    out = []
    for early, late in pairwise(sorted(pairs)):
        if pairs[early][-1].position > pairs[late][0].position:
            out.append(f"{model}: pair {late} began before pair {early} ended; pairs must not be blocked by arm")
    for pair, ran in sorted(pairs.items()):
        out += _pair_order(plan, model, pair, ran)
    return out


def _pair_order(plan: Plan, model: str, pair: int, ran: Sequence[StartRecord]) -> list[str]:
    wanted = plan.orders[model][pair - 1]
    launches: dict[int, list[Arm]] = defaultdict(list)
    for start in ran:
        launches[start.launch].append(start.arm)
    out = []
    for launch, arms in sorted(launches.items()):
        if tuple(arms) != wanted[: len(arms)]:
            drawn, did = ("then ".join(f"{arm} " for arm in order).strip() for order in (wanted, arms))
            out.append(f"{model}: pair {pair}, launch {launch} ran {did}; the seed drew {drawn}")
    for before, after in pairwise(ran):
        if before.launch != after.launch and after.arm is not wanted[0]:
            out.append(f"{model}: pair {pair}: the arms of launch {after.launch} did not run one after the other")
    return out

"""Guards on the measurement itself: each says what it saw, and what that does to the verdict (STATISTICS §3)."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import numpy as np

from lqw.metrics import Family, RowId
from lqw.metrics.digits import percent
from lqw.noise.boundaries import row_alpha
from lqw.noise.quantiles import t_isf
from lqw.noise.shrink import shrink
from lqw.outcomes import Arm
from lqw.verdict.results import Effect, GuardFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.noise.rows import RowData
    from lqw.plan import Policy
    from lqw.samples import StartRecord
    from lqw.verdict.evidence import ComparatorPoint

__all__ = ["comparator_history", "null_control", "one_token_prefill"]

MIN_PROMPT = 512  # tokens: on shorter prompts the fixed cost of a request hides the rate
FACTOR = 2.0
WIDTHS = 4.0
MIN_SESSIONS = 3  # earlier sessions that give a spread of their own


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _mean_and_scatter(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the sum of squares about it; of few numbers quicker than by an array."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values)


def one_token_prefill(
    data: Mapping[RowId, RowData], starts: Sequence[StartRecord], policy: Policy
) -> list[GuardFinding]:
    """Catch a prefill that runs one token per step: prefill tok/s < 2 × decode tok/s on a prompt of 512 and more.

    Looks at the subject alone, so that no floor can bless it. The policy says whether it gates or is only reported:
    a small model with a large vocabulary decodes so slowly for its size that the defect passes (145 against 55).
    Where a protocol has no prefill row of a length, its TTFT row gives the rate. Decoding is what it costs the engine:
    where a stream is dear (apr: 29 tok/s in one, 64 without, and 64 of a one-token prefill) the rate without it counts.
    """
    out = []
    for model in sorted({row.model for row in data}):
        decode = data.get(RowId(model, "decode"))
        if decode is None:
            continue
        decode_tok_s, how = _decode_rate(decode, starts)
        for row, rate in _prefill_rates(model, data):
            numbers = {"prefill_tok_s": rate, "decode_tok_s": decode_tok_s, "factor": rate / decode_tok_s}
            slow = rate < FACTOR * decode_tok_s
            effect: Effect = "none"
            if slow:
                effect = "red" if policy.one_token_detector == "gate" else "flag"
            text = f"{row.short}: prefill {rate:.0f} tok/s is {rate / decode_tok_s:.1f}× decode "
            text += f"({decode_tok_s:.0f} tok/s{how})"
            text += "; one token per step looks like this" if slow else ""
            out.append(
                GuardFinding(guard="one_token_prefill", effect=effect, subject=str(row), text=text, numbers=numbers)
            )
    return out


def _decode_rate(decode: RowData, starts: Sequence[StartRecord]) -> tuple[float, str]:
    """Return the larger of the subject's two decode rates, tok/s, and words for the one that is not the row's."""
    alone = [
        step.unstreamed.tok_s
        for start in starts
        if start.model == decode.row.model and start.arm is Arm.SUBJECT and start.pair in decode.pairs
        for step in start.steps
        if step.unstreamed is not None and step.unstreamed.again
    ]
    streamed, whole = _geomean(decode.subject), _geomean(alone) if alone else 0.0
    return (whole, " without a stream") if whole > streamed else (streamed, "")


def _prefill_rates(model: str, data: Mapping[RowId, RowData]) -> list[tuple[RowId, float]]:
    rates: dict[int, tuple[RowId, float]] = {}
    for row, pairs in sorted(data.items(), key=lambda item: item[0].metric == "prefill"):  # prefill rows last: they win
        if row.model == model and row.size is not None and row.size >= MIN_PROMPT:
            if row.metric == "ttft":
                rates[row.size] = (row, row.size / _geomean(pairs.subject) * 1e3)
            elif row.metric == "prefill":
                rates[row.size] = (row, _geomean(pairs.subject))
    return [rates[size] for size in sorted(rates)]


def comparator_history(
    data: Mapping[RowId, RowData], history: Mapping[RowId, Sequence[ComparatorPoint]], policy: Policy
) -> list[GuardFinding]:
    """Compare the comparator's own value with its earlier sessions, in both directions.

    COMPARATOR_SUSPECT ⇔ ``|mean ln y − median of history| > max(M/2, 4·s)``: a slow denominator inflates the ratio and
    could be locked into a floor for ever, a fast one makes a false RED. M/2 is the design's 5 % for margin class A and
    widens with the class a host declares. s is the standard deviation between sessions once there are three, but never
    less than that between the starts of one session: a mean of few starts cannot be steadier than they are.
    """
    out = []
    for row, pairs in data.items():
        points = history.get(row, ())
        if not points:
            continue
        logs = [math.log(value) for value in pairs.comparator]
        mean, own_ss = _mean_and_scatter(logs)
        means = [point.mean for point in points]
        within = math.sqrt(
            (own_ss + sum((p.n - 1) * p.sd**2 for p in points)) / (len(logs) - 1 + sum(p.n - 1 for p in points))
        )
        between = float(np.std(means, ddof=1)) if len(means) >= MIN_SESSIONS else 0.0
        allowed = max(policy.margin / 2, WIDTHS * max(within, between))
        moved = mean - statistics.median(means)
        suspect = abs(moved) > allowed
        text = f"comparator of {row} is at {math.exp(moved):.2f}× its own history ({len(points)} sessions)"
        text += f", more than ±{percent(math.expm1(allowed))}: what it divides cannot be judged" if suspect else ""
        effect: Effect = "undecided" if suspect else "none"
        numbers = {"ratio": math.exp(moved), "allowed": allowed, "sessions": float(len(points))}
        out.append(
            GuardFinding(guard="comparator_history", effect=effect, subject=str(row), text=text, numbers=numbers)
        )
    return out


def null_control(data: Mapping[RowId, RowData], policy: Policy, *, m: int) -> list[GuardFinding]:
    """Judge the comparator against itself: odd starts against even ones; a significant difference voids the run.

    The same variance shrinkage and level as the rows, two-sided: ``|mean_odd − mean_even| > t.isf(α_row/2, ν)·s̃·
    sqrt(1/n_odd + 1/n_even)`` and more than half the margin. Whatever moves the comparator against itself by more than
    chance (a clock, a client, a neighbour) moves the ratio too.
    """
    rows = [row for row in data.values() if len(row.comparator) >= MIN_SESSIONS]
    worst: GuardFinding | None = None
    for family in Family:
        members = [row for row in rows if row.row.kind.family is family]
        if not members:
            continue
        logs = [[math.log(value) for value in row.comparator] for row in members]
        halves = [(_mean_and_scatter(y[0::2]), _mean_and_scatter(y[1::2])) for y in logs]
        ss = np.array([odd + even for (_, odd), (_, even) in halves])
        df = np.array([len(y) - 2 for y in logs], dtype=float)
        floor = policy.sd_floor_memory if family is Family.MEMORY else policy.sd_floor
        noise = shrink(ss / df, df, sd_floor=floor)
        level = t_isf(row_alpha(policy.alpha, m) / 2, noise.nu)
        for i, ((odd, _), (even, _)) in enumerate(halves):
            apart, n = odd - even, len(logs[i])
            se = math.sqrt(noise.s2[i] * (1 / ((n + 1) // 2) + 1 / (n // 2)))
            limit = max(float(level[i]) * se, policy.margin / 2)
            worst = _worse(worst, _null_finding(members[i].row, apart, limit))
    return [] if worst is None else [worst]


def _null_finding(row: RowId, apart: float, limit: float) -> GuardFinding:
    fires = abs(apart) > limit
    text = f"comparator against itself, odd and even starts: {row} differs by {percent(math.expm1(abs(apart)))}"
    text += f" (limit {percent(math.expm1(limit))})"
    text += ": the run cannot tell two engines apart" if fires else ""
    return GuardFinding(
        guard="null_control",
        effect="undecided" if fires else "none",
        subject=str(row) if not fires else "run",
        text=text,
        numbers={"apart": apart, "limit": limit, "share": abs(apart) / limit},
    )


def _worse(one: GuardFinding | None, other: GuardFinding) -> GuardFinding:
    return other if one is None or other.numbers["share"] > one.numbers["share"] else one

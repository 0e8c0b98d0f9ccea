"""How often a step is repeated: until one start's own error is below a third of the spread between starts.

What three pairs showed decides for the pairs after them, up to the protocol's ceiling; both arms of a pair get the
same. Only how far requests scatter is looked at, never which arm is faster: no verdict lengthens itself into being.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from lqw.metrics.values import batches_of, common_window, decode_tok_s, ttft_ms, whole_batch_tok_s
from lqw.noise.pairs import MIN_PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lqw.outcomes import Arm
    from lqw.params import ProtocolSpec, StepSpec
    from lqw.plan import StartKey
    from lqw.samples import RequestSample, StartRecord

__all__ = ["SHARE", "lengthened", "needed_repeats"]

SHARE = 3.0
"""One start's error is to be this many times smaller than the standard deviation between starts (MEASUREMENT, 6)."""


def _common_tok_s(batch: Sequence[RequestSample]) -> float:
    window = common_window(batch)
    return 0.0 if window is None else window.tok_s


_RATES = {"agg": _common_tok_s, "agg_whole": whole_batch_tok_s}


def _metrics(step: StepSpec, protocol: ProtocolSpec) -> list[str]:
    """Return the metrics that a step's repeats scatter in: of many streams, those that are rows of the protocol."""
    rows = set(protocol.rows)
    return [one for one in _RATES if f"{one}@{step.size}" in rows] if step.kind == "agg" else [step.kind]


def _logs(step: StepSpec, requests: Sequence[RequestSample], metric: str) -> list[float]:
    """Return ln of what each timed repeat of a step gave; empty where one of them gave nothing."""
    if any(request.failure is not None or request.ttft_ns is None for request in requests):
        return []
    if step.kind == "agg":
        values = [_RATES[metric](batch) for batch in batches_of(requests)]
    elif step.kind == "decode":
        values = [decode_tok_s(request) for request in requests]
    else:
        values = [ttft_ms(request) for request in requests]
    return [math.log(value) for value in values] if all(v > 0 and math.isfinite(v) for v in values) else []


def needed_repeats(step: StepSpec, starts: Iterable[StartRecord], *, metric: str) -> int:
    """Return how often *step* is to be repeated, from what *starts* of one model and launch showed.

    With ``s_w²`` the variance of ln(value) between the repeats of a start and ``S²`` that between the starts of an arm,
    both pooled over starts and arms: the least n with ``c·s_w²/n ≤ S²/9``, c being 1 for a geometric mean and π/2 for a
    median (its variance over normal samples). ``S²`` is taken as it was seen, the starts' own error in it.

    Parameters
    ----------
    step : StepSpec
        Declares ``repeats`` and the ceiling ``max_repeats``.
    starts : iterable of StartRecord
        Failed ones say nothing; below three good ones of either arm the declared number stands.
    metric : str
        What is looked at where many streams run: ``agg``, the window in which all do, or ``agg_whole``. An engine that
        serves the first of them alone has no such window, and is lengthened by the whole batch, the row it has.
    """
    if step.max_repeats <= step.repeats:
        return step.repeats
    seen: dict[Arm, list[list[float]]] = defaultdict(list)
    for start in starts:
        timed = [one for one in start.requests if one.step == step.step_id and one.role == "timed"]
        logs = _logs(step, timed, metric) if start.failure is None else []
        if len(logs) > 1:
            seen[start.arm].append(logs)
    if len(seen) < 2 or min(map(len, seen.values())) < MIN_PAIRS:  # noqa: PLR2004 - both arms
        return step.repeats
    middle = statistics.fmean if step.kind in ("agg", "decode") else statistics.median
    inside = [(len(logs) - 1, statistics.variance(logs)) for arm in seen.values() for logs in arm]
    between = [(len(arm) - 1, statistics.variance([middle(logs) for logs in arm])) for arm in seen.values()]
    within, spread = _pooled(inside), _pooled(between)
    if spread <= 0:
        return step.repeats
    factor = 1.0 if step.kind in ("agg", "decode") else math.pi / 2
    needed = factor * within * SHARE**2 / spread
    return step.max_repeats if needed >= step.max_repeats else max(step.repeats, math.ceil(needed))


def _pooled(parts: Sequence[tuple[int, float]]) -> float:
    return sum(weight * variance for weight, variance in parts) / sum(weight for weight, _ in parts)


def lengthened(protocol: ProtocolSpec, starts: Iterable[StartRecord], key: StartKey) -> dict[str, int]:
    """Return step → timed repeats, where more than declared, of the start *key*.

    Only pairs before it count: whoever holds the journal comes to the same numbers.
    """
    steps = [step for step in protocol.launches[key.launch].steps if step.max_repeats > step.repeats]
    if not steps:
        return {}
    before = [one for one in starts if (one.model, one.launch) == (key.model, key.launch) and one.pair < key.pair]
    found = {
        step.step_id: max((needed_repeats(step, before, metric=one) for one in _metrics(step, protocol)), default=0)
        for step in steps
    }
    return {step.step_id: found[step.step_id] for step in steps if found[step.step_id] > step.repeats}

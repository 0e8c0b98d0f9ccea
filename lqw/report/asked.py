"""How each row was asked, and who computed it: routes, proof of offload per row, and decoding without a stream."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from lqw.outcomes import Arm
from lqw.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.metrics import RowId
    from lqw.report.facts import AskedStep, Facts
    from lqw.verdict.results import RowResult

__all__ = ["HEADS", "UNSTREAMED_HEADS", "asked_lines", "unstreamed_lines"]

HEADS = ("row", "route", "subject asked at", "comparator asked at", "computed on the GPU")
UNSTREAMED_HEADS = ("model", "decode in a stream", "not streamed", "subject, not streamed", "comparator, not streamed")


def _step_of(row: RowId) -> str:
    kind = row.kind.step
    return kind if row.size is None else f"{kind}@{row.size}"


def asked_lines(facts: Facts) -> list[tuple[str, ...]]:
    """Return a line for each row that has steps of its own; none where the run is from before that was looked at."""
    out: list[tuple[str, ...]] = []
    for row in facts.planned:
        found = [one for one in facts.steps if one.model == row.model and one.facts.step == _step_of(row)]
        if found:
            paths = [_paths([one for one in found if one.arm is arm]) for arm in (Arm.SUBJECT, Arm.COMPARATOR)]
            out.append((str(row), _route(found) + _formed(row, found), *paths, _offload(found)))
    return out


def _paths(found: Sequence[AskedStep]) -> str:
    return ", ".join(dict.fromkeys(one.facts.path for one in found)) or "–"


def _route(found: Sequence[AskedStep]) -> str:
    return "chat" if any("/chat/" in one.facts.path for one in found) else "completion"


def _formed(row: RowId, found: Sequence[AskedStep]) -> str:
    """Return the batches that each arm's own log says formed, the largest of each start; nothing where none tells."""
    out = ""
    for arm in Arm:
        told = sorted({one.facts.formed for one in found if one.arm is arm and one.facts.formed is not None})
        if told:
            most = f"{told[0]} to {told[-1]}" if len(told) > 1 else str(told[0])
            queue = ", a queue" if told[-1] == 1 and row.size != 1 else ""
            out += f"; {arm}'s largest batch by its log: {most}{queue}"
    return out


def _offload(found: Sequence[AskedStep]) -> str:
    told = [one.facts.used_gpu for one in found if one.facts.used_gpu is not None]
    if not told:
        return "on the processor, or not told"
    said = next((one.facts.said for one in found if one.facts.used_gpu is False), "")
    return f"{sum(told)} of {len(found)} starts" + (f": {said}" if said else "")


def _streamed(row: RowResult | None) -> str:
    if row is None or row.subject is None or not row.comparator:
        return "–"
    return words.ratio(row.subject / row.comparator)


def unstreamed_lines(facts: Facts) -> list[tuple[str, ...]]:
    """Return, per model, the decode ratio in a stream beside that without one, over the pairs that have both."""
    rates: dict[str, dict[int, dict[Arm, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in facts.steps:
        if one.facts.unstreamed is not None:
            rates[one.model][one.pair][one.arm] = one.facts.unstreamed.tok_s
    judged = {row.row.model: row for row in facts.rows if row.row.metric == "decode"}
    out = []
    for model, pairs in rates.items():
        whole = [pair for pair in pairs.values() if len(pair) == len(Arm)]
        if not whole:
            continue
        ratio = math.exp(statistics.fmean(math.log(one[Arm.SUBJECT] / one[Arm.COMPARATOR]) for one in whole))
        arms = [
            words.value(statistics.median(one[arm] for one in whole), "tok/s") for arm in (Arm.SUBJECT, Arm.COMPARATOR)
        ]
        out.append((model, _streamed(judged.get(model)), words.ratio(ratio), *arms))
    return out

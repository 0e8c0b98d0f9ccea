"""From engine starts to pairs: one value per row, pair and arm; nothing dropped, nothing imputed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from lqw.metrics import Family, RowId
from lqw.metrics.values import RowValue, start_values
from lqw.noise.rows import RowData
from lqw.outcomes import Arm, Reason
from lqw.samples import Failure, StartRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["MIN_PAIRS", "arm_values", "complete_pairs", "log_ratio", "pair_rows", "row_problem"]

MIN_PAIRS = 3
"""Fewer pairs than this cannot show a variance."""

_SAME = 1e-12  # relative: closer values are one value

_Key = tuple[str, int, Arm]  # model, pair, arm
_Launches = dict[_Key, dict[int, StartRecord]]


def log_ratio(row: RowId, subject: float, comparator: float) -> float:
    """Return ``s·(ln subject − ln comparator)``: larger is better, whatever the metric (STATISTICS §1)."""
    return row.kind.sign * (math.log(subject) - math.log(comparator))


def _by_pair(starts: Iterable[StartRecord]) -> _Launches:
    out: _Launches = defaultdict(dict)
    for start in starts:
        out[start.model, start.pair, start.arm][start.launch] = start
    return out


def complete_pairs(starts: Sequence[StartRecord]) -> dict[str, int]:
    """Return, per model, how many pairs from 1 on have every launch of both arms in *starts*.

    A launch is one that any start of the model had. A failed start is a start: it counts, and fails its rows.
    """
    table = _by_pair(starts)
    launches: dict[str, set[int]] = defaultdict(set)
    for (model, _, _), found in table.items():
        launches[model] |= found.keys()
    out = {}
    for model, wanted in launches.items():
        pair = 1
        while all(table.get((model, pair, arm), {}).keys() == wanted for arm in Arm):
            pair += 1
        out[model] = pair - 1
    return out


def pair_rows(
    starts: Sequence[StartRecord], rows: Sequence[RowId], *, min_window_s: float
) -> dict[RowId, RowData | Failure]:
    """Return the oriented log ratios of every row, over all complete pairs of its model.

    Parameters
    ----------
    starts : sequence of StartRecord
        In any order.
    rows : sequence of RowId
        Rows to form; each is in the result.
    min_window_s : float
        Shortest common window of an aggregate row, seconds.

    Returns
    -------
    dict of RowId to RowData or Failure
        A row with any pair that has no valid value on both sides is a Failure that names the pair and arm: dropping
        the pair would drop the evidence. TOO_FEW_PAIRS below three pairs; CONSTANT_SAMPLES where a clock gave one
        value throughout (memory may be constant); NOT_FINITE for zero, negative, NaN or infinite values.
    """
    counts = complete_pairs(starts)
    table = _by_pair(starts)
    wanted: dict[str, list[RowId]] = defaultdict(list)
    for row in rows:
        wanted[row.model].append(row)
    values: dict[_Key, dict[RowId, RowValue]] = {}
    for key, launches in table.items():
        if key[0] in wanted and key[1] <= counts[key[0]]:
            values[key] = arm_values(launches, wanted[key[0]], min_window_s)
    broken = _first_failures(starts)
    return {
        row: broken[row.model]
        if counts.get(row.model, 0) < MIN_PAIRS and row.model in broken
        else _row(row, counts.get(row.model, 0), values)
        for row in rows
    }


def _first_failures(starts: Sequence[StartRecord]) -> dict[str, Failure]:
    """Return, per model, the first failed start: why there are too few pairs says more than that there are."""
    out: dict[str, Failure] = {}
    for start in sorted(starts, key=lambda start: start.position):
        if start.failure is not None and start.model not in out:
            out[start.model] = _at(start.failure, start.pair, start.arm)
    return out


def arm_values(launches: Mapping[int, StartRecord], rows: list[RowId], min_window_s: float) -> dict[RowId, RowValue]:
    """Merge the launches of one arm of one pair: the largest peak for memory, the one value there is otherwise.

    A start that failed fails the rows that no other launch of its arm measured, and memory, whose peak is then unknown.
    """
    failed: Failure | None = None
    found: dict[RowId, list[RowValue]] = defaultdict(list)
    for _, start in sorted(launches.items()):
        if start.failure is not None:
            failed = failed or start.failure
            continue
        for row, value in start_values(start, rows, min_window_s=min_window_s).items():
            found[row].append(value)
    out = {}
    for row in rows:
        given = found[row]
        broken = next((value for value in given if value.failure is not None), None)
        if failed is not None and (not given or row.kind.family is Family.MEMORY):
            out[row] = RowValue(None, failed)
        elif broken is not None:
            out[row] = broken
        elif given:
            out[row] = max(given, key=lambda value: value.value if value.value is not None else -math.inf)
    return out


def _row(row: RowId, pairs: int, values: Mapping[_Key, Mapping[RowId, RowValue]]) -> RowData | Failure:
    got: dict[Arm, list[float]] = {arm: [] for arm in Arm}
    for pair in range(1, pairs + 1):
        for arm in Arm:
            value = values.get((row.model, pair, arm), {}).get(row)
            if value is None:
                return Failure(reason=Reason.TOO_FEW_PAIRS, detail=f"pair {pair}: no {arm} start measured this row")
            if value.failure is not None:
                return _at(value.failure, pair, arm)
            if value.value is None or not math.isfinite(value.value) or value.value <= 0:
                return Failure(reason=Reason.NOT_FINITE, detail=f"pair {pair}, {arm}: {value.value!r} {row.kind.unit}")
            got[arm].append(value.value)
    subject, comparator = tuple(got[Arm.SUBJECT]), tuple(got[Arm.COMPARATOR])
    d = tuple(log_ratio(row, x, y) for x, y in zip(subject, comparator, strict=True))
    data = RowData(row, tuple(range(1, pairs + 1)), d, subject, comparator)
    return row_problem(data) or data


def _at(failure: Failure, pair: int, arm: Arm) -> Failure:
    return failure.model_copy(update={"detail": f"pair {pair}, {arm}: {failure.detail}"[:4_000]})


def row_problem(data: RowData) -> Failure | None:
    """Return why these pairs are no sample, or None: too few, not finite, or constant."""
    if len(data.d) < MIN_PAIRS:
        return Failure(reason=Reason.TOO_FEW_PAIRS, detail=f"{len(data.d)} pairs; a variance needs {MIN_PAIRS}")
    if not all(math.isfinite(x) for x in data.d):
        return Failure(reason=Reason.NOT_FINITE, detail="a log ratio is not finite")
    if data.row.kind.family is Family.MEMORY:
        return None
    for name, sample in (("subject", data.subject), ("comparator", data.comparator)):
        if max(sample) - min(sample) <= _SAME * max(sample):
            detail = f"{name}: {len(sample)} starts gave exactly {sample[0]!r} {data.row.kind.unit}; no clock does"
            return Failure(reason=Reason.CONSTANT_SAMPLES, detail=detail)
    if max(data.d) - min(data.d) <= _SAME:
        return Failure(reason=Reason.CONSTANT_SAMPLES, detail=f"all {len(data.d)} pairs have the same ratio")
    return None

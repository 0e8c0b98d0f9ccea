"""One row's verdict from its band, and the clause that says it to a person."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.metrics import Family, RowId
from lqw.metrics.digits import percent
from lqw.noise.pairs import log_ratio
from lqw.noise.rows import Call, Reference, RowBand, RowData, RowReferences
from lqw.outcomes import Purpose, Reason, RowState, RowVerdict
from lqw.verdict.results import RowResult, TargetResult

if TYPE_CHECKING:
    from lqw.plan import Policy
    from lqw.samples import Failure

__all__ = ["BLOCKING", "Judged", "change_of", "row_result", "too_good", "unmeasured", "void"]

Floats = NDArray[np.float64] | np.float64

BLOCKING = frozenset(RowVerdict) - {RowVerdict.PASS, RowVerdict.IMPROVED, RowVerdict.NEW}
"""Verdicts with which a gate does not pass. NEW appears only where a floor is adopted."""

IMPROVED_Z = 2.326  # one-sided 99 % (STATISTICS §5)
SUSPECT_RATIO = 1.25
SUSPECT_WIDTHS = 8.0
MOST_PAIRS = 200  # what an inconclusive row may be advised to measure


@dataclass(frozen=True, slots=True)
class Judged:
    """What a row's verdict rests on."""

    data: RowData
    band: RowBand
    references: RowReferences
    policy: Policy
    purpose: Purpose
    needing: bool  # more looks remain and the row's model is wanted again
    suspect: str = ""  # what a guard holds against this row's comparator
    no_floor: str = ""  # why there is none


def row_result(judged: Judged, target: TargetResult | None) -> RowResult:
    """Return the result of a measured row that is not void."""
    verdict, text = _verdict(judged)
    band, floor = judged.band, judged.references.floor
    gating = judged.purpose is Purpose.GATE and band.floor is not None
    return _numbers(judged.data.first(band.n)).model_copy(
        update={
            "state": RowState.MEASURED,
            "verdict": verdict,
            "text": text,
            "gating": gating,
            "look": band.look,
            "band": band,
            "floor_ratio": _exp(band.floor),
            "last_ratio": _exp(band.last),
            "against_floor": _exp(band.delta_floor),
            "against_last": _exp(band.delta_last),
            "lower_ratio": _exp(band.lower),
            "floor_release": floor.release if floor else None,
            "confirm_with": _confirm_with(judged, verdict),
            "target": target,
            "pairs_needed": _pairs_needed(band, judged) if verdict is RowVerdict.INCONCLUSIVE else None,
        }
    )


def _confirm_with(judged: Judged, verdict: RowVerdict) -> str | None:
    """Return the release to measure beside a row that is RED or too good: the one that set what it is judged by."""
    floor, last = judged.references.floor, judged.references.last
    if verdict is RowVerdict.RED and judged.band.red_by == "last" and last is not None:
        return last.release
    asks = verdict is RowVerdict.RED or (verdict is RowVerdict.SUSPECT and not judged.suspect)
    return floor.release if asks and floor is not None else None


def unmeasured(row: RowId, failure: Failure) -> RowResult:
    """Return the result of a row without numbers: FAILED with its reason, or MISSING if no start of it exists."""
    missing = failure.reason is Reason.TOO_FEW_PAIRS
    return _empty(row).model_copy(
        update={
            "state": RowState.MISSING if missing else RowState.FAILED,
            "verdict": RowVerdict.MISSING if missing else RowVerdict.FAILED,
            "reason": failure,
            "text": f"{failure.reason}: {failure.detail}",
        }
    )


def void(row: RowId, failure: Failure, data: RowData | None) -> RowResult:
    """Return the result of a void row: its numbers are kept and shown, and used for nothing."""
    base = _numbers(data) if data is not None else _empty(row)
    return base.model_copy(
        update={
            "state": RowState.VOID,
            "verdict": RowVerdict.VOID,
            "reason": failure,
            "text": f"{failure.reason}: {failure.detail}",
        }
    )


def _empty(row: RowId) -> RowResult:
    kind = row.kind
    return RowResult(
        row=row, family=str(kind.family), unit=kind.unit, state=RowState.MISSING, verdict=RowVerdict.MISSING, text=""
    )


def _numbers(data: RowData) -> RowResult:
    subject, comparator = (math.exp(sum(map(math.log, x)) / len(x)) for x in (data.subject, data.comparator))
    return _empty(data.row).model_copy(
        update={
            "n": len(data.d),
            "d": data.d,
            "subject_values": data.subject,
            "comparator_values": data.comparator,
            "subject": subject,
            "comparator": comparator,
            "ratio": math.exp(log_ratio(data.row, subject, comparator)),
            "ratio_raw": subject / comparator,
        }
    )


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _verdict(judged: Judged) -> tuple[RowVerdict, str]:
    """Decide, in the order of STATISTICS §6: reference, comparator, then the row itself."""
    band, floor = judged.band, judged.references.floor
    if judged.purpose is Purpose.ADOPT:
        noise = f"pair SD {percent(band.sd)}, {band.n} pairs"
        return RowVerdict.NEW, f"{math.exp(band.estimate):.2f}× the comparator, {noise}"
    if floor is None:
        return RowVerdict.MISSING_FLOOR, judged.no_floor
    if judged.suspect:
        return RowVerdict.SUSPECT, judged.suspect
    text = _against(judged.data.row, band, floor)
    if band.call is Call.RED:
        return RowVerdict.RED, text if band.red_by == "floor" else _against_last(judged)
    if band.call is Call.OPEN:
        return RowVerdict.INCONCLUSIVE, f"{text}: {_open(judged)}"
    return _passed(band, judged.policy, text)


def _passed(band: RowBand, policy: Policy, text: str) -> tuple[RowVerdict, str]:
    if _too_good(band, policy):
        return RowVerdict.SUSPECT, f"{text}: too good to be believed without a second look"
    improved = (band.delta_floor or 0.0) > IMPROVED_Z * (band.se_floor or math.inf)
    return (RowVerdict.IMPROVED if improved else RowVerdict.PASS), text


def _too_good(band: RowBand, policy: Policy) -> bool:
    se = np.float64(band.se_floor or math.inf)
    return bool(too_good(np.float64(band.delta_floor or 0.0), se, np.float64(band.t_red or 0.0), policy))


def too_good(delta: Floats, se: Floats, t_red: Floats, policy: Policy) -> NDArray[np.bool_]:
    """Return where an improvement is suspicious: ``D − F > ln 1.25`` and beyond the row's own noise, or ``> 8·se``.

    Two clauses are this code's own (STATISTICS §3 has neither). Noise: at a pair SD of 12 % three pairs exceed ln 1.25
    by luck in 4 of 1,000 rows. Margin: a host that cannot exclude a loss of half has no right to suspect a gain of a
    third (seen on the demo host: 1.34× in an equal release), so the quarter widens to the margin's own mirror image;
    classes A and B keep it.
    """
    least, mirror = -math.log1p(-policy.delta), -math.log1p(-policy.margin)
    plain = np.fmax(max(math.log(SUSPECT_RATIO), mirror), t_red * se)  # a method without t has no noise to exceed
    return np.asarray((delta > plain) | (delta > np.maximum(SUSPECT_WIDTHS * se, least)))


_CHANGED = {
    Family.RATE: "is {x:.2f}× what {release} had",
    Family.LATENCY: "takes {x:.2f}× what {release} took",
    Family.MEMORY: "needs {x:.2f}× what {release} needed",
}


def change_of(row: RowId, delta: float, release: str) -> str:
    """Say an oriented log ratio against a release in the metric's own words: ``takes 1.92× what 1.0.0 took``."""
    return _CHANGED[row.kind.family].format(x=math.exp(row.kind.sign * delta), release=release)


def _against(row: RowId, band: RowBand, floor: Reference) -> str:
    folded = " raised to the target it met" if band.folded else ""
    numbers = (
        f"floor {math.exp(band.floor or 0.0):.2f}{folded}, band ±{percent(band.band_fraction or 0.0)}, {band.n} pairs"
    )
    return f"{change_of(row, band.delta_floor or 0.0, floor.release)} ({numbers})"


def _against_last(judged: Judged) -> str:
    last, band = judged.references.last, judged.band
    release = last.release if last else "the last release"
    limit = math.exp(band.threshold_last or 0.0)
    text = f"{change_of(judged.data.row, band.delta_last or 0.0, release)}, the last release"
    return f"{text} (limit {limit:.2f}, {band.n} pairs)"


def _open(judged: Judged) -> str:
    band, policy = judged.band, judged.policy
    could = -math.expm1(band.lower or 0.0)
    text = f"a loss of {percent(could)} cannot be excluded, margin {percent(policy.margin)}"
    if judged.needing:
        return f"{text}; more pairs are wanted"
    need = _pairs_needed(band, judged)
    return f"{text}; about {need} pairs would decide it" if need else f"{text}; more pairs alone will not decide it"


def _pairs_needed(band: RowBand, judged: Judged) -> int | None:
    """Return how many pairs would pass this row if its estimate stayed; None if no number up to 200 does."""
    floor = judged.references.floor
    if floor is None or band.delta_floor is None or band.u_pass is None:
        return None
    for n in range(band.n + 1, MOST_PAIRS + 1):
        se = math.sqrt(band.sd**2 * (1 / n + 1 / floor.n) + 2 * judged.policy.tau**2)
        if band.delta_floor - band.u_pass * se > math.log1p(-judged.policy.margin):
            return n
    return None

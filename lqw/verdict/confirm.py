"""Confirmation by a third arm: whether the candidate is slower or the machine has moved (STATISTICS §3).

What went RED, and what is too good to be believed, is measured once more in tuples of candidate, comparator and the
release that set the reference. If the older binary has fallen as far as the candidate, the engine is not to blame.

Two clauses are this code's own. The batch's scatter: s̃ of the run is never taken for less than the standard deviation
of candidate against older release in the batch itself, whose machine may be louder by now. The size of a gain: a
suspicious improvement must not only repeat its sign but come back as large as it was, or half of it was the machine.

A target that a release met stands above the floor of an older one, which the batch measures. What the candidate is held
to there is not the older release but the target's distance from its floor: ``D_c − D_rel < ln T − F − limit``, and F's
own error, ``s̃²/n_F + τ²``, is part of the limit (docs/methodology.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from lqw.noise.pairs import pair_rows
from lqw.noise.quantiles import t_isf
from lqw.outcomes import Arm, BatchArm, RowVerdict
from lqw.plan import BATCH_TUPLES
from lqw.samples import Failure, StartRecord, start_fields
from lqw.verdict.results import Confirmation
from lqw.verdict.rows import change_of
from lqw.verdict.suite import TAU_COMMON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lqw.metrics import RowId
    from lqw.noise.rows import RowBand, RowData, RowReferences
    from lqw.samples import Batch, BatchStart
    from lqw.verdict.results import RowResult, SuiteResult

__all__ = ["Beside", "Raised", "asked_of", "batch_rows", "confirm_limit", "confirm_rows", "confirm_suites", "raised_of"]

LEVEL = 0.05  # one-sided: a true loss is far larger than what this batch can see


@dataclass(frozen=True, slots=True)
class Beside:
    """One row in the batch: oriented log ratios of candidate and older release to the same comparator starts."""

    release: str
    candidate: NDArray[np.float64]
    earlier: NDArray[np.float64]

    @property
    def gains(self) -> NDArray[np.float64]:
        """Return candidate against older release, tuple by tuple: the comparator falls out."""
        return self.candidate - self.earlier

    @property
    def difference(self) -> float:
        """Return ``D_c − D_rel``."""
        return float(self.gains.mean())


_Rows = dict[tuple["RowId", str], Beside | Failure]


@dataclass(frozen=True, slots=True)
class Raised:
    """How far a target that was met stands above the floor of the release in the batch; all zero where none does.

    ``by`` is ``ln T − F``; ``share`` is ``1/n_F``, since F is the mean of n_F pairs; ``tau`` is its session's term.
    """

    by: float = 0.0
    share: float = 0.0
    tau: float = 0.0


_AS_IT_IS = Raised()
_NONE: Mapping[RowId, Raised] = MappingProxyType({})


def raised_of(rows: Iterable[RowResult], references: Mapping[RowId, RowReferences], tau: float) -> dict[RowId, Raised]:
    """Return what stands between reference and floor of every row that a target holds."""
    out: dict[RowId, Raised] = {}
    for row in rows:
        band, floor = row.band, references[row.row].floor if row.row in references else None
        if band is not None and band.folded and band.floor is not None and floor is not None:
            out[row.row] = Raised(band.floor - floor.value, 1 / floor.n, tau)
    return out


def confirm_limit(sd: float, nu: float, n: int, raised: Raised = _AS_IT_IS) -> float:
    """Return what a difference must exceed: ``t.isf(.05, ν)·sqrt(s̃²·(2/n + 1/n_F) + τ²)``, both last only if raised."""
    return float(t_isf(LEVEL, nu)) * math.sqrt(sd**2 * (2 / n + raised.share) + raised.tau**2)


def asked_of(rows: Sequence[RowResult], suites: Sequence[SuiteResult]) -> dict[str, tuple[str, ...]]:
    """Return which models a batch must measure, and beside which earlier releases each."""
    asked: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.confirm_with is not None:
            asked[row.row.model].add(row.confirm_with)
    for suite in suites:
        for row in _members(suite, rows) if suite.red else ():
            asked[row.row.model].add(row.floor_release or "")
    return {model: tuple(sorted(releases)) for model, releases in sorted(asked.items())}


def _members(suite: SuiteResult, rows: Iterable[RowResult]) -> list[RowResult]:
    """Return the rows a suite was tested over."""
    tested = [row for row in rows if row.family == suite.family and row.gating]
    return [row for row in tested if row.verdict is not RowVerdict.SUSPECT]


def batch_rows(batch: Batch, rows: Sequence[RowId], *, min_window_s: float) -> _Rows:
    """Return every row of the batch beside every release it was measured with, or why it has no value there."""
    out: _Rows = {}
    for model, releases in batch.declared.against.items():
        mine = [row for row in rows if row.model == model]
        starts = [start for start in batch.starts if start.model == model]
        candidate = _against(starts, BatchArm.CANDIDATE, None, mine, min_window_s)
        for release in releases:
            earlier = _against(starts, BatchArm.EARLIER, release, mine, min_window_s)
            for row in mine:
                found = _beside(release, candidate[row], earlier[row])
                out[row, release] = _ended_by(starts, found) if _lack(found, release) else found
    return out


def _ended_by(starts: Sequence[BatchStart], found: Beside | Failure) -> Beside | Failure:
    """Return the start that ended the batch, where one did: it says more than how many tuples there are."""
    names = {BatchArm.CANDIDATE: "the candidate", BatchArm.COMPARATOR: "the comparator"}
    for start in starts:
        if start.failure is not None:
            return _in_batch(names.get(start.arm, start.release), start.failure)
    return found


def _against(
    starts: Sequence[BatchStart], arm: BatchArm, release: str | None, rows: Sequence[RowId], min_window_s: float
) -> dict[RowId, RowData | Failure]:
    """Pair one arm of the batch with its comparator, by the code that pairs a run."""
    paired = [
        _as_start(start, Arm.COMPARATOR if start.arm is BatchArm.COMPARATOR else Arm.SUBJECT)
        for start in starts
        if start.arm is BatchArm.COMPARATOR or (start.arm is arm and release in (None, start.release))
    ]
    return pair_rows(paired, rows, min_window_s=min_window_s)


def _as_start(start: BatchStart, arm: Arm) -> StartRecord:
    return StartRecord.model_construct(**start_fields(start), arm=arm)


def _beside(release: str, candidate: RowData | Failure, earlier: RowData | Failure) -> Beside | Failure:
    if isinstance(candidate, Failure):
        return _in_batch("the candidate", candidate)
    if isinstance(earlier, Failure):
        return _in_batch(release, earlier)
    return Beside(release, np.array(candidate.d), np.array(earlier.d))


def _in_batch(name: str, failure: Failure) -> Failure:
    return failure.model_copy(update={"detail": f"in the batch, {name}: {failure.detail}"[:4_000]})


def confirm_rows(
    rows: Sequence[RowResult], measured: _Rows, raised: Mapping[RowId, Raised] = _NONE
) -> tuple[RowResult, ...]:
    """Return the rows with what the batch says of those that asked for it; *raised* is of :func:`raised_of`."""
    return tuple(row if row.confirm_with is None else _confirmed(row, measured, _held(row, raised)) for row in rows)


def _held(row: RowResult, raised: Mapping[RowId, Raised]) -> Raised:
    """Return what raises a row's own reference; RED by the last release is held against that one, which none raises."""
    found = raised.get(row.row)
    return _AS_IT_IS if found is None or row.band is None or row.band.red_by == "last" else found


def _confirmed(row: RowResult, measured: _Rows, raised: Raised) -> RowResult:
    release, band = row.confirm_with or "", row.band
    found = measured.get((row.row, release))
    lack = _lack(found, release)
    if lack or band is None or not isinstance(found, Beside):
        return row.model_copy(update={"confirmation": Confirmation(state="NOT MEASURED", release=release, text=lack)})
    sd, n = max(band.sd, float(found.gains.std(ddof=1))), len(found.gains)
    loss = row.verdict is RowVerdict.RED
    width = confirm_limit(sd, band.nu, n, raised)
    limit = raised.by - width if loss else raised.by + width
    if loss:
        repeated = found.difference < limit
    else:
        repeated = found.difference > limit and _is_whole(
            found.difference - raised.by, band, confirm_limit(sd, band.nu, n)
        )
    words = f"in {n} tuples: {change_of(row.row, found.difference, release)}, side by side"
    if raised.by:
        words += f", where the target it met asks for {math.exp(row.row.kind.sign * raised.by):.2f}×"
    if repeated:
        verdict, words = (RowVerdict.RED if loss else RowVerdict.IMPROVED), f"CONFIRMED {words}"
    else:
        verdict = RowVerdict.SHIFT
        words = f"NOT CONFIRMED {words}: the machine has moved, not the engine alone"
    confirmation = _numbers(found, limit, repeated=repeated, text=words)
    text = f"{row.text}; {words}"
    return row.model_copy(
        update={"verdict": verdict, "confirmed": repeated, "confirmation": confirmation, "text": text}
    )


def _lack(found: Beside | Failure | None, release: str) -> str:
    """Return why there is nothing to confirm by, or nothing."""
    if found is None:
        return f"{release} was not measured beside it"
    if isinstance(found, Failure):
        return f"{found.reason}: {found.detail}"
    whole = min(len(found.candidate), len(found.earlier))
    return "" if whole >= BATCH_TUPLES else f"{whole} of {BATCH_TUPLES} tuples with {release} were measured"


def _is_whole(gain: float, band: RowBand, limit: float) -> bool:
    """Return whether the batch's gain is not smaller than the run's by more than chance."""
    t = float(t_isf(LEVEL, band.nu))
    return (band.delta_floor or 0.0) - gain < t * math.hypot(band.se_floor or math.inf, limit / t)


def _numbers(found: Beside, limit: float, *, repeated: bool, text: str) -> Confirmation:
    return Confirmation(
        state="CONFIRMED" if repeated else "NOT CONFIRMED",
        release=found.release,
        n=len(found.gains),
        candidate_ratio=math.exp(float(found.candidate.mean())),
        earlier_ratio=math.exp(float(found.earlier.mean())),
        difference=math.exp(found.difference),
        limit=math.exp(limit),
        text=text,
    )


def confirm_suites(
    suites: Sequence[SuiteResult],
    rows: Sequence[RowResult],
    measured: _Rows,
    raised: Mapping[RowId, Raised] = _NONE,
) -> tuple[SuiteResult, ...]:
    """Return the families with what the batch says of those that are RED.

    ``G_c = mean_r(D_c − D_rel)`` confirms below ``−t.isf(.05, ν)·sqrt(V)``, where V is the larger of the two variances
    :func:`lqw.verdict.suite.suite_tests` knows: rows as independent, ``Σ s̃²·2/n / m²``, and rows of one model sharing
    the luck of their starts, ``Σ_models w²·s²_mean·2/n`` with ``ν = Σ(n − 1)``. Rows whose reference a target raised
    move the limit by ``mean_r(ln T − F)`` and bring F's error: ``1/n_F`` beside ``2/n``, and τ_c² of their share.
    """
    return tuple(_suite(suite, _members(suite, rows), measured, raised) if suite.red else suite for suite in suites)


def _suite(
    suite: SuiteResult,
    members: Sequence[RowResult],
    measured: _Rows,
    raised: Mapping[RowId, Raised],
) -> SuiteResult:
    releases = ", ".join(sorted({row.floor_release or "" for row in members}))
    found = [measured.get((row.row, row.floor_release or "")) for row in members]
    lack = next(
        (text for row, one in zip(members, found, strict=True) if (text := _lack(one, row.floor_release or ""))), ""
    )
    valid = [one for one in found if isinstance(one, Beside)]
    if lack or not valid:
        return suite.model_copy(
            update={"confirmation": Confirmation(state="NOT MEASURED", release=releases, text=lack)}
        )
    difference, limit = _suite_test(members, valid, [raised.get(row.row, _AS_IT_IS) for row in members])
    repeated = difference < limit
    words = f"the {suite.family} rows together are at {math.exp(difference):.3f}× {releases}, side by side"
    state: Literal["CONFIRMED", "NOT CONFIRMED"] = "CONFIRMED" if repeated else "NOT CONFIRMED"
    confirmation = Confirmation(
        state=state,
        release=releases,
        n=len(valid[0].gains),
        difference=math.exp(difference),
        limit=math.exp(limit),
        text=f"{state} in {len(valid[0].gains)} tuples: {words}",
    )
    return suite.model_copy(update={"confirmation": confirmation})


def _suite_test(members: Sequence[RowResult], found: Sequence[Beside], raised: Sequence[Raised]) -> tuple[float, float]:
    """Return G_c and what it must lie below."""
    m, n = len(found), len(found[0].gains)
    by_model: Mapping[str, list[tuple[Beside, Raised]]] = defaultdict(list)
    for row, one, above in zip(members, found, raised, strict=True):
        by_model[row.row.model].append((one, above))
    independent = sum(
        (row.band.sd if row.band else 0.0) ** 2 * (2 / n + above.share)
        for row, above in zip(members, raised, strict=True)
    )
    shared = sum(_shared(rows, m, n) for rows in by_model.values())
    session = (TAU_COMMON * sum(above.by > 0 for above in raised) / m) ** 2  # one moves them all
    nu = (n - 1) * len(by_model)
    width = float(t_isf(LEVEL, nu)) * math.sqrt(max(independent / m**2, shared) + session)
    level = sum(above.by for above in raised) / m
    return float(np.mean([one.difference for one in found])), level - width


def _shared(rows: Sequence[tuple[Beside, Raised]], m: int, n: int) -> float:
    """Return a model's part of Var(G_c): its rows share the luck of their starts, in the batch and in their floors."""
    spread = float(np.var(np.mean([one.gains for one, _ in rows], axis=0), ddof=1))
    known = sum(math.sqrt(above.share) for _, above in rows) / len(rows)
    return (len(rows) / m) ** 2 * spread * (2 / n + known**2)

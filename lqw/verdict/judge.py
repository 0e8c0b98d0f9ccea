"""The one judge: collect, notebooks, verifier and self-test all ask this function, so that no two places can disagree.

Order of evaluation (STATISTICS §6), failing closed at each step: integrity and order of starts, epoch, completeness,
engines, correctness voids, comparator and null guards, rows, suites; targets are published and never block.

A RED row makes the run RED whatever else is missing: both block, and RED says more. Only a run that cannot tell two
engines apart (null control) or that does not verify says nothing about rows.

Confirmation by a third arm (:mod:`lqw.verdict.confirm`) has its place between rows and outcome: a RED that the batch
repeats is confirmed, one that it does not repeat becomes SHIFT, and one without a batch stays RED, unconfirmed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lqw.noise.band import band_table
from lqw.noise.pairs import complete_pairs, pair_rows, row_problem
from lqw.noise.rows import RowData, RowReferences
from lqw.outcomes import Outcome, Purpose, Reason, RowState, RowVerdict
from lqw.samples import Failure
from lqw.verdict.confirm import asked_of, batch_rows, confirm_rows, confirm_suites, raised_of
from lqw.verdict.guards import comparator_history, null_control, one_token_prefill
from lqw.verdict.order import order_findings
from lqw.verdict.results import Counts, GuardFinding, Judgement, RowResult
from lqw.verdict.rows import BLOCKING, Judged, row_result, unmeasured, void
from lqw.verdict.sanity import bimodality, dispersion, drift
from lqw.verdict.sentence import Findings, reasons_of, sentence_of
from lqw.verdict.sequence import Replay, replay
from lqw.verdict.suite import suite_tests
from lqw.verdict.targets import folded_targets, target_of
from lqw.verdict.timing import bursts, client_error, clocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.metrics import RowId
    from lqw.verdict.evidence import Evidence

__all__ = ["judge"]

_NO_REFERENCES = RowReferences()


@dataclass(frozen=True, slots=True)
class _Measured:
    """The planned rows, sorted by what became of them."""

    valid: dict[RowId, RowData]  # measured, not void
    void: dict[RowId, RowData]  # measured, void
    failed: dict[RowId, Failure]
    pairs: dict[str, int]


def judge(evidence: Evidence) -> Judgement:
    """Judge a run by its samples alone.

    Parameters
    ----------
    evidence : Evidence
        Plan, starts, correctness voids, references and targets. Starts may be incomplete: the judgement then says
        which models need more pairs.

    Returns
    -------
    Judgement
        One result for every planned row; pure, without clock or chance: equal evidence, equal judgement.
    """
    evidence = _with_session_term(evidence)
    plan = evidence.plan
    measured = _measure(evidence)
    replayed = _replay(evidence, measured)
    guards = _guards(evidence, measured, replayed)
    suspects = {g.subject: g.text for g in guards if g.guard == "comparator_history" and g.effect == "undecided"}
    flags = _flags(guards)
    rows = tuple(
        _result(row, evidence, measured, replayed, suspects).model_copy(update={"flags": flags.get(str(row), ())})
        for row in plan.rows
    )
    judged = {r.row: replayed.bands[r.row] for r in rows if r.gating and r.verdict is not RowVerdict.SUSPECT}
    suites = suite_tests(measured.valid, judged, evidence.standing.references) if judged else ()
    asked = {} if replayed.needing or _is_blind(evidence, guards) else asked_of(rows, suites)
    if asked and evidence.batch is not None:
        beside = batch_rows(evidence.batch, plan.rows, min_window_s=evidence.min_window_s)
        raised = raised_of(rows, evidence.standing.references, plan.policy.tau)
        rows, suites = confirm_rows(rows, beside, raised), confirm_suites(suites, rows, beside, raised)
    counts = _counts(rows)
    dropped = [str(row) for row in evidence.standing.dropped] if plan.purpose is Purpose.GATE else []
    found = Findings(evidence.problems, rows, suites, guards, dropped)
    outcome = _outcome(evidence, found, counts)
    return Judgement(
        purpose=plan.purpose,
        release=plan.release,
        outcome=outcome,
        sentence=sentence_of(plan, outcome, found, counts),
        reasons=reasons_of(found),
        counts=counts,
        rows=rows,
        suites=suites,
        guards=tuple(guards),
        pairs={model: measured.pairs.get(model, 0) for model in plan.orders},
        look=max((band.look for band in replayed.bands.values()), default=0),
        pairs_saved=sum(max(plan.max_pairs - measured.pairs.get(model, 0), 0) for model in plan.orders)
        if not replayed.needing
        else 0,
        models_needing_pairs=replayed.needing,
        confirming=asked,
        method=plan.policy.method,
    )


def _with_session_term(evidence: Evidence) -> Evidence:
    """Put the epoch's own τ into the policy where five sessions of one release have shown it."""
    tau = evidence.standing.tau
    if tau is None:
        return evidence
    return replace(evidence, plan=replace(evidence.plan, policy=replace(evidence.plan.policy, tau=tau)))


def _measure(evidence: Evidence) -> _Measured:
    plan = evidence.plan
    starts = [start for start in evidence.starts if start.model in plan.orders]
    formed = pair_rows(starts, plan.rows, min_window_s=evidence.min_window_s)
    valid: dict[RowId, RowData] = {}
    voided: dict[RowId, RowData] = {}
    failed: dict[RowId, Failure] = {}
    for row, data in formed.items():
        if isinstance(data, Failure):
            failed[row] = data
        elif row in evidence.voids:
            voided[row] = data
        elif (problem := row_problem(data.first(plan.pairs_at(0)))) is not None:
            failed[row] = problem  # what the first look sees must stand by itself
        else:
            valid[row] = data
    return _Measured(valid, voided, failed, complete_pairs(starts))


def _replay(evidence: Evidence, measured: _Measured) -> Replay:
    plan, standing = evidence.plan, evidence.standing
    m = len(plan.rows)
    if plan.purpose is Purpose.ADOPT:
        wanted = plan.policy.floor_pairs
        needing = tuple(sorted(_short_of(wanted, evidence, measured)))
        data = [row.first(wanted) for row in measured.valid.values()]
        bands = band_table(data, {}, plan.policy, look=0, m=m)
        return Replay(bands, needing)
    folded = folded_targets(standing.targets_met, evidence.targets)
    out = replay(measured.valid, standing.references, plan.policy, m=m, available=measured.pairs, folded=folded)
    unseen = _short_of(plan.pairs_at(0), evidence, measured)
    return Replay(out.bands, tuple(sorted(unseen | set(out.needing))))


def _short_of(pairs: int, evidence: Evidence, measured: _Measured) -> set[str]:
    """Return the models with fewer than *pairs*, but for those of which every row has failed: more would not help."""
    hopeful = {
        row.model
        for row in evidence.plan.rows
        if row not in measured.failed or measured.failed[row].reason is Reason.TOO_FEW_PAIRS
    }
    return {model for model in hopeful if measured.pairs.get(model, 0) < pairs}


def _guards(evidence: Evidence, measured: _Measured, replayed: Replay) -> list[GuardFinding]:
    plan, policy = evidence.plan, evidence.plan.policy
    used = {row: data.first(replayed.bands[row].n) for row, data in measured.valid.items() if row in replayed.bands}
    out = [GuardFinding(guard="integrity", effect="invalid", subject="run", text=text) for text in evidence.problems]
    out += order_findings(plan, evidence.starts)
    if plan.purpose is Purpose.GATE and evidence.standing.differences:
        out.append(_new_epoch(evidence.standing.differences, evidence.standing.remeasure))
    out += evidence.parity
    out += one_token_prefill(used, evidence.starts, policy)
    out += comparator_history(used, evidence.standing.comparator, policy)
    out += null_control(used, policy, m=len(plan.rows))
    out += drift(used, evidence.starts, policy) + dispersion(used, policy, plan.purpose) + bimodality(used, policy)
    return (
        out
        + clocks(used, evidence.starts)
        + bursts(used, evidence.starts)
        + client_error(used, evidence.client, policy)
    )


def _flags(guards: Sequence[GuardFinding]) -> dict[str, tuple[str, ...]]:
    """Return what guards hold against single rows without deciding anything; the row's own name is left out."""
    out: dict[str, tuple[str, ...]] = {}
    for guard in guards:
        if guard.effect == "flag":
            text = guard.text.removeprefix(f"{guard.subject}: ")
            out[guard.subject] = (*out.get(guard.subject, ()), text)
    return out


def _new_epoch(differences: Sequence[str], setters: Sequence[str]) -> GuardFinding:
    """Say which part of the key changed, and whose floor is to be measured again: no ratio is carried over."""
    text = f"no floor in this epoch: {'; '.join(differences)}"
    if setters:
        text += f"; measure the floor of {', '.join(setters)} again here (lqw baseline adopt)"
    return GuardFinding(guard="epoch", effect="undecided", subject="run", text=text)


def _result(
    row: RowId, evidence: Evidence, measured: _Measured, replayed: Replay, suspects: dict[str, str]
) -> RowResult:
    if row in evidence.voids:
        return void(row, evidence.voids[row], measured.void.get(row))
    if row in measured.failed:
        return unmeasured(row, measured.failed[row])
    band = replayed.bands.get(row)
    if band is None:
        have, want = measured.pairs.get(row.model, 0), evidence.plan.pairs_at(0)
        return unmeasured(
            row, Failure(reason=Reason.TOO_FEW_PAIRS, detail=f"{have} of the first {want} pairs measured")
        )
    standing = evidence.standing
    references = standing.references.get(row)
    judged = Judged(
        data=measured.valid[row],
        band=band,
        references=references if references is not None else _NO_REFERENCES,
        policy=evidence.plan.policy,
        purpose=evidence.plan.purpose,
        needing=row.model in replayed.needing,
        suspect=suspects.get(str(row), ""),
        no_floor="no floor in this epoch; adopt one",
    )
    return row_result(judged, target_of(row, band, evidence.targets, evidence.plan.policy))


def _counts(rows: Sequence[RowResult]) -> Counts:
    states = [row.state for row in rows]
    return Counts(
        planned=len(rows),
        measured=states.count(RowState.MEASURED),
        gating=sum(row.gating for row in rows),
        void=states.count(RowState.VOID),
        failed=states.count(RowState.FAILED) + states.count(RowState.MISSING),
    )


def _cannot_tell(guards: Sequence[GuardFinding]) -> bool:
    return any(guard.guard == "null_control" and guard.effect == "undecided" for guard in guards)


def _is_blind(evidence: Evidence, guards: Sequence[GuardFinding]) -> bool:
    """Return whether nothing the run says of rows counts, so that there is nothing to confirm."""
    return bool(evidence.problems) or _cannot_tell(guards) or any(guard.effect == "invalid" for guard in guards)


def _outcome(evidence: Evidence, found: Findings, counts: Counts) -> Outcome:
    effects = {guard.effect for guard in found.guards}
    if found.problems or "invalid" in effects:
        return Outcome.INVALID
    if _cannot_tell(found.guards):
        return Outcome.UNDECIDED  # the run cannot tell two engines apart: not even a RED of it can be believed
    red = any(row.verdict is RowVerdict.RED for row in found.rows)
    red = red or any(suite.red and not suite.is_shift for suite in found.suites)
    if red or "red" in effects:
        return Outcome.RED
    if evidence.plan.purpose is Purpose.ADOPT:
        wanted = evidence.plan.policy.floor_pairs
        whole = counts.measured == counts.planned > 0 and all(row.n >= wanted for row in found.rows)
        return Outcome.FLOOR if whole and "undecided" not in effects else Outcome.UNDECIDED
    blocked = found.dropped or "undecided" in effects or any(row.verdict in BLOCKING for row in found.rows)
    blocked = blocked or any(suite.is_shift for suite in found.suites)
    return Outcome.UNDECIDED if blocked or counts.gating == 0 else Outcome.PASS

"""From raw records to the verdict: the one path that notebook 40, the receipt builder and the verifier all take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lqw.canonical import sha256_json
from lqw.correctness import CorrectnessResult, IdentityReference, IdentityTask, judge_correctness
from lqw.errors import IntegrityError
from lqw.outcomes import Arm
from lqw.params import Params
from lqw.params.specs import MAX_ROWS
from lqw.plan import Plan, build_plan
from lqw.ratchet.baseline import references_for
from lqw.ratchet.epoch import EpochKey, epoch_key
from lqw.receipt.client import client_of, client_voids
from lqw.receipt.parity import parity_findings
from lqw.receipt.roofline import roofline_of
from lqw.receipt.structure import structure_problems
from lqw.verdict import Evidence, Judgement, Standing, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lqw.metrics import RowId
    from lqw.ratchet.baseline import Baseline
    from lqw.receipt.problems import Problem
    from lqw.samples import Batch, BesideRecord, Header, IdentityRecord, StartRecord

__all__ = ["Inputs", "Rejudged", "epoch_of", "params_of", "previous_of", "rejudge", "standing_for"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a verdict is computed from, and nothing that was computed.

    Attributes
    ----------
    header : Header
        First line of the journal: plan, params, host, model hashes.
    starts, identities, besides : sequences of records
        What engines beside gave is in none of the numbers; only its shape is looked at.
    standing : Standing
        The slice of the baseline this run is judged against.
    reference : IdentityReference or None
        The host's token reference.
    calibration : mapping or None
        What the client's calibration saw (:func:`lqw.receipt.client.client_voids`).
    parity : mapping or None
        Path → content of the parity receipts (:func:`lqw.receipt.parity.read_documents`).
    batch : Batch or None
        The confirmation batch.
    """

    header: Header
    starts: Sequence[StartRecord]
    identities: Sequence[IdentityRecord]
    standing: Standing
    reference: IdentityReference | None = None
    calibration: Mapping[str, Any] | None = None
    parity: Mapping[str, Any] | None = None
    besides: Sequence[BesideRecord] = ()
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The verdict and what led to it. ``problems`` are in the judgement's reasons too, and make it INVALID."""

    params: Params
    plan: Plan
    epoch: EpochKey | None
    correctness: CorrectnessResult
    judgement: Judgement
    problems: tuple[Problem, ...]
    evidence: Evidence
    roofline: dict[str, Any] | None

    @property
    def unblamed(self) -> Judgement:
        """Return what the samples would say if their shape were right: for telling an edit from a faulty run."""
        return judge(self.evidence) if self.problems else self.judgement


def params_of(header: Header) -> Params:
    """Return the typed params a journal's header carries; IntegrityError names the field that is none."""
    try:
        params = Params.model_validate(header.params)
    except ValidationError as err:
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise IntegrityError(f"header.params.{field}: {first['msg']}") from err
    rows = len(params.release.models) * len(params.protocol.rows)
    if rows > MAX_ROWS:
        raise IntegrityError(f"header.params.protocol.rows: {rows} rows over all models, more than {MAX_ROWS}")
    return params


def plan_of(header: Header, params: Params) -> Plan:
    """Return the plan rebuilt from params, purpose and seed.

    The params' hash is that of the params as they are recorded, so that a field added to the params later, with a
    default, leaves old receipts as valid as they were.
    """
    return build_plan(params, header.purpose, params_sha256=sha256_json(header.params))


def epoch_of(header: Header, params: Params, starts: Iterable[StartRecord]) -> EpochKey | None:
    """Return the epoch of a run, or None where no comparator ever became ready."""
    for start in starts:
        if start.arm is Arm.COMPARATOR and start.engine is not None:
            return epoch_key(params, header.host, start.engine, header.models)
    return None


def standing_for(baseline: Baseline | None, header: Header, starts: Sequence[StartRecord]) -> Standing:
    """Return what a baseline says for this run: its epoch's references on the day it started."""
    params = params_of(header)
    epoch = epoch_of(header, params, starts)
    if epoch is None:
        return Standing(differences=("the comparator never became ready, so this run has no epoch",))
    return references_for(baseline, epoch, build_plan(params, header.purpose).rows, day=header.started_utc[:10])


def previous_of(standing: Standing, rows: Iterable[RowId]) -> str | None:
    """Return the sha256 of the receipt this one follows: the last release's, or the floor's before any release."""
    known = [standing.references[row] for row in rows if row in standing.references]
    for reference in (*(one.last for one in known), *(one.floor for one in known)):
        if reference is not None:
            return reference.receipt_sha256
    return None


def rejudge(inputs: Inputs) -> Rejudged:
    """Compute the verdict from raw samples: plan, structure, correctness, rows.

    Raises
    ------
    IntegrityError
        Where the header holds no typed params or no identity task: nothing can be planned, so nothing judged.
    """
    header = inputs.header
    params = params_of(header)
    plan = plan_of(header, params)
    epoch = epoch_of(header, params, inputs.starts)
    problems = structure_problems(
        header, params, plan, inputs.starts, inputs.identities, batch=inputs.batch, besides=inputs.besides
    )
    correctness = judge_correctness(
        inputs.identities,
        inputs.starts,
        inputs.reference,
        plan.rows,
        header.purpose,
        task=IdentityTask.from_header(header),
    )
    evidence = Evidence(
        plan=plan,
        starts=inputs.starts,
        min_window_s=params.protocol.min_window_s,
        voids={**client_voids(inputs.calibration, plan.rows), **correctness.voids},
        standing=inputs.standing,
        targets=params.targets.targets,
        parity=parity_findings(params, header, inputs.starts, inputs.parity),
        batch=inputs.batch,
        client=client_of(inputs.calibration),
    )
    blamed = replace(evidence, problems=[str(problem) for problem in problems])
    judgement = judge(blamed)
    roofline = roofline_of(header, params, judgement)
    return Rejudged(params, plan, epoch, correctness, judgement, problems, evidence, roofline)

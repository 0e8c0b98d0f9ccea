"""Stage 10: plan and measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.errors import UsageError
from lqw.outcomes import Purpose
from lqw.pipeline.artefacts import write_artefact
from lqw.pipeline.runs import JOURNAL, utc_now
from lqw.pipeline.shown import Table
from lqw.pipeline.steps.shared import held_baseline, load_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.collect import CollectSummary
    from lqw.metrics import RowId
    from lqw.pipeline.begin import Run
    from lqw.samples import EngineFacts, Failure, HostFacts
    from lqw.verdict import Standing

__all__ = ["collect", "show_plan", "write_collected"]


def show_plan(run: Run) -> Table:
    """Return the plan: every row that must exist, and what it is taken from."""
    rows = tuple((str(row), row.kind.title, row.kind.unit, str(row.kind.family)) for row in run.plan.rows)
    return Table("Rows this run must account for", ("row", "what", "unit", "family"), rows)


def collect(run: Run) -> CollectSummary:
    """Measure: start engines, time requests, journal every start; resumes what the journal already holds."""
    from lqw.collect import ThirdArm  # noqa: PLC0415 - sockets and engines, for notebook 10 alone
    from lqw.collect import collect as measure  # noqa: PLC0415
    from lqw.params.earlier import load_earlier  # noqa: PLC0415
    from lqw.receipt.beside import held_beside  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    def standing_of(host: HostFacts, comparator: EngineFacts, models: dict[str, str]) -> Standing:
        return _standing_now(run, host, comparator, models)

    return measure(
        run.params,
        run.plan,
        run.folder.path,
        run_id=run.info.run_id,
        standing_of=standing_of,
        third=ThirdArm(
            earlier=load_earlier(Path(run.info.params_file), run.params.host),
            claim=lambda subject, binary: _claim(run, subject, binary),
            voids=lambda calibration: _voids(run, calibration),
            find=held_beside(Store(run.info.store).baseline(run.info.host)),
        ),
        progress=run.progress,
    )


def _claim(run: Run, subject_sha256: str, binary_sha256: str) -> None:
    """Lay this run's claim to the one confirmation batch of its candidate; UsageError where another run has it."""
    from lqw.receipt.claims import BatchClaim, claim_batch  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    claim = BatchClaim(
        run_id=run.info.run_id,
        release=run.params.release.release,
        subject_sha256=subject_sha256,
        binary_sha256=binary_sha256,
        declared_utc=utc_now(),
    )
    claim_batch(Store(run.info.store), run.info.host, claim)


def _voids(run: Run, calibration: Mapping[str, Any]) -> dict[RowId, Failure]:
    """Return the rows of the journal as it is whose numbers will not count: wrong tokens, or a late client."""
    from lqw.journal import read_journal  # noqa: PLC0415
    from lqw.pipeline.steps.tokens import judge_tokens  # noqa: PLC0415
    from lqw.receipt.client import client_voids  # noqa: PLC0415

    tokens = judge_tokens(run, read_journal(run.folder.journal), load_reference(run))
    return {**client_voids(calibration, run.plan.rows), **tokens.voids}


def _standing_now(run: Run, host: HostFacts, comparator: EngineFacts, models: dict[str, str]) -> Standing:
    """Return the standing as soon as the comparator is known; UsageError when a floor would be adopted twice."""
    from lqw.ratchet import epoch_key, references_for  # noqa: PLC0415

    key = epoch_key(run.params, host, comparator, models)
    baseline = held_baseline(run)
    standing = references_for(baseline, key, run.plan.rows, day=run.info.started_utc[:10])
    epoch = baseline.find(key) if baseline is not None else None
    if run.info.purpose is Purpose.ADOPT and epoch is not None:
        waiting = [e for e in epoch.rows.values() if e.improved_by == run.params.release.release]
        if not waiting and all(row in epoch.rows for row in run.plan.rows):
            raise UsageError(
                f"{run.info.store}: every row of this epoch has a floor, set by {epoch.opened_by}",
                remedy="a floor is lowered by a rebase record only; to try something out, give another --store DIR",
            )
    return standing


def write_collected(run: Run, summary: CollectSummary) -> str:
    """Write collect.json; return its sha256."""
    return write_artefact(run.folder, "10_collect", run.info.run_id, summary.to_json(), inputs=[JOURNAL])

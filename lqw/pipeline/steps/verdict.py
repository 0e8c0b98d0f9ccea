"""Stage 40: verdict, receipt and the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.errors import IntegrityError, NothingMeasured, RatchetRed, Undecided
from lqw.outcomes import Outcome
from lqw.pipeline.artefacts import read_artefact
from lqw.pipeline.runs import utc_now
from lqw.pipeline.steps.shared import load_parity, load_standing, rejudged

if TYPE_CHECKING:
    from lqw.pipeline.begin import Run
    from lqw.verdict import Judgement

__all__ = ["conclude", "judge_run", "show_forest", "show_rows", "write_receipt"]


def judge_run(run: Run) -> Judgement:
    """Recompute everything from the raw samples, and refuse artefacts that say otherwise."""
    from lqw.correctness import correctness_to_json  # noqa: PLC0415
    from lqw.journal import read_journal  # noqa: PLC0415
    from lqw.noise import json_form  # noqa: PLC0415

    tokens, bands = (read_artefact(run.folder, s, run.info.run_id) for s in ("20_correctness", "30_noise_band"))
    samples = read_journal(run.folder.journal)
    again = rejudged(run, samples, load_standing(run, samples))
    if correctness_to_json(again.correctness) != tokens["correctness"]:
        raise IntegrityError("correctness.json does not follow from samples.jsonl", remedy="run notebook 20 again")
    if {str(r.row): None if r.band is None else json_form(r.band) for r in again.judgement.rows} != bands["bands"]:
        raise IntegrityError("band.json does not follow from samples.jsonl", remedy="run notebook 30 again")
    return again.judgement


def show_rows(run: Run, judgement: Judgement) -> Any:
    """Return the table of verdicts, row by row."""
    from lqw.report.fragments import rows_table  # noqa: PLC0415
    from lqw.verdict import judgement_to_json  # noqa: PLC0415

    del run
    return rows_table(judgement_to_json(judgement))


def show_forest(run: Run, judgement: Judgement) -> Any:
    """Return all rows against their floors, as a picture."""
    from lqw.report.fragments import forest  # noqa: PLC0415
    from lqw.verdict import judgement_to_json  # noqa: PLC0415

    return forest(judgement_to_json(judgement), margin=run.params.host.margin.fraction)


def write_receipt(run: Run) -> str:
    """Write receipt.json, which verifies before it is written; return its sha256."""
    from lqw.canonical import sha256_file  # noqa: PLC0415
    from lqw.receipt import build_receipt  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    store = Store(run.info.store)
    baseline, reference = store.baseline(run.info.host), store.reference(run.info.host)
    attempt = store.next_attempt(run.info.host, run.params.release.release)
    path = build_receipt(
        run.folder.path,
        baseline=baseline if baseline.is_file() else None,
        reference=reference if reference.is_file() else None,
        finished_utc=utc_now(),
        resumed=[entry.utc for entry in run.info.resumed],
        attempt=attempt.number,
        earlier=attempt.earlier,
        replayed=run.info.replayed is not None,
        parity=load_parity(run),
    )
    return sha256_file(path)


def conclude(judgement: Judgement) -> None:
    """Say the verdict; anything but PASS or a floor fails the process that runs the notebook.

    An exception, not ``assert``: that one is stripped under PYTHONOPTIMIZE, and papermill would exit 0.

    Raises
    ------
    RatchetRed, Undecided, NothingMeasured, IntegrityError
        By outcome.
    """
    said = "\n".join((judgement.sentence, str(judgement.counts), *judgement.reasons))
    if judgement.outcome is Outcome.RED:
        raise RatchetRed(said)
    if judgement.outcome not in (Outcome.PASS, Outcome.FLOOR, Outcome.UNDECIDED):
        raise IntegrityError(said)
    if judgement.counts.measured == 0:
        raise NothingMeasured(said)
    if judgement.outcome is Outcome.UNDECIDED:
        raise Undecided(said)
    print(said)  # noqa: T201 - the notebook's last word

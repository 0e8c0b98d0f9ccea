"""What the notebook cells call: one function a step. Notebooks show and steer, the library does.

Every step takes the :class:`lqw.pipeline.begin.Run` of :func:`begin` first; what it returns can be shown as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lqw.errors import IntegrityError, NothingMeasured, RatchetRed, Undecided, UsageError
from lqw.outcomes import Outcome, Purpose
from lqw.pipeline.artefacts import read_artefact, write_artefact
from lqw.pipeline.begin import Run, begin
from lqw.pipeline.runs import JOURNAL, utc_now
from lqw.pipeline.shown import Table

if TYPE_CHECKING:
    from lqw.collect import CollectSummary
    from lqw.correctness import CorrectnessResult, IdentityReference
    from lqw.journal import Journal
    from lqw.noise import Reference
    from lqw.ratchet import Baseline
    from lqw.receipt import Rejudged
    from lqw.samples import EngineFacts, HostFacts
    from lqw.verdict import Judgement, Standing

__all__ = [
    "begin",
    "collect",
    "conclude",
    "judge_run",
    "judge_tokens",
    "load_reference",
    "load_samples",
    "load_standing",
    "noise_bands",
    "show_bands",
    "show_engines",
    "show_forest",
    "show_plan",
    "show_rows",
    "show_standing",
    "show_starts",
    "show_strips",
    "show_tokens",
    "write_bands",
    "write_collected",
    "write_receipt",
    "write_tokens",
]


# 10_collect -----------------------------------------------------------------------------------------------------


def show_plan(run: Run) -> Table:
    """Return the plan: every row that must exist, and what it is taken from."""
    rows = tuple((str(row), row.kind.title, row.kind.unit, str(row.kind.family)) for row in run.plan.rows)
    return Table("Rows this run must account for", ("row", "what", "unit", "family"), rows)


def collect(run: Run) -> CollectSummary:
    """Measure: start engines, time requests, journal every start; resumes what the journal already holds."""
    from lqw.collect import collect as measure  # noqa: PLC0415 - sockets and engines, for notebook 10 alone

    def standing_of(host: HostFacts, comparator: EngineFacts, models: dict[str, str]) -> Standing:
        return _standing_now(run, host, comparator, models)

    return measure(
        run.params, run.plan, run.folder.path, run_id=run.info.run_id, standing_of=standing_of, progress=run.progress
    )


def _standing_now(run: Run, host: HostFacts, comparator: EngineFacts, models: dict[str, str]) -> Standing:
    """Return the standing as soon as the comparator is known; UsageError when a floor would be adopted twice."""
    from lqw.ratchet import epoch_key, references_for  # noqa: PLC0415

    key = epoch_key(run.params, host, comparator, models)
    baseline = _baseline(run)
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


# 20_correctness -------------------------------------------------------------------------------------------------


def load_samples(run: Run) -> Journal:
    """Read the journal, after checking that it is what stage 10 left."""
    from lqw.journal import read_journal  # noqa: PLC0415

    read_artefact(run.folder, "10_collect", run.info.run_id)
    return read_journal(run.folder.journal)


def show_starts(run: Run, samples: Journal) -> Table:
    """Return one line per engine start, in the order they ran."""
    rows = tuple(
        (
            str(start.position),
            start.model,
            f"{start.pair}",
            str(start.arm),
            "–" if start.ready_s is None else f"{start.ready_s:.2f}",
            f"{start.wall_s:.1f}",
            str(sum(request.role == "timed" for request in start.requests)),
            _trouble(start),
        )
        for start in samples.starts
    )
    header = ("#", "model", "pair", "arm", "ready s", "wall s", "timed requests", "trouble")
    return Table(f"Engine starts of {run.info.run_id}", header, rows, empty="none ran")


def _trouble(start: Any) -> str:
    if start.failure is not None:
        return str(start.failure.reason)
    bad = [str(request.failure.reason) for request in start.requests if request.failure is not None]
    return ", ".join(sorted(set(bad))) or "none"


def show_engines(run: Run, samples: Journal) -> Table:
    """Return what actually ran on each side, as read from the running processes."""
    seen: dict[tuple[str, ...], None] = {}
    for start in samples.starts:
        facts = start.engine
        if facts is not None:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(facts.settings.items()))
            seen[str(start.arm), facts.engine, facts.version, facts.binary_sha256[:12], facts.compute, settings] = None
    header = ("arm", "engine", "version", "binary sha256", "compute", "settings read back")
    return Table(f"Engines on {run.params.host.name}", header, tuple(seen), empty="none became ready")


def load_reference(run: Run) -> IdentityReference | None:
    """Return the token reference of this host, or None where none was ever adopted."""
    from lqw.correctness import parse_reference  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    path = Store(run.info.store).reference(run.info.host)
    return parse_reference(path.read_bytes(), name=str(path)) if path.is_file() else None


def judge_tokens(run: Run, samples: Journal, reference: IdentityReference | None) -> CorrectnessResult:
    """Compare the subject's answers with itself, with the reference and across the timed requests."""
    from lqw.correctness import IdentityTask, judge_correctness  # noqa: PLC0415

    task = IdentityTask.from_header(samples.header)
    return judge_correctness(samples.identities, samples.starts, reference, run.plan.rows, run.info.purpose, task=task)


def show_tokens(run: Run, tokens: CorrectnessResult) -> Any:
    """Return the table of checks: what agreed, what was flagged, what voids rows."""
    from lqw.correctness import correctness_to_json  # noqa: PLC0415
    from lqw.report.fragments import checks_table  # noqa: PLC0415

    del run
    return checks_table(correctness_to_json(tokens))


def write_tokens(run: Run, tokens: CorrectnessResult) -> str:
    """Write correctness.json; return its sha256."""
    from lqw.correctness import correctness_to_json  # noqa: PLC0415

    body = {"correctness": correctness_to_json(tokens)}
    return write_artefact(run.folder, "20_correctness", run.info.run_id, body, inputs=[JOURNAL, "collect.json"])


# 30_noise_band --------------------------------------------------------------------------------------------------


def load_standing(run: Run, samples: Journal) -> Standing:
    """Return floors, last values and histories of this run's epoch, by the verifier's own rule."""
    from lqw.receipt import standing_for  # noqa: PLC0415

    return standing_for(_baseline(run), samples.header, samples.starts)


def _baseline(run: Run) -> Baseline | None:
    from lqw.ratchet import parse_baseline  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    path = Store(run.info.store).baseline(run.info.host)
    return parse_baseline(path.read_bytes(), name=str(path)) if path.is_file() else None


def show_standing(run: Run, standing: Standing) -> Table:
    """Return floor and last value of every row, or why there is none."""
    if standing.differences:
        why = tuple((difference,) for difference in standing.differences)
        return Table("No floor in this epoch", ("because",), why)
    rows = tuple(
        (str(row), *_point(references.floor), *_point(references.last))
        for row in run.plan.rows
        if (references := standing.references.get(row)) is not None
    )
    return Table("Floors of this epoch", ("row", "floor", "set by", "last", "release"), rows, empty="none")


def _point(reference: Reference | None) -> tuple[str, str]:
    return ("–", "–") if reference is None else (f"{math.exp(reference.value):.3f}", reference.release)


def noise_bands(run: Run, samples: Journal, standing: Standing) -> Judgement:
    """Return the judge's view of pairs and noise; its verdicts are notebook 40's matter."""
    read_artefact(run.folder, "20_correctness", run.info.run_id)
    return _rejudged(run, samples, standing).judgement


def _rejudged(run: Run, samples: Journal, standing: Standing) -> Rejudged:
    """Return what follows from the raw samples: the one path of notebooks, receipt and verifier."""
    from lqw.receipt import Inputs, rejudge  # noqa: PLC0415

    collected = read_artefact(run.folder, "10_collect", run.info.run_id)
    return rejudge(
        Inputs(
            header=samples.header,
            starts=samples.starts,
            identities=samples.identities,
            standing=standing,
            reference=load_reference(run),
            calibration=collected.get("calibration"),
        )
    )


def show_bands(run: Run, bands: Judgement) -> Table:
    """Return the noise of every row: pairs, scatter of one pair, degrees of freedom, and the band round its floor."""
    rows = []
    for result in bands.rows:
        band = result.band
        if band is None:
            rows.append((str(result.row), str(result.n), "–", "–", "–", "–", str(result.state)))
            continue
        width = "no floor" if band.band_fraction is None else f"−{band.band_fraction:.1%}"
        floor = "–" if result.floor_ratio is None else f"{result.floor_ratio:.3f}"
        rows.append((str(result.row), str(band.n), f"{band.sd:.1%}", f"{band.nu:.1f}", floor, width, str(result.state)))
    header = ("row", "pairs", "SD of a pair", "ν", "floor ratio", "band", "state")
    return Table(f"Noise at look {bands.look + 1} of {run.plan.n_looks}", header, tuple(rows))


def show_strips(run: Run, bands: Judgement) -> Any:
    """Return the paired values of every row in run order."""
    from lqw.report.fragments import strips  # noqa: PLC0415
    from lqw.verdict import judgement_to_json  # noqa: PLC0415

    del run
    return strips(judgement_to_json(bands))


def write_bands(run: Run, bands: Judgement, standing: Standing) -> str:
    """Write band.json; return its sha256."""
    from lqw.noise import json_form  # noqa: PLC0415
    from lqw.verdict import standing_to_json  # noqa: PLC0415

    body = {
        "bands": {str(row.row): None if row.band is None else json_form(row.band) for row in bands.rows},
        "pairs": bands.pairs,
        "look": bands.look,
        "standing": standing_to_json(standing),
    }
    return write_artefact(run.folder, "30_noise_band", run.info.run_id, body, inputs=[JOURNAL, "correctness.json"])


# 40_verdict -----------------------------------------------------------------------------------------------------


def judge_run(run: Run) -> Judgement:
    """Recompute everything from the raw samples, and refuse artefacts that say otherwise."""
    from lqw.correctness import correctness_to_json  # noqa: PLC0415
    from lqw.journal import read_journal  # noqa: PLC0415
    from lqw.noise import json_form  # noqa: PLC0415

    tokens, bands = (read_artefact(run.folder, s, run.info.run_id) for s in ("20_correctness", "30_noise_band"))
    samples = read_journal(run.folder.journal)
    again = _rejudged(run, samples, load_standing(run, samples))
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

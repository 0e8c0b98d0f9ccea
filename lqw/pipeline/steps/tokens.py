"""Stage 20: what ran, and whether its answers are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.pipeline.artefacts import read_artefact, write_artefact
from lqw.pipeline.runs import JOURNAL
from lqw.pipeline.shown import Table

if TYPE_CHECKING:
    from lqw.correctness import CorrectnessResult, IdentityReference
    from lqw.journal import Journal
    from lqw.pipeline.begin import Run

__all__ = ["judge_tokens", "load_samples", "show_engines", "show_starts", "show_tokens", "write_tokens"]


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

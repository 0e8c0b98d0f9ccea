"""The whole of stage 10: preflight, header or resume, calibration, identity, then pairs until the judge has enough.

The journal is the only state. What it holds is not measured again, so that resuming and starting are one code path.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.collect.arms import Site
from lqw.collect.batch import ConfirmBatch
from lqw.collect.beside import measure_beside
from lqw.collect.calibrate import Calibration, Load, calibrate_patiently, null_server
from lqw.collect.header import make_header, refuse_other_run
from lqw.collect.kept import KEPT, calibrated_once
from lqw.collect.looks import Looks
from lqw.collect.preflight import corpus_text, preflight
from lqw.collect.prompts import PromptStore
from lqw.collect.summary import CollectSummary
from lqw.collect.watch import watched_gpu
from lqw.engines.environment import scrubbed
from lqw.engines.models import resolve_models
from lqw.journal import JournalWriter, read_journal
from lqw.outcomes import Arm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lqw.collect.batch import ThirdArm
    from lqw.collect.looks import StandingOf
    from lqw.params import Params
    from lqw.plan import Plan
    from lqw.samples import Header

__all__ = ["calibrated", "collect", "worst_load"]

JOURNAL = "samples.jsonl"


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that the engine that runs is stopped and the journal stays whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def worst_load(params: Params, gap_ms: float | None = None) -> Load:
    """Return the protocol's worst load: all streams at once, faster than any engine of this class of host."""
    streams = max(step.streams for step in params.protocol.steps)
    return Load(streams, gap_ms or (2.0 if params.host.compute == "cuda" else 5.0), tokens=40, rounds=5)


def calibrated(site: Site, load: Load) -> Calibration:
    """Calibrate the client on this machine at *load*."""
    with null_server(site.run_id, site.log_path("null_server")) as target:
        found = calibrate_patiently(target, load)
    for flag in found.flags:
        site.progress({"event": "note", "text": f"calibration: {flag}"})
    return found


def tell_kept_away(site: Site) -> None:
    """Say which variables of this shell no engine gets: somebody may have meant them, though hardly Python's own."""
    own = {name: "" for arm in Arm for name in site.spec(arm).env}
    if names := [name for name in scrubbed(os.environ, own).dropped if not name.startswith("PYTHON")]:
        text = f"set here and kept from the engines: {', '.join(names)}; what is meant stands in `env` of the release"
        site.progress({"event": "note", "text": text})


def _base_ns(header: Header) -> int:
    """Return the ``perf_counter_ns`` of the moment the run began, also when that was in another process."""
    began = datetime.fromisoformat(header.started_utc)
    return time.perf_counter_ns() - int((datetime.now(UTC) - began).total_seconds() * 1e9)


def _idle_s(journal: Path) -> float:
    """Return how long ago the last record was written; to open the file may already change it."""
    return time.time() - journal.stat().st_mtime if journal.is_file() else math.inf


def _opened(writer: JournalWriter, header: Header) -> Header:
    """Write the header of a new journal, or prove that an old one is this run's; return the one that stands."""
    if writer.is_empty:
        writer.append(header)
        return header
    journal = read_journal(writer.path)
    refuse_other_run(writer.path, journal, header)
    return journal.header


def collect(
    params: Params,
    plan: Plan,
    run_dir: Path,
    *,
    run_id: str,
    standing_of: StandingOf,
    third: ThirdArm,
    progress: Callable[[dict[str, Any]], None],
) -> CollectSummary:
    """Measure everything the plan asks for and the journal does not yet hold.

    Parameters
    ----------
    params, plan
        What is measured; the plan follows from the params.
    run_dir : path
        Its ``samples.jsonl`` is the journal, made or resumed; ``prompts.json`` and ``logs/`` are written beside it.
    run_id : str
    standing_of : callable
        Gives the references of this epoch. Called once, when the comparator is known; what it raises ends the run.
    third : ThirdArm
        Engines of earlier releases, for the confirmation of what goes RED.
    progress : callable
        Takes one event (a dict) at a time.

    Raises
    ------
    ParamsError, UsageError
        Before anything was started.
    HostBusy
        Another process writes the journal, or computes on the GPU before or while a start is measured.
    IntegrityError
        The journal in *run_dir* is another run's, or an arm's binary changed within the run.
    KeyboardInterrupt
        On SIGINT or SIGTERM, after the running engine was stopped.
    """
    began = time.monotonic()
    run_dir = Path(run_dir)
    idle_s = _idle_s(run_dir / JOURNAL)
    preflight(params, plan.purpose)
    gpu = watched_gpu(params.host)
    models = resolve_models(params, _cache_folder(run_dir))
    with _terminable(), JournalWriter(run_dir / JOURNAL) as writer:
        header = _opened(writer, make_header(params, plan, run_id, models))
        site = Site(
            params=params,
            run_dir=run_dir,
            run_id=run_id,
            models=models,
            prompts=PromptStore(run_dir / "prompts.json"),
            corpus=corpus_text(params),
            base_ns=_base_ns(header),
            gpu=gpu,
            progress=progress,
        )
        tell_kept_away(site)
        load = worst_load(params)
        calibration = calibrated_once(run_dir / KEPT, load, idle_s=idle_s, calibrate=lambda: calibrated(site, load))
        looks = Looks(site, plan, writer, header, standing_of)
        looks.ask_identity()
        looks.measure()
        ConfirmBatch(site, looks, third, read_journal(writer.path).batch, calibration.to_json()).measure()
        besides = measure_beside(
            site, writer, read_journal(writer.path).besides, position=looks.position, pace=looks.pace
        )
    return CollectSummary.of(
        looks.tally,
        list(looks.starts.values()),
        list(looks.identities.values()),
        besides=besides,
        prompts=site.prompts,
        calibration=calibration,
        wall_s=time.monotonic() - began,
    )


def _cache_folder(run_dir: Path) -> Path:
    """Return where packaged models are put together: beside the runs, once for all of them."""
    return run_dir.resolve().parent / "models"

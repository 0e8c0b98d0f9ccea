"""The whole of stage 10: preflight, header or resume, calibration, identity, then pairs until the judge has enough.

The journal is the only state. What it holds is not measured again, so that resuming and starting are one code path.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.collect.arms import Site, identity_start, timed_start
from lqw.collect.calibrate import Calibration, Load, calibrate, null_server
from lqw.collect.header import make_header, refuse_other_binary, refuse_other_run
from lqw.collect.preflight import corpus_text, preflight
from lqw.collect.prompts import PromptStore
from lqw.collect.summary import CollectSummary, Tally
from lqw.engines.models import resolve_model
from lqw.journal import JournalWriter, read_journal
from lqw.outcomes import Arm
from lqw.verdict import Evidence, Standing, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lqw.params import Params
    from lqw.plan import Plan, StartKey
    from lqw.samples import EngineFacts, Header, HostFacts, IdentityRecord, StartRecord

    StandingOf = Callable[[HostFacts, EngineFacts, dict[str, str]], Standing]

__all__ = ["collect"]

JOURNAL = "samples.jsonl"
FAILED_STARTS_IN_A_ROW = 2
"""An arm that fails to start this often in a row is given up for its model: the rest of the night is worth more."""

PACE_STARTS = 6  # the pace is that of the last few starts


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


class _Session:
    """One run of stage 10; see :func:`collect`."""

    def __init__(self, site: Site, plan: Plan, writer: JournalWriter, header: Header, standing_of: StandingOf) -> None:
        self._site, self._plan, self._writer, self._header = site, plan, writer, header
        self._standing_of = standing_of
        self._standing: Standing | None = None
        self._deadline = time.monotonic() + site.params.protocol.total_deadline_s
        journal = read_journal(writer.path)
        self._starts: dict[StartKey, StartRecord] = {}
        self._identities = {record.model: record for record in journal.identities}
        self._position = journal.next_position
        self._binaries: dict[Arm, EngineFacts] = {}
        self.tally = Tally(resumed_at=self._position or None)
        self._mark_resumed = self._position > 0
        for start in journal.starts:
            self._take(start)

    # records ------------------------------------------------------------------------------------------------------

    def _take(self, start: StartRecord) -> None:
        from lqw.plan import StartKey  # noqa: PLC0415 - a runtime use of one name

        self._starts[StartKey(start.model, start.pair, start.arm, start.launch)] = start
        self._same_binary(start.arm, start.engine)

    def _same_binary(self, arm: Arm, engine: EngineFacts | None) -> None:
        if engine is not None:
            refuse_other_binary(self._writer.path, arm, self._binaries.setdefault(arm, engine), engine)

    def _write(self, record: StartRecord | IdentityRecord) -> None:
        self._writer.append(record)
        self._position += 1

    # identity -----------------------------------------------------------------------------------------------------

    def identities(self) -> None:
        """Ask the subject for its answers, model by model, where the journal does not have them."""
        for model in self._plan.orders:
            if model not in self._identities:
                self._site.progress({"event": "identity", "model": model})
                record = identity_start(self._site, model, self._position)
                self._same_binary(Arm.SUBJECT, record.engine)
                self._write(record)
                self._identities[model] = record

    # pairs --------------------------------------------------------------------------------------------------------

    def looks(self) -> None:
        """Measure up to each look, and go on with the models the judge is not sure of."""
        needing = tuple(self._plan.orders)
        planned = self._planned(needing, 0)
        self._site.progress({"event": "plan", "starts_planned": planned, "rows_planned": len(self._plan.rows)})
        for look in range(self._plan.n_looks):
            for model in needing:
                self._measure(model, look, needing)
            needing = tuple(m for m in self._needing() if m not in self.tally.given_up)
            self.tally.looks = look + 1
            more = look + 1 < self._plan.n_looks
            if not more:
                needing = ()
            planned = self._planned(needing, look + 1) if needing else len(self._starts)
            event = {"event": "look", "look": look + 1, "needing": list(needing), "starts_planned": planned}
            self._site.progress(event)
            if not needing or self.tally.deadline_hit:
                return

    def _planned(self, needing: tuple[str, ...], look: int) -> int:
        a_pair = 2 * len(self._site.params.protocol.launches)
        wanted = {model: self._plan.pairs_at(look) * a_pair for model in needing}
        done = {m: sum(1 for key in self._starts if key.model == m) for m in self._plan.orders}
        return sum(max(wanted.get(model, 0), done[model]) for model in self._plan.orders)

    def _measure(self, model: str, look: int, needing: tuple[str, ...]) -> None:
        for pair in range(1, self._plan.pairs_at(look) + 1):
            for key in self._plan.starts(model, pair, self._site.params.protocol.launches):
                if key in self._starts:
                    continue
                if model in self.tally.given_up or self._out_of_time():
                    return
                self._one(key, look, self._planned(needing, look))

    def _one(self, key: StartKey, look: int, planned: int) -> None:
        facts = {"model": key.model, "pair": key.pair, "arm": str(key.arm), "launch": key.launch}
        engine = self._site.spec(key.arm).engine
        self._site.progress(
            {"event": "start", **facts, "look": look + 1, "engine": engine, "eta_s": self._eta(planned)}
        )
        telemetry: dict[str, Any] = {"resumed": True} if self._mark_resumed else {}
        record = timed_start(self._site, key, self._position, telemetry)
        self._take(record)
        self._write(record)
        self._mark_resumed = False
        self._give_up_if_hopeless(key.model, key.arm)
        failure = str(record.failure.reason) if record.failure is not None else None
        counts = {"starts_done": len(self._starts), "starts_planned": planned, "rows_done": self._rows_done(look)}
        end = {**facts, "wall_s": round(record.wall_s, 3), "failure": failure, **counts, "eta_s": self._eta(planned)}
        self._site.progress({"event": "end", **end})

    def _rows_done(self, look: int) -> int:
        """Return how many rows have all the pairs of this look."""
        a_pair, wanted = 2 * len(self._site.params.protocol.launches), self._plan.pairs_at(look)
        done = {m: sum(1 for k in self._starts if k.model == m) >= wanted * a_pair for m in self._plan.orders}
        return sum(1 for row in self._plan.rows if done[row.model])

    def _eta(self, planned: int) -> float | None:
        last = [start.wall_s for start in list(self._starts.values())[-PACE_STARTS:]]
        return round((planned - len(self._starts)) * sum(last) / len(last), 1) if last else None

    def _give_up_if_hopeless(self, model: str, arm: Arm) -> None:
        mine = [start for key, start in self._starts.items() if key.model == model and key.arm is arm]
        last = mine[-FAILED_STARTS_IN_A_ROW:]
        if len(last) == FAILED_STARTS_IN_A_ROW and all(s.failure is not None and s.ready_s is None for s in last):
            text = f"{model}: the {arm} failed to start {FAILED_STARTS_IN_A_ROW} times in a row; it is given up"
            self.tally.given_up[model] = text
            self._site.progress({"event": "note", "text": text})

    def _out_of_time(self) -> bool:
        last = [start.wall_s for start in list(self._starts.values())[-PACE_STARTS:]]
        if time.monotonic() + (max(last) if last else 0.0) > self._deadline:
            if not self.tally.deadline_hit:
                limit = self._site.params.protocol.total_deadline_s
                self._site.progress(
                    {"event": "note", "text": f"the deadline of {limit:g} s does not bear another start"}
                )
            self.tally.deadline_hit = True
        return self.tally.deadline_hit

    def _needing(self) -> tuple[str, ...]:
        comparator = self._binaries.get(Arm.COMPARATOR)
        if self._standing is None and comparator is not None:
            self._standing = self._standing_of(self._header.host, comparator, self._header.models)
        params = self._site.params
        evidence = Evidence(
            plan=self._plan,
            starts=tuple(self._starts.values()),
            min_window_s=params.protocol.min_window_s,
            standing=self._standing or Standing(),
            targets=params.targets.targets,
        )
        return judge(evidence).models_needing_pairs

    # result -------------------------------------------------------------------------------------------------------

    def summary(self, calibration: Calibration, wall_s: float) -> CollectSummary:
        """Return what became of the stage."""
        return CollectSummary.of(
            self.tally, list(self._starts.values()), list(self._identities.values()), self._site.prompts, calibration,
            wall_s,
        )  # fmt: skip


def _calibrated(site: Site) -> Calibration:
    """Calibrate at the protocol's worst load: all streams at once, faster than any engine of this class of host."""
    params = site.params
    streams = max(step.streams for launch in params.protocol.launches for step in launch.steps)
    gap_ms = 2.0 if params.host.compute == "cuda" else 5.0
    load = Load(streams=streams, gap_ms=gap_ms, tokens=40, rounds=5)
    with null_server(site.run_id, site.log_path("null_server")) as target:
        found = calibrate(target, load)
    for flag in found.flags:
        site.progress({"event": "note", "text": f"calibration: {flag}"})
    return found


def _base_ns(header: Header) -> int:
    """Return the ``perf_counter_ns`` of the moment the run began, also when that was in another process."""
    began = datetime.fromisoformat(header.started_utc)
    return time.perf_counter_ns() - int((datetime.now(UTC) - began).total_seconds() * 1e9)


def collect(
    params: Params,
    plan: Plan,
    run_dir: Path,
    *,
    run_id: str,
    standing_of: StandingOf,
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
        Gives the references of this epoch, once the comparator is known; asked between looks.
    progress : callable
        Takes one event (a dict) at a time.

    Raises
    ------
    ParamsError, UsageError, HostBusy
        Before anything was started.
    IntegrityError
        The journal in *run_dir* is another run's, or an arm's binary changed within the run.
    KeyboardInterrupt
        On SIGINT or SIGTERM, after the running engine was stopped.
    """
    began = time.monotonic()
    run_dir = Path(run_dir)
    preflight(params, plan.purpose)
    header = make_header(params, plan, run_id)
    with _terminable(), JournalWriter(run_dir / JOURNAL) as writer:
        if writer.is_empty:
            writer.append(header)
        else:
            journal = read_journal(writer.path)
            refuse_other_run(writer.path, journal, header)
            header = journal.header
        site = Site(
            params=params,
            run_dir=run_dir,
            run_id=run_id,
            models={
                model.name: resolve_model(
                    model, base_folder=params.folder, cache_folder=_cache_folder(run_dir), file=params.path
                )
                for model in params.release.models
            },
            prompts=PromptStore(run_dir / "prompts.json"),
            corpus=corpus_text(params),
            base_ns=_base_ns(header),
            progress=progress,
        )
        calibration = _calibrated(site)
        session = _Session(site, plan, writer, header, standing_of)
        session.identities()
        session.looks()
        return session.summary(calibration, time.monotonic() - began)


def _cache_folder(run_dir: Path) -> Path:
    """Return where packaged models are put together: beside the runs, once for all of them."""
    return run_dir.resolve().parent / "models"

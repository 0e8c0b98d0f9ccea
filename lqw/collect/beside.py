"""Engines beside: measured once, after every pair, and published. Whatever they do, the gate's verdict stands.

What goes wrong with one is a value on its record: a missing binary, a model it cannot load, a hang, a crash, somebody
else on the GPU. They get only what the arms have left of the run's time, less what the later stages need.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.collect.arms import Found, ask_launch, utc_now
from lqw.collect.steps import Asker
from lqw.collect.watch import StartWatch
from lqw.engines.base import StartRequest, Where
from lqw.engines.registry import get_engine
from lqw.engines.starting import start_engine
from lqw.errors import LqwError
from lqw.outcomes import Arm, Reason
from lqw.samples import BesideRecord, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.collect.arms import Site
    from lqw.collect.pace import Pace
    from lqw.journal import JournalWriter
    from lqw.params import BesideSpec

__all__ = ["measure_beside"]

_RESERVED_S = 60.0
_RESERVED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class _Task:
    """One start beside, and the ``time.monotonic`` by which it must be over."""

    site: Site
    spec: BesideSpec
    model: str
    launch: int
    end_s: float

    def record(self, position: int) -> BesideRecord:
        """Start the engine, ask it the launch, stop it; every fault is the record's failure."""
        site, spec = self.site, self.spec
        began_utc, origin_ns, found = utc_now(), time.perf_counter_ns(), Found()
        with StartWatch(site.gpu) as watch:
            try:
                self._serve(origin_ns, found)
            except LqwError as err:
                found.failure = Failure(reason=Reason.FAILED_START, detail=str(err)[:4000])
            except Exception as err:  # noqa: BLE001 - a fault in an adapter that gates nothing must not end the run
                found.failure = Failure(reason=Reason.FAILED_START, detail=f"{type(err).__name__}: {err}"[:4000])
        return BesideRecord(
            name=spec.name,
            model=self.model,
            launch=self.launch,
            position=position,
            started_utc=began_utc,
            origin_ns=max(0, origin_ns - site.base_ns),
            ready_s=found.ready_s,
            wall_s=(time.perf_counter_ns() - origin_ns) / 1e9,
            engine=found.engine,
            requests=found.requests,
            memory=found.memory,
            telemetry=watch.summary(),
            failure=found.failure or watch.contended or watch.failure,
            steps=found.steps,
        )

    def _serve(self, origin_ns: int, found: Found) -> None:
        site, spec, protocol = self.site, self.spec, self.site.params.protocol
        engine = get_engine(spec.engine, file=site.params.path)
        engine.check(spec, compute=site.params.host.compute, where=Where(site.params.path, f"beside.{spec.name}"))
        prompts = site.prompts.get(self.model)
        if prompts is None:
            found.failure = Failure(reason=Reason.MISSING_REQUESTS, detail="no prompts: neither arm ever became ready")
            return
        outcome = start_engine(engine, self._request())
        if isinstance(outcome, Failure):
            found.failure = outcome
            return
        with outcome as running:
            found.engine, found.ready_s = running.facts, running.ready_s
            asker = Asker(running, prompts, origin_ns, protocol.request_timeout_s, self.end_s)
            ask_launch(site, asker, protocol.launches[self.launch], found)
            left = running.stop()
        found.failure = found.failure or left

    def _request(self) -> StartRequest:
        site, protocol = self.site, self.site.params.protocol
        return StartRequest.of(
            self.spec,
            protocol.launches[self.launch],
            model_path=site.models[self.model],
            compute=site.params.host.compute,
            run_id=site.run_id,
            log_path=site.log_path(f"{self.model}/beside/{self.spec.name}/l{self.launch}"),
            timeout_s=min(protocol.start_timeout_s, self.end_s - time.monotonic()),
            arm=Arm.COMPARATOR,
        )


def measure_beside(
    site: Site, writer: JournalWriter, known: Sequence[BesideRecord], *, position: int, pace: Pace
) -> list[BesideRecord]:
    """Measure every engine beside that *known* lacks, as far as the time goes; return all records.

    Parameters
    ----------
    site : Site
    writer : JournalWriter
    known : sequence of BesideRecord
        What the journal holds.
    position : int
        Running number of the next start.
    pace : Pace
        Of the arms: its deadline is the run's.
    """
    reserved_s = min(_RESERVED_S, _RESERVED_SHARE * site.params.protocol.total_deadline_s)
    records = list(known)
    done = {(one.name, one.model, one.launch) for one in known}
    launches = range(len(site.params.protocol.launches))
    for model, spec, launch in itertools.product(site.models, site.params.release.beside, launches):
        if (spec.name, model, launch) in done:
            continue
        left_s = pace.spare_s - reserved_s
        if left_s <= 0:
            site.progress({"event": "note", "text": "no time is left for engines beside; they gate nothing"})
            break
        site.progress({"event": "note", "text": f"beside, not gating: {spec.name}, {model}, launch {launch}"})
        record = _Task(site, spec, model, launch, time.monotonic() + left_s).record(position)
        writer.append(record)
        records.append(record)
        position += 1
    return records

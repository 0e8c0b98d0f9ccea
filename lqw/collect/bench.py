"""One engine's own rows, without a rival and without a verdict: ``lqw bench``.

The same starts, requests, stamps and formulas as a gate. What has no value is named, as there.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lqw.collect.arms import Site, timed_start, utc_now
from lqw.collect.prompts import PromptStore
from lqw.collect.sized import counted_by, sized_prompts
from lqw.metrics import RowId
from lqw.metrics.checks import ALONE, STREAMED, bursts_of, clocks_of, timed_of
from lqw.metrics.values import combined
from lqw.noise.pairs import arm_values
from lqw.outcomes import Arm, Reason
from lqw.plan import StartKey
from lqw.samples import Failure, StartRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.collect.prompts import PromptSet
    from lqw.engines.running import RunningEngine
    from lqw.metrics.values import RowValue
    from lqw.params import ProtocolSpec

__all__ = ["BenchRow", "BenchSite", "bench_rows", "bench_starts"]

MODEL = "model"
"""The one model of a bench; row ids are shown without it."""


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One row over all starts.

    Attributes
    ----------
    row : RowId
    value : float or None
        In the row's unit: over the starts, geometric mean of rates, median of latencies, largest memory.
    sd_fraction : float or None
        Standard deviation between starts of the logarithm; None with one start.
    starts : int
        Starts that gave a value.
    failure : Failure or None
        The first reason a start gave none; then there is no value.
    extras : dict
        Cross-checks, medians over the starts: ``server_prompt_ms``, ``whole_batch_tok_s``.
    flags : tuple of str
        What its own requests say against its times (:mod:`lqw.metrics.checks`).
    """

    row: RowId
    value: float | None
    sd_fraction: float | None
    starts: int
    failure: Failure | None = None
    extras: dict[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        why = None if self.failure is None else {"reason": str(self.failure.reason), "detail": self.failure.detail}
        return {
            "row": self.row.short,
            "value": self.value,
            "unit": self.row.kind.unit,
            "sd_fraction": self.sd_fraction,
            "starts": self.starts,
            "failure": why,
            "flags": list(self.flags),
            **{name: round(value, 3) for name, value in sorted(self.extras.items())},
        }


class BenchSite(Site):
    """A site for one engine: where it takes text only, prompts are sized by its own count."""

    def prompts_for(self, model: str, running: RunningEngine) -> PromptSet | Failure:
        """Return the prompts, made with the first engine that runs."""
        known = self.prompts.get(model)
        if known is not None or running.engine.takes == "ids":
            return known or super().prompts_for(model, running)
        made = sized_prompts(self.params.protocol, self.corpus, counted_by(running), running.engine.routes)
        if not isinstance(made, Failure):
            self.prompts.put(model, made)
        return made

    def alone(self, launch: int) -> BenchSite:
        """Return a site whose only launch is this one: prompts that one launch cannot have fail no other."""
        protocol = self.params.protocol
        only = protocol.model_copy(update={"launches": [protocol.launches[launch]]})
        folder = self.run_dir / f"launch{launch}"
        folder.mkdir(exist_ok=True)
        params = self.params.model_copy(update={"protocol": only})
        return replace(self, params=params, run_dir=folder, prompts=PromptStore(folder / "prompts.json"))


def bench_starts(site: BenchSite, starts: int) -> list[StartRecord]:
    """Start the engine afresh for every launch of the protocol, *starts* times, and return the records.

    A server that already runs is asked instead of started. What the deadline of *site* leaves no time for is not
    started, and its record says so.

    Raises
    ------
    HostBusy
        Somebody else computed on the GPU meanwhile.
    """
    out: list[StartRecord] = []
    sites = [site.alone(launch) for launch in range(len(site.params.protocol.launches))]
    for number in range(1, starts + 1):
        for launch, alone in enumerate(sites):
            site.progress({"event": "start", "start": len(out) + 1, "of": starts * len(sites)})
            key = StartKey(MODEL, number, Arm.SUBJECT, 0)
            late = site.end_s is not None and time.monotonic() >= site.end_s
            record = _not_started(key, len(out)) if late else timed_start(alone, key, len(out), {})
            out.append(record.model_copy(update={"launch": launch}))
    return out


def _not_started(key: StartKey, position: int) -> StartRecord:
    detail = "the deadline was over before this start: fewer starts, a shorter protocol, or a later --deadline"
    return StartRecord(
        model=key.model,
        pair=key.pair,
        arm=key.arm,
        launch=key.launch,
        position=position,
        started_utc=utc_now(),
        origin_ns=0,
        wall_s=0.0,
        failure=Failure(reason=Reason.TIMEOUT, detail=detail),
    )


def bench_rows(protocol: ProtocolSpec, starts: Sequence[StartRecord]) -> list[BenchRow]:
    """Return every row of the protocol, over all starts of :func:`bench_starts`."""
    rows = [RowId.parse(f"{MODEL}/{short}") for short in protocol.rows]
    by_number: dict[int, dict[int, StartRecord]] = {}
    for start in starts:
        by_number.setdefault(start.pair, {})[start.launch] = start
    found = [arm_values(launches, rows, protocol.min_window_s) for launches in by_number.values()]
    return [
        replace(_over_starts(row, [values[row] for values in found if row in values]), flags=_flags(row, starts))
        for row in rows
    ]


def _flags(row: RowId, starts: Sequence[StartRecord]) -> tuple[str, ...]:
    if row.kind.step in ALONE and (clocks := clocks_of(timed_of(row, starts))).parted:
        return (f"clock: {clocks}",)
    if row.kind.step in STREAMED and (bursts := bursts_of(timed_of(row, starts))).seen:
        return (f"bursts: {bursts}",)
    return ()


def _over_starts(row: RowId, given: Sequence[RowValue]) -> BenchRow:
    if not given:
        return BenchRow(row, None, None, 0, Failure(reason=Reason.MISSING_REQUESTS, detail="no start was asked this"))
    values = [one.value for one in given if one.value is not None]
    failure = next((one.failure for one in given if one.failure is not None), None)
    if failure is not None:
        return BenchRow(row, None, None, len(values), failure)
    value = combined(row.kind.combine, values)
    names = {name for one in given for name in one.extras}
    extras = {name: statistics.median(one.extras[name] for one in given if name in one.extras) for name in names}
    sd = statistics.stdev(map(math.log, values)) if len(values) > 1 else None
    return BenchRow(row, value, sd, len(values), extras=extras)

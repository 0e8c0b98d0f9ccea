"""One engine start of an arm, with its timed requests."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lqw.collect.prompts import PromptSet, PromptStore, make_prompts
from lqw.collect.proofs import not_offloaded, step_facts, unasked
from lqw.collect.steps import Asker, run_step
from lqw.collect.texts import make_text_prompts, with_chats, with_texts
from lqw.collect.transport import quiet
from lqw.collect.watch import StartWatch
from lqw.engines.base import StartRequest
from lqw.engines.registry import get_engine
from lqw.engines.starting import start_engine
from lqw.outcomes import Arm, Reason
from lqw.samples import Failure, StartRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lqw.engines.base import Engine
    from lqw.engines.running import RunningEngine
    from lqw.host.gpu import Gpu
    from lqw.params import EngineSpec, LaunchSpec, Params
    from lqw.plan import StartKey
    from lqw.samples import Answer, RequestSample, StepFacts, Twin

__all__ = ["Found", "Site", "ask_launch", "timed_start", "utc_now"]


def utc_now() -> str:
    """Return the time of day as it stands in artefacts."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class Site:
    """Where and with what a run measures.

    ``base_ns`` is the ``perf_counter_ns`` that origins of starts are counted from; ``gpu`` is None on a CPU host;
    ``end_s`` is the ``time.monotonic`` after which no request may last, where there is such a moment.
    """

    params: Params
    run_dir: Path
    run_id: str
    models: dict[str, Path]
    prompts: PromptStore
    corpus: str
    base_ns: int
    gpu: Gpu | None
    progress: Callable[[dict[str, Any]], None]
    end_s: float | None = None

    def spec(self, arm: Arm) -> EngineSpec:
        """Return the engine of an arm."""
        release = self.params.release
        return release.subject if arm is Arm.SUBJECT else release.comparator

    def log_path(self, name: str) -> Path:
        """Return the log file of a start, its folder made."""
        path = self.run_dir / "logs" / f"{name.replace('/', '_')}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def prompts_for(self, model: str, running: RunningEngine) -> PromptSet | Failure:
        """Return the model's prompts; the first engine that takes ids tokenizes the corpus for all later ones."""
        known = self.prompts.get(model)
        if known is not None:
            return known
        if running.engine.takes == "text" and self.need_text:
            detail = (
                f"nothing to ask: {running.engine.name} takes text, and the other arm, which cuts it, never started"
            )
            return Failure(reason=Reason.MISSING_REQUESTS, detail=detail)
        ids, other = running.tokenize(self.corpus), running.tokenize("0")
        if isinstance(ids, Failure):
            return ids
        if isinstance(other, Failure):
            return other
        # What two unlike texts both begin with is the begin token: no prompt may share its first token.
        bare = ids[1:] if ids[:1] == other[:1] else ids
        made = make_text_prompts(self.params, bare, running) if self.need_text else make_prompts(self.params, bare)
        if not isinstance(made, Failure) and self.tell_text:
            made = with_texts(made, running)
        if not isinstance(made, Failure) and any(step.route == "chat" for step in self.params.protocol.steps):
            made = with_chats(self.params, made, bare, running)
        if not isinstance(made, Failure):
            self.prompts.put(model, made)
        return made

    @property
    def start_timeout_s(self) -> float:
        """Return how long an engine may take to become ready."""
        limit = self.params.protocol.start_timeout_s
        return limit if self.end_s is None else max(0.1, min(limit, self.end_s - time.monotonic()))

    @property
    def tell_text(self) -> bool:
        """Return whether an engine beside takes text where the arms do not: it gets theirs, told as text."""
        besides = (get_engine(one.engine, file=self.params.path) for one in self.params.release.beside)
        return not self.need_text and any(engine.takes == "text" for engine in besides)

    @property
    def need_text(self) -> bool:
        """Return whether an arm takes its prompts as text only."""
        return any(self.engine(arm).takes == "text" for arm in Arm)

    def unstreamed(self, running: RunningEngine) -> bool:
        """Return whether *running* is an arm's engine and an arm's streams are dear: it is asked without them too."""
        engines = [self.engine(arm) for arm in Arm]
        return any(one.dear_stream for one in engines) and running.facts.engine in {one.name for one in engines}

    def engine(self, arm: Arm) -> Engine:
        """Return the adapter of an arm."""
        return get_engine(self.spec(arm).engine, file=self.params.path)


@dataclass(slots=True)
class Found:
    """What a start has given so far; a failure keeps what came before it."""

    engine: Any = None
    ready_s: float | None = None
    requests: list[RequestSample] = field(default_factory=list)
    steps: list[StepFacts] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    twins: list[Twin] = field(default_factory=list)
    memory: Any = None
    failure: Failure | None = None


def ask_launch(site: Site, asker: Asker, launch: LaunchSpec, found: Found) -> None:
    """Ask everything a launch has; what comes, and the engine's end, are kept in *found*."""
    running = asker.running
    with running.memory() as memory, quiet():
        for step in launch.steps:
            if step.route not in running.engine.routes:
                found.steps.append(unasked(running.engine, step))
                continue
            site.progress({"event": "step", "step": step.step_id})
            mark = running.log_mark()
            for samples in run_step(asker, step):
                found.requests += samples
                lost = next((sample.failure for sample in samples if sample.failure), None)
                if lost is not None:
                    found.failure = running.died(lost)
            if found.failure is None:
                found.steps.append(step_facts(asker, step, mark=mark, unstreamed=site.unstreamed(running)))
                found.failure = not_offloaded(found.steps[-1])
            if found.failure is not None:
                break
    found.memory = memory.peaks()
    found.failure = found.failure or running.moved_off()


def timed_start(
    site: Site, key: StartKey, position: int, telemetry: dict[str, Any], *, repeats: Mapping[str, int] | None = None
) -> StartRecord:
    """Start one arm fresh, ask it everything its launch has, stop it, and return the record.

    *repeats* are those of steps that are lengthened (:func:`lqw.noise.lengthen.lengthened`).

    Raises
    ------
    HostBusy
        Somebody else computed on the GPU meanwhile.
    """
    began_utc, origin_ns, found = utc_now(), time.perf_counter_ns(), Found()
    with StartWatch(site.gpu) as watch:
        _time(site, key, origin_ns, found, repeats or {})
    watch.require_alone()
    return StartRecord(
        model=key.model,
        pair=key.pair,
        arm=key.arm,
        launch=key.launch,
        position=position,
        started_utc=began_utc,
        origin_ns=max(0, origin_ns - site.base_ns),
        ready_s=found.ready_s,
        wall_s=(time.perf_counter_ns() - origin_ns) / 1e9,
        engine=found.engine,
        requests=found.requests,
        memory=found.memory,
        telemetry={**telemetry, **watch.summary()},
        failure=found.failure or watch.failure,
        steps=found.steps,
        repeats=dict(repeats or {}),
    )


def _time(site: Site, key: StartKey, origin_ns: int, found: Found, repeats: Mapping[str, int]) -> None:
    spec, launch = site.spec(key.arm), site.params.protocol.launches[key.launch].repeated(repeats)
    outcome = start_engine(
        site.engine(key.arm),
        StartRequest.of(
            spec,
            launch,
            model_path=site.models[key.model],
            compute=site.params.host.compute,
            run_id=site.run_id,
            log_path=site.log_path(str(key)),
            timeout_s=site.start_timeout_s,
            arm=key.arm,
        ),
    )
    if isinstance(outcome, Failure):
        found.failure = outcome
        return
    with outcome as running:
        found.engine, found.ready_s = running.facts, running.ready_s
        prompts = site.prompts_for(key.model, running)
        if isinstance(prompts, Failure):
            found.failure = prompts
        else:
            asker = Asker(running, prompts, origin_ns, site.params.protocol.request_timeout_s, site.end_s)
            ask_launch(site, asker, launch, found)
        left = running.stop()
    found.failure = found.failure or left

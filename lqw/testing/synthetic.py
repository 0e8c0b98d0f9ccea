"""Whole runs made of numbers: journal records as a collector would have written them, without an engine.

>>> params = synthetic_params()
>>> run = synthetic_run(params, Purpose.GATE, pairs=3, effects={"ttft@512": 1.9})
>>> len(run.starts), run.header.purpose
(12, <Purpose.GATE: 'gate'>)

``effects`` multiply the metric itself on the subject's side: ``{"ttft@512": 1.9}`` makes it slower, ``{"decode": 0.5}``
too. A start's value of a row is its level, times the effect, times one lognormal draw per start (``sd`` is that of the
*pair's* log ratio), times a far smaller one per request.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lqw
from lqw.canonical import canonical_bytes
from lqw.correctness.shapes import SINGLE, other_shapes
from lqw.noise.lengthen import lengthened
from lqw.outcomes import Arm, Purpose
from lqw.plan import StartKey, build_plan
from lqw.samples import (
    Answer,
    Batch,
    EngineFacts,
    Failure,
    Header,
    HostFacts,
    IdentityRecord,
    MemoryPeaks,
    RequestSample,
    ServerTimings,
    StartRecord,
)
from lqw.testing.params import DEMO_ROWS, name_sha256, synthetic_params

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lqw.params import Params, StepSpec

__all__ = ["DEMO_ROWS", "Maker", "SyntheticRun", "synthetic_params", "synthetic_run"]

MS_PER_TOKEN = 2.7  # cold prefill on two cores
DECODE_TOK_S = 45.0
CACHED_MS = 330.0
RSS_BYTES = 4.5e8
VRAM_BYTES = 9e9
MEMORY_SD = 0.003
REQUEST_SD = 0.004
WORDS = ("the", "gate", "holds", "a", "floor", "for", "every", "row", "and", "names", "what", "it", "saw")


@dataclass(frozen=True, slots=True)
class SyntheticRun:
    """The records of one journal, in the order of their positions."""

    header: Header
    starts: tuple[StartRecord, ...]
    identities: tuple[IdentityRecord, ...]
    calibration: dict[str, Any] = field(default_factory=dict)
    batch: Batch | None = None

    def lines(self) -> Iterator[bytes]:
        """Yield the journal's lines."""
        records: list[StartRecord | IdentityRecord] = [*self.starts, *self.identities]
        batch = [] if self.batch is None else [self.batch.declared, *self.batch.starts]
        for record in [self.header, *sorted(records, key=lambda one: one.position), *batch]:
            yield canonical_bytes(record.model_dump(mode="json", by_alias=True)) + b"\n"

    def write(self, run_dir: Path) -> Path:
        """Write ``samples.jsonl`` and a minimal ``collect.json`` into *run_dir*; return the journal's path."""
        run_dir.mkdir(parents=True, exist_ok=True)
        journal = run_dir / "samples.jsonl"
        data = b"".join(self.lines())
        journal.write_bytes(data)
        collect = {
            "schema": "lqw-collect/1",
            "run_id": self.header.run_id,
            "inputs": {"samples.jsonl": hashlib.sha256(data).hexdigest()},
            "calibration": self.calibration,
        }
        (run_dir / "collect.json").write_bytes(canonical_bytes(collect))
        return journal


def synthetic_run(
    params: Params,
    purpose: Purpose,
    *,
    pairs: int | None = None,
    sd: float = 0.04,
    effects: Mapping[str, float] | None = None,
    comparator_effects: Mapping[str, float] | None = None,
    failures: Mapping[StartKey, Failure] | None = None,
    answers: int = 0,
    seed: int = 1,
    run_id: str = "synthetic",
    binary: str = "subject",
    commit: str = "",
) -> SyntheticRun:
    """Return the records of a run.

    Parameters
    ----------
    params, purpose
        What is run; the plan follows from them.
    pairs : int, optional
        Pairs of every model; by default what the first look (or the floor) wants.
    sd : float
        Standard deviation of one pair's log ratio.
    effects, comparator_effects : mapping, optional
        Short row id (or ``model/row``) → factor on the metric itself.
    failures : mapping, optional
        Starts that fail, and how.
    answers : int
        Which tokens the subject answers the identity prompts with: another number, other tokens.
    seed : int
        Of the noise; the plan's seed is in the params.
    run_id : str
    binary : str
        Names the subject's binary: another name, another sha256.
    commit : str
        What the subject's version says it was built from.
    """
    plan = build_plan(params, purpose)
    maker = Maker(params, random.Random(seed), sd, dict(effects or {}), dict(comparator_effects or {}), binary, commit)  # noqa: S311
    header = Header(
        run_id=run_id,
        purpose=purpose,
        started_utc="2026-01-01T00:00:00Z",
        plan=plan.to_json(),
        plan_sha256=plan.sha256,
        params=params.resolved(),
        host=HostFacts(
            name=params.host.name, cpu_model="Synthetic CPU", cores=2, ram_gib=8, kernel="6.1", python="3.11.9"
        ),
        models={model.name: model.sha256 for model in params.release.models},
        lqw_version=lqw.__version__,
        lqw_source_sha256=name_sha256("source"),
    )
    identities = [maker.identity(model.name, at, answers) for at, model in enumerate(params.release.models)]
    starts: list[StartRecord] = []
    for model in plan.orders:
        for pair in range(1, (pairs or plan.pairs_at(0)) + 1):
            for key in plan.starts(model, pair, params.protocol.launches):
                at = len(identities) + len(starts)
                longer = lengthened(params.protocol, starts, key)
                starts.append(maker.start(key, at, (failures or {}).get(key), longer))
    calibration = {"ttft_error_p50_ms": 0.2, "ttft_error_p99_ms": 1.1, "itl_error_p99_ms": 0.4, "cpu_share": 0.12}
    return SyntheticRun(header, tuple(starts), tuple(identities), calibration)


@dataclass(slots=True)
class Maker:
    """Makes the records of one subject and its comparator."""

    params: Params
    rng: random.Random
    sd: float
    effects: dict[str, float]
    comparator_effects: dict[str, float]
    binary: str
    commit: str = ""

    def _factor(self, key: StartKey, short: str, sd: float) -> float:
        """Return effect × this start's noise; half of the pair's variance comes from each arm."""
        given = self.effects if key.arm is Arm.SUBJECT else self.comparator_effects
        effect = given.get(f"{key.model}/{short}", given.get(short, 1.0))
        return effect * math.exp(self.rng.gauss(0.0, sd / math.sqrt(2)))

    def engine(self, arm: Arm) -> EngineFacts:
        """Return what ran as an arm."""
        spec = self.params.release.subject if arm is Arm.SUBJECT else self.params.release.comparator
        return EngineFacts(
            engine=spec.engine,
            version=f"1.0 ({self.commit})" if self.commit and arm is Arm.SUBJECT else "11549",
            build="synthetic",
            binary_sha256=name_sha256("binary", self.binary if arm is Arm.SUBJECT else "comparator"),
            command=["llama-server", "-m", "tiny.gguf"],
            env={},
            settings=dict(spec.settings),
            compute="cpu",
        )

    def identity(self, model: str, position: int, variant: int) -> IdentityRecord:
        """Return the subject's answers; another *variant*, other tokens."""
        spec = self.params.protocol.identity
        shapes = other_shapes((step.kind, step.streams) for step in self.params.protocol.steps)
        out = []
        for prompt in self.params.prompts:
            rng = random.Random(f"{model}/{prompt}/{variant}")  # noqa: S311 - words, not secrets
            ids = [rng.randrange(10, 60_000) for _ in range(spec.output_tokens)]
            text = " ".join(rng.choices(WORDS, k=spec.output_tokens))
            out += [
                Answer(prompt=prompt, shape=shape, repeat=repeat, prompt_tokens=11, ids=ids, text=text, finish="limit")
                for shape in (SINGLE, *shapes)
                for repeat in range(spec.repeats)
            ]
        return IdentityRecord(
            model=model,
            position=position,
            started_utc="2026-01-01T00:00:01Z",
            wall_s=3.0,
            engine=self.engine(Arm.SUBJECT),
            answers=out,
        )

    def start(
        self, key: StartKey, position: int, failure: Failure | None, longer: Mapping[str, int] | None = None
    ) -> StartRecord:
        """Return one start of an arm; *longer*: repeats of lengthened steps."""
        requests: list[RequestSample] = []
        clock = 0
        for step in self.params.protocol.launches[key.launch].repeated(longer or {}).steps if failure is None else ():
            made = list(self._step(key, step, clock))
            clock = max(request.end_ns or 0 for request in made)
            requests += made
        factor = self._factor(key, "rss_peak", min(self.sd, MEMORY_SD))
        vram = self._factor(key, "vram_peak", min(self.sd, MEMORY_SD))
        memory = MemoryPeaks(
            rss_anon_bytes=round(RSS_BYTES * factor),
            rss_file_bytes=250_000_000,
            vram_bytes=round(VRAM_BYTES * vram) if self.params.host.compute == "cuda" else None,
            samples=100,
        )
        return StartRecord(
            model=key.model,
            pair=key.pair,
            arm=key.arm,
            launch=key.launch,
            position=position,
            started_utc="2026-01-01T00:00:10Z",
            origin_ns=position * 10_000_000_000,
            ready_s=None if failure else 0.8,
            wall_s=8.0,
            engine=None if failure else self.engine(key.arm),
            requests=requests,
            memory=None if failure else memory,
            failure=failure,
            repeats=dict(longer or {}),
        )

    def _level_ms(self, key: StartKey, step: StepSpec) -> float:
        size = step.prompt_tokens
        if step.kind == "cold":
            both = self.effects if key.arm is Arm.SUBJECT else self.comparator_effects
            slower = 1 / both.get(f"{key.model}/prefill@{size}", both.get(f"prefill@{size}", 1.0))
            return 15.0 + MS_PER_TOKEN * size * slower * self._factor(key, f"ttft@{size}", self.sd)
        if step.kind == "cached":
            return CACHED_MS * self._factor(key, f"ttft_cached@{size}", self.sd)
        return 20.0 + MS_PER_TOKEN * size

    def _step(self, key: StartKey, step: StepSpec, clock: int) -> Iterator[RequestSample]:
        level = self._level_ms(key, step)
        rate = DECODE_TOK_S * math.sqrt(step.streams)
        if step.output_tokens > 1:
            short = "decode" if step.kind == "decode" else step.step_id
            rate *= self._factor(key, short, self.sd)
        roles = [("warmup", i) for i in range(step.warmups)]
        roles += [("prime", 0)] if step.kind == "cached" else []
        roles += [("timed", i) for i in range(step.repeats)]
        for role, repeat in roles:
            sent, ends = clock + 1_000_000, []
            for stream in range(step.streams):
                request = self._request(key, step, role, repeat, stream, sent=sent, level_ms=level, rate=rate)
                ends.append(request.end_ns or 0)
                yield request
            clock = max(ends)

    def _request(
        self,
        key: StartKey,
        step: StepSpec,
        role: Any,
        repeat: int,
        stream: int,
        *,
        sent: int,
        level_ms: float,
        rate: float,
    ) -> RequestSample:
        jitter = math.exp(self.rng.gauss(0.0, REQUEST_SD))
        extra = step.suffix_tokens if step.kind == "cached" and role == "timed" else 0
        ttft = round(level_ms * jitter * 1e6)
        gap = step.streams / rate * 1e9
        gaps = [round(gap * (1 + 0.02 * (self.rng.random() - 0.5))) for _ in range(step.output_tokens - 1)]
        prompt = name_sha256("prompt", key.model, step.step_id, role, repeat, stream)
        cached = step.prompt_tokens - 5 if extra else 0
        return RequestSample(
            step=step.step_id,
            role=role,
            repeat=repeat,
            stream=stream,
            prompt_tokens=step.prompt_tokens + extra if extra else step.prompt_tokens,
            prompt_sha256=prompt,
            want_tokens=step.output_tokens,
            due_ns=sent,
            sent_ns=sent + 1_000 * stream,
            connect_ns=60_000,
            ttft_ns=ttft,
            gaps_ns=gaps,
            chunk_tokens=[1] * step.output_tokens,
            end_ns=sent + ttft + sum(gaps) + 100_000,
            status=200,
            text_sha256=name_sha256("text", prompt),
            timings=ServerTimings(
                cache_n=cached,
                prompt_n=step.prompt_tokens + extra - cached,
                prompt_ms=ttft / 1e6 * 0.97,
                predicted_n=step.output_tokens,
                predicted_ms=sum(gaps) / 1e6,
            ),
        )

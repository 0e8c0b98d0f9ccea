"""The journal's records: one line of ``samples.jsonl`` per engine start, raw stamps and all.

Line 1 is a :class:`Header`; each further line a :class:`StartRecord`, :class:`IdentityRecord`,
:class:`BesideRecord`, :class:`BatchRecord` or :class:`BatchStart`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lqw.outcomes import Arm, BatchArm, Purpose
from lqw.samples.base import Failure, Many, Named, Record, Several
from lqw.samples.facts import EngineFacts, HostFacts, ModelWork
from lqw.samples.requests import MemoryPeaks, RequestSample, StepFacts

__all__ = [
    "Answer",
    "Batch",
    "BatchRecord",
    "BatchStart",
    "BesideRecord",
    "Header",
    "IdentityRecord",
    "ServedRecord",
    "StartRecord",
    "Twin",
    "start_fields",
]


def _none(value: object) -> bool:
    return not value


class Header(Record):
    """First line of the journal: what this run is, so that a resume can refuse another one's journal."""

    kind: Literal["header"] = "header"
    schema_: Literal["lqw-samples/1"] = Field(default="lqw-samples/1", alias="schema")
    run_id: str
    purpose: Named[Purpose]
    started_utc: str
    plan: dict[str, Any]
    plan_sha256: str
    params: dict[str, Any]
    host: HostFacts
    models: dict[str, str]  # name -> sha256 of the bytes on disk
    # Written where it is known only: journals from before it was looked at stay as they are.
    work: dict[str, ModelWork] = Field(default={}, exclude_if=_none)
    lqw_version: str
    lqw_source_sha256: str


class ServedRecord(Record):
    """One fresh engine start and everything it was asked: what a start of an arm and one beside have in common."""

    model: str
    launch: int = Field(ge=0)
    position: int = Field(ge=0)  # running number of the start in this run: the order for drift tests
    started_utc: str
    origin_ns: int = Field(ge=0)  # perf_counter_ns of this start minus that of the run's first
    ready_s: float | None = None
    wall_s: float = Field(ge=0)
    engine: EngineFacts | None = None
    requests: Many[RequestSample] = Field(default=[])
    memory: MemoryPeaks | None = None
    telemetry: dict[str, Any] = Field(default={})
    failure: Failure | None = None
    # Of each step that was asked; none in receipts from before it was looked at.
    steps: Many[StepFacts] = Field(default=[])


class StartRecord(ServedRecord):
    """One fresh engine start of one arm."""

    kind: Literal["start"] = "start"
    pair: int = Field(ge=1)
    arm: Named[Arm]
    # Step → timed repeats, where they were lengthened; written there only.
    repeats: dict[str, int] = Field(default={}, exclude_if=_none)


class BatchRecord(Record):
    """The declaration of a confirmation batch: written before its first start, once per candidate.

    ``against`` names, per model, the earlier releases whose engines are measured beside candidate and comparator;
    ``earlier`` holds those engines as they were declared (:class:`lqw.params.EngineSpec`).
    """

    kind: Literal["batch"] = "batch"
    declared_utc: str
    subject_sha256: str  # the candidate: :func:`lqw.receipt.subject.subject_sha256`
    tuples: int = Field(ge=1)  # starts of each arm, per model
    against: dict[str, list[str]]
    earlier: dict[str, dict[str, Any]]


class BatchStart(ServedRecord):
    """One fresh engine start of the confirmation batch; ``pair`` counts its tuples from 1."""

    kind: Literal["batch_start"] = "batch_start"
    pair: int = Field(ge=1)
    arm: Named[BatchArm]
    release: str  # which release this engine is: the candidate's, an earlier one's, or "" for the comparator


def start_fields(start: StartRecord | BatchStart) -> dict[str, Any]:
    """Return what a start of a pair and one of a batch have in common: all but kind, arm and lengthening."""
    return {name: getattr(start, name) for name in StartRecord.model_fields if name not in ("kind", "arm", "repeats")}


class Batch(Record):
    """A confirmation batch: its declaration and what was measured of it."""

    declared: BatchRecord
    starts: Several[BatchStart] = ()


class BesideRecord(ServedRecord):
    """One start of an engine beside: published, never gating. ``name`` is the params' word for it."""

    kind: Literal["beside"] = "beside"
    name: str


class Answer(Record):
    """One untimed answer at temperature 0."""

    prompt: str  # name in the identity prompts
    shape: str  # "single", "cached", "agg@4"
    repeat: int = Field(ge=0)
    stream: int = Field(default=0, ge=0)  # which of the streams that ran together
    prompt_tokens: int | None = None
    ids: Many[int] | None = None
    text: str = Field(max_length=100_000)
    finish: str = ""
    margins: Many[float] | None = None  # nats by which each token led its runner-up, where the engine tells
    failure: Failure | None = None


class Twin(Record):
    """The untimed answer to a prompt that is also timed: the timed ones must carry its hash."""

    step: str
    prompt_sha256: str
    want_tokens: int = Field(ge=1)
    text_sha256: str | None = None
    ids_sha256: str | None = None
    failure: Failure | None = None


class IdentityRecord(Record):
    """The subject's answers to the identity prompts, from starts of their own: serial first, then at each shape."""

    kind: Literal["identity"] = "identity"
    model: str
    position: int = Field(ge=0)
    started_utc: str
    wall_s: float = Field(ge=0)
    engine: EngineFacts | None = None
    answers: Many[Answer] = Field(default=[])
    twins: Many[Twin] = Field(default=[])
    failure: Failure | None = None

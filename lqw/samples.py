"""The journal's records: one line of ``samples.jsonl`` per engine start, raw stamps and all.

Line 1 is a :class:`Header`; each further line a :class:`StartRecord`, :class:`IdentityRecord` or
:class:`BesideRecord`. Stamps are
whole nanoseconds of ``perf_counter_ns`` relative to ``origin`` of their start, so they stay far below 2^53.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, Strict, model_validator

from lqw.outcomes import Arm, BatchArm, Purpose, Reason

__all__ = [
    "Answer",
    "Batch",
    "BatchRecord",
    "BatchStart",
    "BesideRecord",
    "EngineFacts",
    "Failure",
    "Header",
    "HostFacts",
    "IdentityRecord",
    "Many",
    "MemoryPeaks",
    "ModelWork",
    "Named",
    "RequestSample",
    "ServedRecord",
    "ServerTimings",
    "Several",
    "StartRecord",
    "StepFacts",
    "Twin",
    "Unstreamed",
    "start_fields",
]


_Item = TypeVar("_Item")


class _First(FailFast):
    """Pydantic's marker, made hashable, so that a field may be None as well."""

    __hash__ = object.__hash__


Many = Annotated[list[_Item], _First()]
"""A list of which the first item that is wrong is told, and not a line for each of a hundred thousand."""
Several = Annotated[tuple[_Item, ...], _First(), Strict(strict=False)]
"""The same of a tuple, which what was read from JSON holds as a list."""
Named = Annotated[_Item, Strict(strict=False)]
"""An enumeration's member, which what was read from JSON holds as its value."""


class Record(BaseModel):
    """Frozen, no unknown fields, no coercion, finite numbers only; validators are built where one is first needed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class Failure(Record):
    """Why something has no valid number: a reason and what was seen, with the engine's last log lines."""

    reason: Named[Reason]
    detail: str = Field(max_length=4_000)
    log_tail: list[str] = Field(default=[], max_length=40)


class ServerTimings(Record):
    """The engine's own count and clock for one request; a cross-check, never the row's value."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class RequestSample(Record):
    """One HTTP request. ``gaps_ns[i]`` lies between token chunk i and i+1; ``chunk_tokens`` counts ids per chunk."""

    step: str  # StepSpec.step_id
    role: Literal["warmup", "prime", "timed"]
    repeat: int = Field(ge=0)
    stream: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)  # N that was asked for
    prompt_sha256: str
    want_tokens: int = Field(ge=0)
    due_ns: int = Field(ge=0)  # when the plan wanted it sent (no coordinated omission hidden)
    sent_ns: int = Field(ge=0)  # t0: just before the encoded bytes went out
    connect_ns: int = Field(ge=0)  # how long opening the connection took; never part of TTFT
    ttft_ns: int | None = None
    gaps_ns: Many[int] = []
    chunk_tokens: Many[int] = []
    end_ns: int | None = None  # last byte, relative to the start's origin
    burst_reads: int = Field(default=0, ge=0)  # reads that carried several events
    status: int | None = None
    text_sha256: str | None = None
    ids_sha256: str | None = None
    constant_run: int | None = None  # longest run of one token (of one word, where the stream has no ids)
    timings: ServerTimings | None = None
    failure: Failure | None = None


class MemoryPeaks(Record):
    """Peaks over the server's process tree, sampled while it served."""

    rss_anon_bytes: int | None = None
    rss_file_bytes: int | None = None
    vm_hwm_bytes: int | None = None
    vram_bytes: int | None = None
    vram_method: Literal["nvml_process", "nvml_device_delta", "unified_meminfo"] | None = None
    samples: int = Field(default=0, ge=0)


class Unstreamed(Record):
    """One prompt answered without streaming: the time of one token and of ``tokens``; their difference is decoding."""

    tokens: int = Field(ge=2)
    one_ns: int = Field(gt=0)
    all_ns: int = Field(gt=0)
    again: bool = False  # the same was asked just before the first time: both reuse the prompt, or neither does

    @model_validator(mode="after")
    def _longer(self) -> Unstreamed:
        if self.all_ns <= self.one_ns:
            raise ValueError("all_ns is not above one_ns: the longer answer took no longer")
        return self

    @property
    def tok_s(self) -> float:
        """Return the rate of decoding, (n − 1) / (T(n) − T(1)), tok/s."""
        return (self.tokens - 1) / ((self.all_ns - self.one_ns) / 1e9)


class StepFacts(Record):
    """How a step of a start was asked, and who computed it; looked at when its requests were over, none in flight."""

    step: str
    path: str = Field(max_length=200)  # the HTTP route of its requests; empty: not asked, the engine has no such route
    used_gpu: bool | None = None  # None: on a processor, or nothing tells
    said: str = Field(default="", max_length=400)  # by what that is known, or why it was not asked
    formed: int | None = Field(default=None, ge=1)  # of many streams: the largest batch, by the engine's log
    unstreamed: Unstreamed | None = None  # beside a decode step, where streams are dear


class EngineFacts(Record):
    """What actually ran: recorded after readiness, from the running process."""

    engine: str
    version: str
    build: str
    binary_sha256: str
    command: Many[str]  # paths shortened to their names
    env: dict[str, str]
    settings: dict[str, Any]  # read back from the server
    compute: Literal["cpu", "cuda"]


class HostFacts(Record):
    """The host class of the epoch key; no clocks, no readings."""

    name: str
    cpu_model: str
    cores: int
    ram_gib: int
    gpu: str | None = None
    vram_mib: int | None = None
    power_limit_w: int | None = None
    driver: str | None = None
    cuda: str | None = None
    kernel: str
    python: str


class ModelWork(Record):
    """What one pass over a model must read and compute at least, from its GGUF's header: for the roofline."""

    weight_bytes: int = Field(gt=0)  # read for every token: all but a table of embeddings that only gives rows
    layer_weights: int = Field(gt=0)  # numbers in the matrices of the layers
    output_weights: int = Field(ge=0)  # of the output matrix
    kv_bytes_per_token: int = Field(ge=0)
    kv_window: int = Field(ge=0)  # tokens an attention layer looks back at most; 0: all of them
    state_bytes: int = Field(ge=0)  # of the recurrent layers, per stream

    def kv(self, tokens: int) -> int:
        """Return the bytes of keys and values of *tokens*; where layers look back a window, what is certain."""
        return self.kv_bytes_per_token * (min(tokens, self.kv_window) if self.kv_window else tokens)


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
    requests: Many[RequestSample] = []
    memory: MemoryPeaks | None = None
    telemetry: dict[str, Any] = {}
    failure: Failure | None = None
    steps: Many[StepFacts] = []  # of each step that was asked; none in receipts from before it was looked at


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
    answers: Many[Answer] = []
    twins: Many[Twin] = []
    failure: Failure | None = None

"""The one protocol every engine is spoken to by, and the small things that travel through it.

An adapter (one module, one registry line) says *what* an engine wants: its command line, environment, readiness,
settings, request bodies. :mod:`lqw.engines.starting` does the same for all: start, wait, prove, read back, stop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from lqw.outcomes import Arm

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lqw.engines.control import Control
    from lqw.engines.fit import Need, Sizes
    from lqw.params import EngineSpec, LaunchSpec
    from lqw.samples import Answer, Failure

__all__ = [
    "Compute",
    "Engine",
    "Environment",
    "HttpRequest",
    "Identity",
    "Prompt",
    "Route",
    "StartRequest",
    "StreamFormat",
    "Where",
]

Compute = Literal["cpu", "cuda"]
StreamFormat = Literal["llama", "openai", "ollama"]
Route = Literal["completion", "chat"]


class HttpRequest(NamedTuple):
    """A POST ready to be sent: its path and its JSON body, encoded."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as token ids, and as text for engines that take no ids."""

    ids: tuple[int, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """Where a setting stands, for messages about it."""

    file: str
    field: str


@dataclass(frozen=True, slots=True)
class StartRequest:
    """One start: which engine, which bytes, how many slots of how many tokens.

    Attributes
    ----------
    context_tokens_per_slot : int
        What every slot must hold. Engines that divide one context over their slots are given the product.
    log_path : path
        Where the engine's output goes.
    timeout_s : float
        From start to readiness.
    """

    spec: EngineSpec
    model_path: Path
    slots: int
    context_tokens_per_slot: int
    compute: Compute
    run_id: str
    log_path: Path
    timeout_s: float
    arm: Arm = Arm.COMPARATOR

    @classmethod
    def of(
        cls,
        spec: EngineSpec,
        launch: LaunchSpec,
        *,
        model_path: Path,
        compute: Compute,
        run_id: str,
        log_path: Path,
        timeout_s: float,
        arm: Arm,
    ) -> StartRequest:
        """Return the request of one launch of the protocol."""
        return cls(
            spec=spec,
            model_path=model_path,
            slots=launch.slots,
            context_tokens_per_slot=launch.context_tokens_per_slot,
            compute=compute,
            run_id=run_id,
            log_path=log_path,
            timeout_s=timeout_s,
            arm=arm,
        )


@dataclass(frozen=True, slots=True)
class Environment:
    """What an engine is started with.

    ``variables`` is the whole environment; ``recorded`` the part that can change its speed or answers (it goes into
    the receipt); ``dropped`` the names that were set here and were kept from it.
    """

    variables: dict[str, str]
    recorded: dict[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What actually runs: version words, build, and the sha256 of the bytes that execute."""

    version: str
    build: str
    binary_sha256: str


class Engine(Protocol):
    """What an adapter must say.

    Adapters are stateless: everything about one start is in its :class:`StartRequest`. Methods that talk to the
    engine take a :class:`lqw.engines.control.Control` and may raise :class:`lqw.engines.control.ControlError`;
    the callers in :mod:`lqw.engines.starting` and :mod:`lqw.engines.running` turn it into a Failure.
    """

    @property
    def name(self) -> str:
        """Return the word the params use."""
        ...

    @property
    def stream_format(self) -> StreamFormat:
        """Return how its streams are to be parsed."""
        ...

    @property
    def takes(self) -> Literal["ids", "text"]:
        """Return what a prompt is sent as."""
        ...

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return which routes a protocol may declare for its steps."""
        ...

    @property
    def dear_stream(self) -> bool:
        """Return whether streaming costs so much that decoding is also measured without, on both arms."""
        ...

    @property
    def stop_signals(self) -> tuple[signal.Signals, ...]:
        """Return the signals that end it politely, in the order to try them."""
        ...

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Raise ParamsError where the spec names what this engine does not know, lacks, or cannot do."""
        ...

    def need(self, sizes: Sizes, request: StartRequest) -> Need:
        """Return the memory this start needs at least (:mod:`lqw.engines.fit`), bytes."""
        ...

    def place(self, spec: EngineSpec) -> tuple[str, int] | None:
        """Return host and port of a server that already runs, so that nothing is started; None: start it here."""
        ...

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and arguments."""
        ...

    def environment(self, base: Mapping[str, str], request: StartRequest, port: int) -> Environment:
        """Return the environment to start it with, made from *base* (this process's) and the spec's."""
        ...

    def is_ready(self, control: Control) -> bool:
        """Return whether it serves; False while it loads or refuses connections."""
        ...

    def load(self, control: Control, request: StartRequest) -> None:
        """Have a server that starts empty load the model; ControlError UNSUPPORTED where it cannot."""
        ...

    def unsupported(self, log: str) -> str:
        """Return the engine's own words in *log* for a model it cannot load at all, or nothing."""
        ...

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return the settings in force, as the engine itself reports them."""
        ...

    def serving(self, settings: Mapping[str, Any], request: StartRequest) -> Engine:
        """Return the adapter that speaks to this start: itself, unless requests must name what the server told."""
        ...

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return how the settings in force are not those of the plan (WRONG_SETTINGS, NO_OFFLOAD), or None."""
        ...

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return what runs in *pid*."""
        ...

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return the greedy request for one step kind (``cold decode agg cached identity witness``).

        ``witness`` goes by the route whose requests form batches, and its answer names the ids it can.

        Exactly *n_predict* tokens are forced where the engine can. *cache* allows reuse of a prefix; *slot* pins
        the request to one slot, where the engine has such a word.
        """
        ...

    def chat_request(self, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool) -> HttpRequest:
        """Return a greedy chat of one user message, *n_predict* tokens forced; its streams are OpenAI's."""
        ...

    def chat_ids(self, control: Control, text: str) -> list[int]:
        """Return the ids of a chat whose only message is *text*: what the template makes of it, tokenized."""
        ...

    def tokenize(self, control: Control, text: str) -> list[int]:
        """Return the token ids the engine itself would serve *text* with, begin token included."""
        ...

    def detokenize(self, control: Control, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...

    def answer(self, control: Control, request: HttpRequest, blank: Answer) -> Answer:
        """Send a non-stream request and return *blank* filled with ids, text and finish reason."""
        ...

    def cached_tokens(self, log: str) -> int | None:
        """Return how many prompt tokens the engine reused, from the *log* of one request; None: told elsewhere."""
        ...

    def formed(self, log: str) -> int | None:
        """Return how many requests the largest batch of *log* held, where the engine says it; None: it does not."""
        ...

    def used_gpu(self, control: Control, log: str) -> tuple[bool | None, str]:
        """Return whether the GPU serves it now, and by what word of its own; None: it has no such word."""
        ...

    def moved_off(self, control: Control, log: str) -> str:
        """Return the engine's own words for having left the GPU after it was ready, or nothing."""
        ...

"""What most adapters say alike: the base of those that are not llama-server's kin. Override what the engine does other.

The protocol itself, with the meaning of every method, is :class:`lqw.engines.base.Engine`.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Literal, Self

from lqw.engines.base import HttpRequest, Identity
from lqw.engines.binaries import executable_sha256
from lqw.engines.checks import check_binary, check_settings
from lqw.engines.control import ControlError
from lqw.engines.environment import scrubbed
from lqw.engines.fit import Need
from lqw.outcomes import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.engines.base import Compute, Environment, Prompt, Route, StartRequest, StreamFormat, Where
    from lqw.engines.control import Control
    from lqw.engines.fit import Sizes
    from lqw.params import EngineSpec
    from lqw.samples import Answer, Failure

__all__ = ["Adapter", "encoded", "post"]

BATCH_TOKENS = 16  # of which logits are kept at the least


class Adapter:
    """Takes text, speaks OpenAI's streams, ends on SIGTERM, serves from its start to its stop where it began.

    ``kinds``, ``least`` and ``words`` say which settings the params may hold
    (:func:`lqw.engines.checks.check_settings`).
    """

    name: str = ""
    stream_format: StreamFormat = "openai"
    takes: Literal["ids", "text"] = "text"
    routes: tuple[Route, ...] = ("completion",)
    dear_stream: bool = False
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    kinds: Mapping[str, type] = {}
    least: Mapping[str, int] = {}
    words: Mapping[str, Sequence[str]] = {}

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse unknown or impossible settings, and a binary that is missing or another one (ParamsError)."""
        del compute
        check_settings(spec, self.kinds, self.least, self.words, where)
        check_binary(spec, where)

    def need(self, sizes: Sizes, request: StartRequest) -> Need:
        """Return the file, a cache for each slot at two bytes a number, and the logits of a small batch.

        A cache of smaller numbers and layers kept off the GPU need less: they are counted as nothing.
        """
        settings = request.spec.settings
        whole = settings.get("gpu_layers", "all") == "all" or request.compute == "cpu"
        f16 = all(settings.get(name, "f16") == "f16" for name in ("cache_type_k", "cache_type_v"))
        return Need(
            weights=sizes.file if whole else 0,
            kv=request.slots * sizes.kv(request.context_tokens_per_slot) if f16 and whole else 0,
            state=request.slots * sizes.state_per_slot if whole else 0,
            compute=BATCH_TOKENS * sizes.row,
        )

    def place(self, spec: EngineSpec) -> tuple[str, int] | None:
        """Return None: it is started here."""
        del spec
        return None

    def environment(self, base: Mapping[str, str], request: StartRequest, port: int) -> Environment:
        """Return a scrubbed environment with the spec's own variables."""
        del port
        return scrubbed(base, request.spec.env)

    def load(self, control: Control, request: StartRequest) -> None:
        """Do nothing: the command line names the model."""
        del control, request

    def serving(self, settings: Mapping[str, Any], request: StartRequest) -> Self:
        """Return itself."""
        del settings, request
        return self

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return None: nothing is known of what it should say."""
        del settings, request
        return None

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return what it calls its version, and the hash of the running executable."""
        version = str(settings.get("version", ""))
        return Identity(f"{self.name} {version}", version, executable_sha256(pid))

    def unsupported(self, log: str) -> str:
        """Return nothing: a model it cannot load is a failed start."""
        del log
        return ""

    def chat_request(self, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool) -> HttpRequest:
        """Raise: such a step is refused before a start."""
        del prompt, n_predict, cache, stream
        raise ValueError(f"{self.name} has no chat route")

    def chat_ids(self, control: Control, text: str) -> list[int]:
        """Raise: it does not tell what its template makes of a text."""
        del control, text
        raise ControlError(Reason.UNSUPPORTED, f"{self.name} does not tell the tokens of a chat")

    def tokenize(self, control: Control, text: str) -> list[int]:
        """Raise: it has no such route."""
        del control, text
        raise ControlError(Reason.UNSUPPORTED, f"{self.name} turns no text into ids")

    def detokenize(self, control: Control, ids: Sequence[int]) -> str:
        """Raise: it has no such route."""
        del control, ids
        raise ControlError(Reason.UNSUPPORTED, f"{self.name} turns no ids into text")

    def answer(self, control: Control, request: HttpRequest, blank: Answer) -> Answer:
        """Raise: its untimed answers are not asked for."""
        del control, request, blank
        raise ControlError(Reason.UNSUPPORTED, f"{self.name} is not asked for token identity")

    def cached_tokens(self, log: str) -> int | None:
        """Return None: its log does not tell."""
        del log
        return None

    def formed(self, log: str) -> int | None:
        """Return None: its log does not tell."""
        del log
        return None

    def used_gpu(self, control: Control, log: str) -> tuple[bool | None, str]:
        """Return None: it says nothing of it; its memory on the GPU does."""
        del control, log
        return None, ""

    def moved_off(self, control: Control, log: str) -> str:
        """Return nothing: it stays where it began."""
        del control, log
        return ""


def post(path: str, body: Mapping[str, Any]) -> HttpRequest:
    """Return a request with its body encoded."""
    return HttpRequest(path, encoded(body))


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return a body as compact JSON."""
    return json.dumps(body, separators=(",", ":")).encode()

"""A started, proven engine: what the rest of lqw holds while it measures."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from lqw.engines.control import Control, ControlError
from lqw.engines.logprobs import with_margins
from lqw.host.memory import MemorySampler
from lqw.host.supervise import log_tail
from lqw.outcomes import Reason
from lqw.samples import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lqw.engines.attached import Guest
    from lqw.engines.base import Engine, HttpRequest, Prompt, Route, StreamFormat
    from lqw.host.gpu import VramMeter
    from lqw.host.supervise import Child
    from lqw.samples import EngineFacts

__all__ = ["RunningEngine"]

_LOST = frozenset({Reason.CONNECTION_RESET, Reason.STREAM_BROKEN})
# A dying process closes its sockets a moment before it can be waited for.
_END_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """One ready engine. Requests that fail give a :class:`Failure`; only wrong use raises.

    Attributes
    ----------
    ready_s : float
        Seconds from the start of the process to its first 200.
    facts : EngineFacts
        What runs: recorded after readiness, from the process itself.
    vram : VramMeter or None
        With a GPU: the meter whose baseline was taken before the start.
    model_bytes : int
        Size of the model's file; 0 where nothing was started.
    """

    engine: Engine
    child: Child | Guest
    host: str
    port: int
    ready_s: float
    facts: EngineFacts
    vram: VramMeter | None = None
    model_bytes: int = 0
    _stopped: list[bool] = field(default_factory=list, repr=False)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it, whatever happened."""
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process id (the leader of its session)."""
        return self.child.pid

    @property
    def log_path(self) -> Path:
        """Return where its output goes."""
        return self.child.log_path

    @property
    def stream_format(self) -> StreamFormat:
        """Return how its streams are to be parsed."""
        return self.engine.stream_format

    def format_of(self, route: Route) -> StreamFormat:
        """Return how the streams of a route are to be parsed: chat is OpenAI's everywhere."""
        return "openai" if route == "chat" else self.engine.stream_format

    def request_body(
        self,
        kind: str,
        prompt: Prompt,
        n_predict: int,
        *,
        cache: bool,
        stream: bool,
        slot: int | None = None,
        route: Route = "completion",
    ) -> HttpRequest:
        """Return path and encoded body of a greedy request (:meth:`Engine.request_body`, :meth:`Engine.chat_request`).

        A chat cannot be pinned to a slot.
        """
        if route == "chat":
            return self.engine.chat_request(prompt, n_predict, cache=cache, stream=stream)
        return self.engine.request_body(kind, prompt, n_predict, cache=cache, stream=stream, slot=slot)

    def tokenize(self, text: str) -> list[int] | Failure:
        """Return the ids the engine would serve *text* with, begin token included."""
        try:
            with Control(self.host, self.port) as control:
                return self.engine.tokenize(control, text)
        except ControlError as err:
            return self._explain(err.failure)

    def chat_ids(self, text: str) -> list[int] | Failure:
        """Return the ids of a chat whose only message is *text*, template and all."""
        try:
            with Control(self.host, self.port) as control:
                return self.engine.chat_ids(control, text)
        except ControlError as err:
            return self._explain(err.failure)

    def detokenize(self, ids: Sequence[int]) -> str | Failure:
        """Return the text of *ids*."""
        try:
            with Control(self.host, self.port) as control:
                return self.engine.detokenize(control, ids)
        except ControlError as err:
            return self._explain(err.failure)

    def answer(
        self,
        prompt: Prompt,
        n_predict: int,
        *,
        name: str,
        shape: str = "single",
        repeat: int = 0,
        stream: int = 0,
        cache: bool = False,
        slot: int | None = None,
        margins: bool = False,
        timeout_s: float = 600.0,
        route: Route = "completion",
    ) -> Answer:
        """Return the untimed greedy answer to *prompt*, ids included where the engine gives them; never raises.

        *margins* asks for each token's lead over its runner-up, which only llama-server's API gives without ado.
        """
        blank = Answer(prompt=name, shape=shape, repeat=repeat, stream=stream, text="")
        request = self.request_body("identity", prompt, n_predict, cache=cache, stream=False, slot=slot, route=route)
        if margins and self.format_of(route) == "llama":
            request = with_margins(request)
        try:
            with Control(self.host, self.port, timeout_s=timeout_s) as control:
                return self.engine.answer(control, request, blank)
        except ControlError as err:
            return blank.model_copy(update={"failure": self._explain(err.failure)})

    def log_mark(self) -> int:
        """Return how long the log is now, to be passed to :meth:`cached_tokens` and :meth:`formed`, bytes."""
        return self.log_path.stat().st_size

    def cached_tokens(self, mark: int) -> int | None:
        """Return how many prompt tokens the log since *mark* says were reused, or None where it says nothing."""
        return self.engine.cached_tokens(self._log_since(mark))

    def formed(self, mark: int) -> int | None:
        """Return how many requests the largest batch held by the log since *mark*, or None where it says nothing."""
        return self.engine.formed(self._log_since(mark))

    def used_gpu(self) -> tuple[bool | None, str]:
        """Return whether the GPU serves it now, and by what that is known; ask while no request is in flight.

        By the engine's own word, and by what its processes hold of the GPU's memory: half the model at the least, as at
        its start. Either of them can say no.
        """
        if self.facts.compute != "cuda":
            return None, ""
        try:
            with Control(self.host, self.port) as control:
                used, said = self.engine.used_gpu(control, self._log_since(0))
        except ControlError as err:
            used, said = None, str(err)
        held = None if self.vram is None else self.vram.held_bytes(self.child.tree())
        if held is not None:
            enough = held * 2 >= self.model_bytes
            used = enough if used is None else used and enough
            said = f"{said}; " * bool(said) + f"{held // 2**20:,} MiB of the GPU are its own"
        return used, said[:400]

    def moved_off(self) -> Failure | None:
        """Return NO_OFFLOAD where the engine has left the GPU while it served, or None; ask after the requests."""
        if self.facts.compute != "cuda":
            return None
        try:
            with Control(self.host, self.port) as control:
                said = self.engine.moved_off(control, self._log_since(0))
        except ControlError as err:
            return self._explain(err.failure)
        return Failure(reason=Reason.NO_OFFLOAD, detail=said[:4000]) if said else None

    def _log_since(self, mark: int) -> str:
        with self.log_path.open("rb") as handle:
            handle.seek(mark)
            return handle.read().decode(errors="replace")

    def memory(self) -> MemorySampler:
        """Return a sampler of its memory, to be used as a context around the requests."""
        return MemorySampler(self.pid, compute=self.facts.compute, vram=self.vram)

    def died(self, after: Failure | None = None) -> Failure | None:
        """Return ENGINE_DIED with the last log lines where the process has ended, else None.

        *after* is the failure of a request: a lost connection waits a moment for the end of the process that lost it.
        """
        end = time.monotonic() + (_END_GRACE_S if after is not None and after.reason in _LOST else 0.0)
        while self.child.returncode() is None:
            if time.monotonic() >= end:
                return None
            time.sleep(0.01)
        detail = f"{self.engine.name} {self.child.describe_end()} while it served"
        return Failure(reason=Reason.ENGINE_DIED, detail=detail, log_tail=log_tail(self.log_path))

    def stop(self, deadline_s: float = 10.0) -> Failure | None:
        """End the whole process tree, wait for it and for its GPU memory; name what would not go.

        A second call does nothing.
        """
        if self._stopped:
            return None
        self._stopped.append(True)
        end = time.monotonic() + deadline_s
        left = self.child.stop(deadline_s, signals=self.engine.stop_signals)
        if not left:
            return self._vram_returned(end)
        names = ", ".join(map(str, left))
        return Failure(
            reason=Reason.WRONG_PROCESS, detail=f"still there {deadline_s:g} s after the stop: {names}"[:4000]
        )

    def _vram_returned(self, end: float) -> Failure | None:
        while self.vram is not None and not self.vram.returned():
            if time.monotonic() >= end:
                detail = "the GPU's memory is still in use after the engine has ended: somebody else computes on it"
                return Failure(reason=Reason.CONTENDED, detail=detail)
            time.sleep(0.02)
        return None

    def _explain(self, failure: Failure) -> Failure:
        """Return the death of the engine where that is the cause of a failed request."""
        return self.died(failure) or failure

"""Start an engine and prove it: alive, listening itself, ready, with the planned settings, from the planned bytes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.engines.attached import attach, facts_of
from lqw.engines.control import Control, ControlError
from lqw.engines.fit import does_not_fit
from lqw.engines.last_words import last_words
from lqw.engines.running import RunningEngine
from lqw.host.gpu import VramMeter
from lqw.host.ports import free_port, who_listens, wrong_listener
from lqw.host.supervise import log_tail, note, start
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from lqw.engines.base import Engine, Environment, StartRequest
    from lqw.host.supervise import Child

__all__ = ["start_engine"]

_HOST = "127.0.0.1"
_POLL_S = 0.005
_WANTS_KEY = 401


def start_engine(engine: Engine, request: StartRequest, *, port: int | None = None) -> RunningEngine | Failure:
    """Start *engine* and return it ready and proven, or the reason why not. Call from the main thread only.

    Parameters
    ----------
    engine : Engine
        The adapter.
    request : StartRequest
        What to start; its spec has passed ``engine.check``.
    port : int, optional
        A fixed port; by default a free one.

    Returns
    -------
    RunningEngine or Failure
        ``DOES_NOT_FIT`` (by arithmetic, nothing was started), ``FAILED_START`` (exited, hung, cannot be executed),
        ``WRONG_PROCESS`` (another process listens, or other
        bytes run), ``WRONG_SETTINGS`` (read back other settings than planned). Nothing is left running then.
    """
    place = engine.place(request.spec)
    if place is not None:
        return attach(engine, request, place)
    if short := does_not_fit(engine, request):
        return short
    port = free_port() if port is None else port
    environment = engine.environment(os.environ, request, port)
    command = engine.command(request, port)
    if holders := who_listens(port):
        names = ", ".join(str(note(pid)) for pid in holders)
        return Failure(reason=Reason.WRONG_PROCESS, detail=f"port {port} is already served by {names}"[:4000])
    vram = VramMeter.begin() if request.compute == "cuda" else None
    began = time.perf_counter()
    child = start(command, env=environment.variables, log_path=request.log_path, run_id=request.run_id)
    started = _Started(engine, request, child, port, command, environment, vram)
    try:
        outcome = started.prove(began)
    except BaseException:
        child.stop(signals=())
        raise
    if isinstance(outcome, Failure):
        child.stop(signals=())
    return outcome


@dataclass(frozen=True, slots=True)
class _Started:
    """A process on its way to be proven."""

    engine: Engine
    request: StartRequest
    child: Child
    port: int
    command: list[str]
    environment: Environment
    vram: VramMeter | None

    def prove(self, began: float) -> RunningEngine | Failure:
        engine, child = self.engine, self.child
        with Control(_HOST, self.port) as control:
            ready_s = self.wait_ready(control, began)
            if isinstance(ready_s, Failure):
                return ready_s
            try:
                engine.load(control, self.request)
                settings = engine.read_back(control, child.log_path)
                identity = engine.identity(child.pid, settings)
            except ControlError as err:
                return self.failed(err.failure.reason, err.failure.detail)
        if problem := engine.mismatch(settings, self.request):
            return self.failed(problem.reason, problem.detail)
        if problem := self.not_offloaded():
            return problem
        pinned = self.request.spec.sha256
        if pinned not in (None, identity.binary_sha256):
            return self.failed(Reason.WRONG_PROCESS, f"runs sha256 {identity.binary_sha256}, the params pin {pinned}")
        facts = facts_of(engine, identity, settings, self.request).model_copy(
            update={"command": [_shortened(word) for word in self.command], "env": self.environment.recorded}
        )
        speaks = engine.serving(settings, self.request)
        size = self.request.model_path.stat().st_size
        return RunningEngine(speaks, child, _HOST, self.port, ready_s, facts, self.vram, model_bytes=size)

    def wait_ready(self, control: Control, began: float) -> float | Failure:
        """Poll until ready; the process's death, a foreign listener and the deadline each end it at once."""
        name, child, limit_s = self.engine.name, self.child, self.request.timeout_s
        while True:
            if child.returncode() is not None:
                if said := self.engine.unsupported(child.log_path.read_text(errors="replace")):
                    return self.failed(Reason.UNSUPPORTED, said)
                said = last_words(log_tail(child.log_path))
                return self.failed(Reason.FAILED_START, f"{name} {child.describe_end()} before it was ready{said}")
            ready = self.engine.is_ready(control)
            waited_s = time.perf_counter() - began
            if control.last_status == _WANTS_KEY:
                detail = f"{name} answers 401: it wants a key, from its own configuration or `env` of the params"
                return self.failed(Reason.FAILED_START, detail)
            if ready:
                problem = wrong_listener(self.port, child.pid)
                return waited_s if problem is None else self.failed(Reason.WRONG_PROCESS, problem)
            if waited_s > limit_s:
                detail = f"{name} was not ready {limit_s:g} s after its start; {_answered(control.last_status)}"
                return self.failed(Reason.FAILED_START, detail)
            time.sleep(_POLL_S)

    def not_offloaded(self) -> Failure | None:
        """Return NO_OFFLOAD where the GPU holds too little for the model to be on it, whatever the log says.

        Half the file: embeddings may stay on the host, but a fallback to the CPU leaves a bare context at most.
        """
        if self.vram is None:
            return None
        self.vram.sample(self.child.tree())
        held, size = self.vram.peak_bytes or 0, self.request.model_path.stat().st_size
        if held * 2 >= size:
            return None
        detail = f"{held} bytes on the GPU ({self.vram.method}) for a model of {size}: served from the CPU"
        return self.failed(Reason.NO_OFFLOAD, detail)

    def failed(self, reason: Reason, detail: str) -> Failure:
        return Failure(reason=reason, detail=detail[:4000], log_tail=log_tail(self.child.log_path))


def _answered(status: int | None) -> str:
    return "it never answered, or not in time" if status is None else f"its last answer was {status}"


def _shortened(word: str) -> str:
    """Return a word of a command line without the folders of this machine."""
    return Path(word).name if word.startswith("/") else word

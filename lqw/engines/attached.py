"""A server that already runs: nothing is started, nothing stopped, and as much is proven as can be seen from here."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING, Any

from lqw.engines.control import Control, ControlError
from lqw.engines.running import RunningEngine
from lqw.host.ports import who_listens
from lqw.host.supervise import tree
from lqw.outcomes import Reason
from lqw.samples import EngineFacts, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lqw.engines.base import Engine, Identity, StartRequest
    from lqw.host.supervise import ProcessNote

__all__ = ["Guest", "attach", "facts_of"]


class Guest:
    """A process of somebody else, or one on another machine (``pid`` 0): it is watched, and left alone."""

    def __init__(self, pid: int, log_path: Path) -> None:
        self.pid = pid
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.touch()

    def returncode(self) -> int | None:
        """Return None: its end is not ours to wait for."""
        return None

    def describe_end(self) -> str:
        """Return nothing."""
        return ""

    def tree(self) -> list[int]:
        """Return its processes, none where it runs elsewhere."""
        return tree(self.pid) if self.pid else []

    def stop(self, deadline_s: float = 0.0, *, signals: Sequence[int] = ()) -> list[ProcessNote]:
        """Leave it running."""
        del deadline_s, signals
        return []


def facts_of(engine: Engine, identity: Identity, settings: Mapping[str, Any], request: StartRequest) -> EngineFacts:
    """Return the facts of a server by what it said of itself."""
    return EngineFacts(
        engine=engine.name,
        version=identity.version,
        build=identity.build,
        binary_sha256=identity.binary_sha256,
        command=[],
        env={},
        settings=dict(settings),
        compute=request.compute,
    )


def attach(engine: Engine, request: StartRequest, place: tuple[str, int]) -> RunningEngine | Failure:
    """Return the server at *place* ready to be asked, or why it cannot be (FAILED_START, WRONG_SETTINGS).

    Its process is known where it listens on this machine and may be looked at; else nothing of its memory is.
    """
    host, port = place
    began = time.perf_counter()
    pids = who_listens(port) if _is_here(host) else []
    guest = Guest(pids[0] if len(pids) == 1 else 0, request.log_path)
    with Control(host, port) as control:
        if not engine.is_ready(control):
            return Failure(reason=Reason.FAILED_START, detail=f"no server answers at {host}:{port}")
        try:
            engine.load(control, request)
            settings = engine.read_back(control, guest.log_path)
            identity = engine.identity(guest.pid, settings)
        except ControlError as err:
            return err.failure
    if problem := engine.mismatch(settings, request):
        return problem
    facts = facts_of(engine, identity, settings, request)
    return RunningEngine(engine.serving(settings, request), guest, host, port, time.perf_counter() - began, facts)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

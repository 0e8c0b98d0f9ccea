"""The record of one stream as ``apr parity`` takes it: CPU against GPU of one binary, over whole logits."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict
from lqw.engines.binaries import file_sha256, version_words
from lqw.engines.environment import scrubbed
from lqw.errors import IntegrityError
from lqw.host.once import run_once
from lqw.parity.envelope import Taken
from lqw.parity.hardware import hardware, utc_now
from lqw.parity.start import EngineFailed

if TYPE_CHECKING:
    from pathlib import Path

    from lqw.host.once import Done
    from lqw.params import EngineSpec

__all__ = ["record_by_tool"]

_REFUSED = 12  # this build cannot measure that architecture
_ENDED = (0, 5)  # parity held, parity disproven: both are measurements
_USAGE = 2  # of a program that does not know the word
_LIMIT_S = 1800.0
_OTHERWISE = "compare two llama.cpp: --engine llama_server --binary A --against-binary B (labelled as that method)"


def record_by_tool(spec: EngineSpec, model: Path, prompt: str, *, limit_s: float = _LIMIT_S) -> Taken:
    """Run ``BINARY parity MODEL --json`` and return what it measured, whatever that says.

    Raises
    ------
    EngineFailed
        The binary has no ``parity``, refuses the architecture, or gave no record (no CUDA device, a crash): nothing
        was measured, so there is no receipt.
    """
    program, began = str(spec.binary), utc_now()
    environment = scrubbed(os.environ, spec.env)
    words = ["--json", "--quiet", "--prompt", prompt]
    done = run_once([program, "parity", str(model), *words], env=environment.variables, timeout_s=limit_s)
    raw = _measured(done)
    sha256 = file_sha256(program)
    return Taken(
        raw=raw | {"model": model.name},  # without the folders of this machine
        version=version_words(program, sha256).removeprefix("apr "),
        backend="cuda",
        comparator={"kind": "none", "reason": "CPU and GPU of one binary are compared"},
        command=["apr", "parity", model.name, *words],
        binary_sha256=sha256,
        started_utc=began,
        hardware=hardware(model, cuda=True),
    )


def _measured(done: Done) -> dict[str, Any]:
    """Return the record in a tool's output, or raise with its own last words."""
    said = _last_lines(done.err) or _last_lines(done.out) or "it said nothing"
    if done.status == _REFUSED:
        raise EngineFailed(f"apr parity cannot measure this model: {said}", remedy=_OTHERWISE)
    if done.status == _USAGE and "unrecognized subcommand" in done.err:
        raise EngineFailed(f"this binary has no `parity`: {said}", remedy=_OTHERWISE)
    if done.status is None:
        raise EngineFailed(f"apr parity was stopped at its time limit: {said}", remedy="a shorter --prompt")
    begin = 0 if done.out.startswith("{") else done.out.find("\n{") + 1
    with suppress(IntegrityError):
        value = loads_strict(done.out[begin:], name="apr parity --json")
        if done.status in _ENDED and isinstance(value, dict) and "metrics" in value:
            return value
    raise EngineFailed(
        f"apr parity ended with status {done.status} and no record: {said}",
        remedy="it needs a CUDA build and device; see its message",
    )


def _last_lines(text: str, count: int = 3) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:])[:600]

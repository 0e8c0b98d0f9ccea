"""What ``lqw selftest --live`` needs and where it is: host, apr, llama-server, model. What is missing is said by name.

Looked for in this order, and never on PATH, where a stale build may lie: the command line, ``LQW_APR`` and
``LQW_LLAMA_SERVER``, the host's file, ``runs/engines`` of the checkout, and for apr ``shared/engines`` beside it.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lqw.engines.apr_generations import generation_of
from lqw.engines.base import Where
from lqw.engines.binaries import file_sha256, version_words
from lqw.engines.registry import get_engine
from lqw.errors import LqwError, ParamsError, UsageError
from lqw.host.gpu import gpu_facts
from lqw.params import EngineSpec, HostSpec
from lqw.params.loading import parse_spec
from lqw.pipeline.runs import params_folder
from lqw.synth import Recipe, made_up_vocabulary, read_vocabulary, synthesise
from lqw.testing.real_engines import program, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["SLOW", "Asked", "Parts", "find_parts", "host_here", "model_file"]

SLOW = {"APR_QWEN35_SESSION_PREFILL": "per-token"}
"""The variable that forces a real apr to prefill one token a step, as 0.69.1 did."""

SHAPE = "qwen3.5-0.8b"
_MOST_THREADS = 16
_Found = TypeVar("_Found")
_CAN_BE_SLOWED = "live completions"  # the generation of apr that knows the variable


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line named; None: look for it."""

    host: str | None = None
    apr: Path | None = None
    llama_server: Path | None = None
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a live proof is made of; the slowed subject differs from the healthy one in its environment alone."""

    host: HostSpec
    healthy: EngineSpec
    slowed: EngineSpec
    comparator: EngineSpec
    model: Path
    shows_slow: str = ""  # what the slowed subject's log must say, where there is such a word


def find_parts(asked: Asked, engines: Path) -> Parts:
    """Return what there is, the model synthesised into *engines* where none is; nothing is started.

    Raises
    ------
    UsageError
        Something is not here: every missing part is named. Never a verdict.
    """
    missing: list[str] = []
    host = _or_missing(missing, lambda: host_here(asked.host))
    apr = _or_missing(missing, lambda: _program("apr", asked.apr, host, engines))
    llama = _or_missing(missing, lambda: _program("llama_server", asked.llama_server, host, engines))
    if missing or host is None or apr is None or llama is None:
        raise UsageError(
            "the live proof cannot be made here, and nothing was decided: " + "; ".join(missing),
            remedy="run it on the GPU host, with --host, --apr and --llama-server; `lqw selftest` alone needs neither",
        )
    threads = {"threads": min(_MOST_THREADS, len(os.sched_getaffinity(0)))}
    healthy = _spec("apr", apr, host, threads)
    return Parts(
        host=host,
        healthy=healthy,
        slowed=healthy.model_copy(update={"env": SLOW}),
        comparator=_spec("llama_server", llama, host, {"flash_attn": "on"}),
        model=asked.model or model_file(engines, SHAPE),
        shows_slow="APR_QWEN35_SESSION_PREFILL=per-token: prompts prefill one token at a time",
    )


def _or_missing(missing: list[str], look: Callable[[], _Found]) -> _Found | None:
    try:
        return look()
    except LqwError as err:
        missing.append(err.message)
        return None


def host_here(name: str | None) -> HostSpec:
    """Return the host of that name, or the one whose class this machine is, or one for any machine with a GPU.

    Raises
    ------
    UsageError
        No GPU is here, or the named host has none: on a processor apr prefills one token at a time anyway.
    """
    try:
        gpu = gpu_facts()
    except UsageError as err:
        raise UsageError(f"no GPU: {err.message.rpartition('says: ')[2]}") from err
    root = params_folder("hosts")
    known = [parse_spec(HostSpec, path, {}, root, remedy="mend it") for path in sorted((root / "hosts").glob("*.yaml"))]
    if name is not None:
        named = [one for one in known if name.casefold() in (said.casefold() for said in (one.name, *one.aliases))]
        if not named:
            raise UsageError(f"--host {name}: no such file in params/hosts", remedy="name one that is there")
        if named[0].compute != "cuda":
            raise UsageError(f"host {name} computes on the CPU, where apr prefills one token at a time anyway")
        return named[0]
    here = {"machine": platform.machine(), "gpu": str(gpu["gpu"])}
    for one in known:
        wanted = one.class_
        if wanted and wanted.gpu and wanted.gpu in here["gpu"] and wanted.machine in (None, here["machine"]):
            return one
    return HostSpec.model_validate(
        {"schema": "lqw-host/1", "name": "live", "compute": "cuda", "lock": "/tmp/apr-gpu.lock"}  # noqa: S108 - all take it
    )


def _program(engine: str, named: Path | None, host: HostSpec | None, engines: Path) -> Path:
    file = engine.replace("_", "-")
    if named is not None:
        path = named
    elif said := os.environ.get(f"LQW_{engine.upper()}"):
        path = Path(said)
    else:
        path = next((one for one in _places(engine, file, host, engines) if one.is_file()), engines / file)
        if engine == "apr" and not path.is_file():
            path = program("apr", engines)  # unpacked from beside the checkout, or UsageError by name
    spec = EngineSpec(engine=engine, binary=str(path))
    try:
        get_engine(engine).check(spec, compute="cuda", where=Where("selftest --live", engine))
    except ParamsError as err:
        raise UsageError(f"no {file}: {path}: {err.problem}") from err
    if engine == "apr":
        _refuse_other_generation(path)
    return path


def _places(engine: str, file: str, host: HostSpec | None, engines: Path) -> Iterator[Path]:
    if host is not None and engine in host.engines and (binary := host.engines[engine].binary):
        yield Path(binary)
    yield engines / f"{file}-cuda"
    yield engines / file


def _refuse_other_generation(path: Path) -> None:
    """Raise UsageError where a program is no apr, or one that does not know the variable: all arms would be equal."""
    words = version_words(str(path), file_sha256(path))
    if not words.startswith("apr "):
        raise UsageError(f"no apr: {path} --version says {words[:80]!r}")
    generation = generation_of(words.removeprefix("apr "))
    if generation.name != _CAN_BE_SLOWED:
        raise UsageError(f"{words} cannot be told to prefill one token at a time (0.72.3 and later can)")


def _spec(engine: str, binary: Path, host: HostSpec, settings: Mapping[str, int | str]) -> EngineSpec:
    here = host.engines[engine].settings if engine in host.engines else {}
    return EngineSpec(
        engine=engine, binary=str(binary.absolute()), sha256=file_sha256(binary), settings={**settings, **here}
    )


def model_file(engines: Path, shape: str) -> Path:
    """Return a synthetic model of that shape in *engines*, made there first where it is not (0.8B: 15 s, 0.5 GB)."""
    path = engines / f"synthetic-{shape}.gguf"
    if not path.is_file():
        engines.mkdir(parents=True, exist_ok=True)
        try:
            words = read_vocabulary(vocabulary())
        except UsageError:
            words = made_up_vocabulary()
        synthesise(Recipe(shape, "q4_k_m", words), path)
    return path

"""What ``lqw bench`` measures: parameters made of a command line, starts or a running server, and its JSON."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import lqw
from lqw.collect.bench import MODEL, BenchSite, bench_rows, bench_starts
from lqw.collect.preflight import corpus_text
from lqw.collect.prompts import PromptStore
from lqw.collect.session import calibrated, worst_load
from lqw.collect.watch import watched_gpu
from lqw.engines.base import Where
from lqw.engines.binaries import file_sha256
from lqw.engines.models import resolve_models
from lqw.engines.registry import get_engine
from lqw.errors import LqwError, UsageError
from lqw.host.fingerprint import host_facts
from lqw.host.gpu import open_gpu
from lqw.params import EngineSpec, HostSpec, ModelSpec, Params, ProtocolSpec, ReleaseSpec, TargetsSpec, load_params
from lqw.params.loading import parse_spec
from lqw.pipeline.runs import params_folder
from lqw.receipt.client import client_voids

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.collect.bench import BenchRow
    from lqw.collect.calibrate import Calibration
    from lqw.engines.base import Compute
    from lqw.samples import StartRecord

    Progress = Callable[[dict[str, Any]], None]

__all__ = ["Benched", "compute_of", "engine_spec", "of_engine", "of_server", "protocol_path"]

SCHEMA = "lqw-bench/1"


def protocol_path(name: str | None, compute: Compute) -> Path:
    """Return the file of a protocol: itself, or the one of that name in ``params/protocols/``; UsageError without.

    By default thirteen rows: those of a release on a GPU, shorter ones on a CPU.
    """
    if name is None:
        name = "thirteen" if compute == "cuda" else "thirteen-short"
    return Path(name) if name.endswith(".yaml") else params_folder(f"protocols/{name}.yaml") / f"protocols/{name}.yaml"


def engine_spec(engine: str, binary: Path | None, settings: list[str]) -> EngineSpec:
    """Return an engine as the command line names it; UsageError where a setting is not NAME=VALUE."""
    found: dict[str, Any] = {}
    for word in settings:
        name, equals, text = word.partition("=")
        value = yaml.safe_load(text) if equals else None
        if not isinstance(value, bool | int | float | str):
            raise UsageError(f"--set {word}: not NAME=VALUE", remedy="write it as --set threads=2")
        found[name] = value
    return EngineSpec(engine=engine, binary=None if binary is None else str(binary), settings=found)


def _params(spec: EngineSpec, path: Path, model: ModelSpec | None, compute: Compute) -> Params:
    """Return the parameters of a run of this engine alone; ParamsError and IntegrityError as in a gate."""
    files: dict[str, str] = {}
    root = path.resolve().parent.parent
    protocol = parse_spec(ProtocolSpec, path, files, root, remedy="name a protocol of params/protocols/")
    corpus = root / "prompts" / protocol.corpus
    files[f"prompts/{protocol.corpus}"] = _sha256(corpus)
    none = ModelSpec(name=MODEL, gguf="none", sha256="unpinned")
    release = {
        "schema": "lqw-release/1", "release": "0", "hosts": ["bench"], "protocol": protocol.name, "seed": 0,
        "subject": spec, "comparator": spec, "models": [(model or none).model_copy(update={"name": MODEL})],
    }  # fmt: skip
    return Params(
        path=str(path.resolve()),
        release=ReleaseSpec.model_validate(release),
        host=HostSpec.model_validate({"schema": "lqw-host/1", "name": "bench", "compute": compute}),
        protocol=protocol,
        targets=TargetsSpec.model_validate({"schema": "lqw-targets/1"}),
        prompts={},
        files=files,
    )


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}", remedy="name a file that can be read") from err


def _model(engine: str, model: str | None) -> ModelSpec:
    """Return the model of the bytes on disk; for the embedded engine, by default, the demo's."""
    if model is not None:
        return ModelSpec(name="model", gguf=str(Path(model).absolute()), sha256=_sha256(Path(model)))
    if engine != "embedded":
        raise UsageError(f"{engine} needs a model", remedy="name a GGUF file with --model")
    return load_params(params_folder("demo") / "demo" / "1.1.0.yaml").release.models[0]


def compute_of(engine: str | None) -> Compute:
    """Return what an engine computes on where nobody says: cuda where there is a GPU, but for the embedded one."""
    if engine == "embedded":
        return "cpu"
    try:
        open_gpu()
    except LqwError:
        return "cpu"
    return "cuda"


def of_engine(
    spec: EngineSpec,
    path: Path,
    *,
    model: str | None,
    starts: int,
    compute: Compute,
    progress: Progress,
    deadline_s: float | None = None,
) -> Benched:
    """Start an engine *starts* times for every launch of the protocol at *path*, and return its rows and facts.

    Raises
    ------
    ParamsError, UsageError
        Engine, model or protocol are not what they must be; nothing was started.
    HostBusy
        Somebody else computes on the GPU.
    """
    named = _model(spec.engine, model)
    params = _params(spec, path, named, compute)
    models = resolve_models(params, Path("runs/models").absolute())
    name = Path(named.gguf.removeprefix("package:")).name
    found = _measure(params, models, starts, progress, deadline_s=deadline_s)
    return found.named(f"{name}, sha256 {named.sha256[:12]}…", {"model_sha256": named.sha256, "starts": starts})


def of_server(
    url: str,
    path: Path,
    *,
    model: str | None,
    chat: bool,
    starts: int,
    progress: Progress,
    deadline_s: float | None = None,
) -> Benched:
    """Ask the server at *url* what the protocol says, and return its rows; UsageError where it cannot be asked."""
    settings: dict[str, Any] = {"url": url.rstrip("/").removesuffix("/v1"), "chat": chat}
    spec = EngineSpec(engine="openai_url", settings=settings if model is None else settings | {"model": model})
    params = _params(spec, path, None, "cpu")
    # How fast it is, nobody knows: the client is calibrated for a fast one.
    found = _measure(params, {MODEL: Path()}, starts, progress, gap_ms=2.0, deadline_s=deadline_s)
    route = "chat completions" if chat else "completions"
    return found.named(model or "the first model it lists", {"url": url, "route": route, "starts": starts})


def _measure(
    params: Params,
    models: dict[str, Path],
    starts: int,
    progress: Progress,
    *,
    gap_ms: float | None = None,
    deadline_s: float | None,
) -> Benched:
    """Measure until *deadline_s*, by default the protocol's own; what is under way then fails as TIMEOUT."""
    spec = params.release.subject
    adapter = get_engine(spec.engine, file="the command line", field="ENGINE")
    adapter.check(spec, compute=params.host.compute, where=Where("the command line", "ENGINE"))
    with tempfile.TemporaryDirectory(prefix="lqw-bench-") as folder:
        site = BenchSite(
            params=params,
            run_dir=Path(folder),
            run_id=f"bench-{time.time_ns()}",
            models=models,
            prompts=PromptStore(Path(folder) / "prompts.json"),
            corpus=corpus_text(params),
            base_ns=time.perf_counter_ns(),
            gpu=watched_gpu(params.host),
            progress=progress,
            end_s=time.monotonic() + (deadline_s or params.protocol.total_deadline_s),
        )
        calibration = calibrated(site, worst_load(params, gap_ms))
        return Benched(params, bench_starts(site, starts), calibration)


@dataclass(frozen=True, slots=True)
class Benched:
    """What was measured: the raw records of every start, and the JSON made of them."""

    params: Params
    starts: list[StartRecord]
    calibration: Calibration
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Return whether every row that such a host can have has a value: a CPU host has no GPU memory."""
        excused = {"vram_peak"} if self.params.host.compute == "cpu" else set()
        return not any(row["failure"] and row["row"] not in excused for row in self.body["rows"])

    def named(self, model: str, facts: dict[str, Any]) -> Benched:
        """Return it with the JSON form: what was measured, on what, with which client."""
        host = host_facts("bench", self.params.host.compute)
        client = self.calibration.to_json()
        seen = next((record.engine for record in self.starts if record.engine is not None), None)
        told = self.params.release.subject.engine if seen is None else f"{seen.engine} {seen.version}"
        if seen is not None and seen.binary_sha256:
            told += f", binary sha256 {seen.binary_sha256[:12]}…"
        body = {
            "schema": SCHEMA,
            "engine": told,
            "model": f"{model}, protocol {self.params.protocol.name}",
            "host": f"{host.gpu or host.cpu_model}, {host.cores} cores",
            "client": f"client error: TTFT p50 {client['ttft_error_p50_ms']} ms, p99 {client['ttft_error_p99_ms']} ms; "
            f"flags: {client['flags']}",
            "rows": [row.to_json() for row in _voided(bench_rows(self.params.protocol, self.starts), client)],
            "calibration": client,
            "facts": None if seen is None else seen.model_dump(mode="json"),
            "host_facts": host.model_dump(mode="json"),
            "lqw_version": lqw.__version__,
        }
        return replace(self, body=body | facts)


def _voided(rows: list[BenchRow], client: dict[str, object]) -> list[BenchRow]:
    """Return the rows; where the client was too late, as in a gate, what was timed is void and says what it was."""
    late = client_voids(client, [row.row for row in rows])
    out = []
    for row in rows:
        why = late.get(row.row)
        if why is not None and row.failure is None:
            seen = f"{why.detail}; it read {row.value:.4g} {row.row.kind.unit}"
            out.append(replace(row, value=None, sd_fraction=None, failure=why.model_copy(update={"detail": seen})))
        else:
            out.append(row)
    return out

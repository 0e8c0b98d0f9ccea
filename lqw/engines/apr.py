"""``apr serve run``: the subject of the gate.

Settings of the params, all optional::

    threads: int              RAYON_NUM_THREADS; default: all 16 that apr takes on any host, unless set
    gpu_layers: int | "all"   default "all" on cuda; a CPU host always gets --no-gpu

Every row goes by ``/v1/completions``, the route llama-server's ``/completion`` is compared with: raw text in, no chat
template. It takes no ids, forces no length (an early end is SHORT_OUTPUT), and tells neither timings nor reuse; what
it lacks comes from the log (:mod:`lqw.engines.apr_log`). Untimed answers go by ``/generate``, which gives exact ids,
and those of a serving witness by chat, which forms batches (:mod:`lqw.engines.apr_chat`).
What a generation of apr cannot do is in :mod:`lqw.engines.apr_generations`.
"""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.engines import apr_chat, apr_log
from lqw.engines.adapter import Adapter, encoded, post
from lqw.engines.apr_generations import generation_of
from lqw.engines.base import Environment, HttpRequest, Identity
from lqw.engines.binaries import executable_sha256, version_words
from lqw.engines.control import ControlError
from lqw.engines.environment import scrubbed
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.engines.base import Compute, Prompt, Route, StartRequest, Where
    from lqw.engines.control import Control
    from lqw.engines.fit import Need, Sizes
    from lqw.params import EngineSpec
    from lqw.samples import Answer

__all__ = ["Apr"]

ROUTE = "/v1/completions"
_ON_GPU, _ON_CPU = ("cuda", "gpu"), ("cpu",)
_FIRST_STATE = 4_096  # tokens; completions queue, so one state at a time is certain
_VOIDS = ("SKIP_PARITY_GATE",)


class Apr(Adapter):
    """The adapter."""

    name = "apr"
    kinds: Mapping[str, type] = {"threads": int, "gpu_layers": object}
    least: Mapping[str, int] = {"threads": 1, "gpu_layers": 0}
    routes: tuple[Route, ...] = ("completion", "chat")
    dear_stream = True  # a streamed completion decodes everything again for each token
    stop_signals = (signal.SIGINT, signal.SIGTERM)  # SIGINT is its graceful stop; SIGTERM kills

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse unknown settings, a setting that contradicts the host, forbidden variables, a wrong binary."""
        layers = spec.settings.get("gpu_layers")
        if layers is not None and (compute == "cpu" or layers in (0, "0")):
            raise ParamsError(
                file=where.file,
                field=f"{where.field}.settings.gpu_layers",
                value=layers,
                problem=f"the host computes on {compute}: one arm on a CPU against one on a GPU is no ratio",
                remedy="remove the setting; the host's `compute` decides",
            )
        for name in _VOIDS:
            if name in spec.env:
                raise ParamsError(
                    file=where.file,
                    field=f"{where.field}.env.{name}",
                    value=spec.env[name],
                    problem="switches off apr's own proof that it computes the right thing",
                    remedy="remove the variable",
                )
        super().check(spec, compute=compute, where=where)

    def need(self, sizes: Sizes, request: StartRequest) -> Need:
        """Return apr's own rule: states begin at 4,096 tokens and double; on a GPU the layers stand there in f16 too.

        The f16 copy is what its log calls "fp16 prefill weights prewarmed" (949 MiB for 0.8B); a one-token prefill and
        other prefill kernels make none.
        """
        plain, env = super().need(sizes, request), request.spec.env
        tokens = _FIRST_STATE
        while tokens < request.context_tokens_per_slot:
            tokens *= 2
        f16 = request.compute == "cuda" and not {"APR_QWEN35_SESSION_PREFILL", "APR_QWEN35_PREFILL_GEMM"} & env.keys()
        return replace(
            plain,
            weights=plain.weights + (2 * sizes.matrices if f16 and plain.weights else 0),
            kv=sizes.kv(tokens) if plain.kv else 0,
            state=sizes.state_per_slot if plain.state else 0,
        )

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and arguments."""
        program = str(Path(request.spec.binary or "").absolute())
        words = [program, "serve", "run", str(request.model_path), "--host", "127.0.0.1", "--port", str(port)]
        if request.compute == "cpu":
            return [*words, "--no-gpu"]
        return [*words, "--gpu-layers", str(request.spec.settings.get("gpu_layers", "all"))]

    def environment(self, base: Mapping[str, str], request: StartRequest, port: int) -> Environment:
        """Return a scrubbed environment: a stray APR_API_KEY would answer 401 to everything."""
        del port
        spec = request.spec
        threads = spec.settings.get("threads")
        own = spec.env if threads is None else {"RAYON_NUM_THREADS": str(threads), **spec.env}
        return scrubbed(base, own)

    def is_ready(self, control: Control) -> bool:
        """Return whether ``/health`` is 200: the port opens only after the load."""
        return control.status("/health") == 200  # noqa: PLR2004

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return what ``/health``, ``/v1/effective-config`` and the log say is in force."""
        health = control.get("/health")
        try:
            settings: dict[str, Any] = {
                "version": str(health["version"]),
                "compute_mode": str(health["compute_mode"]).lower(),
                "model_loaded": bool(health["model_loaded"]),
            }
        except (KeyError, TypeError) as err:
            detail = f"/health is not apr's: {type(err).__name__} {err}"
            raise ControlError(Reason.WRONG_PROCESS, detail) from err
        if said := health.get("binary_sha256"):
            settings["binary_sha256"] = str(said)
        generation = generation_of(settings["version"])
        settings |= {"route": ROUTE, "generation": generation.name, "capabilities": generation.capabilities()}
        if generation.effective_config:
            config = control.get("/v1/effective-config")
            settings |= {"effective": _effective(config), **_model(config)}
        if layers := apr_log.gpu_layers(log_path.read_text(errors="replace")):
            settings["layers_offloaded"] = layers
        return settings

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return what in force is not the plan's: model, device, or a generation that cannot give the rows."""
        generation = generation_of(settings["version"])
        if generation.unsupported:
            return Failure(
                reason=Reason.UNSUPPORTED,
                detail=f"apr {settings['version']} ({generation.name}): {generation.unsupported}",
            )
        if not settings["model_loaded"]:
            return Failure(reason=Reason.WRONG_SETTINGS, detail="/health says that no model is loaded")
        if problem := _other_model(settings, request):
            return Failure(reason=Reason.WRONG_SETTINGS, detail=problem)
        wanted = _ON_GPU if request.compute == "cuda" else _ON_CPU
        if settings["compute_mode"] not in wanted:
            detail = f"compute_mode {settings['compute_mode']}, planned {request.compute}"
            return Failure(reason=Reason.NO_OFFLOAD, detail=detail)
        layers = str(settings.get("layers_offloaded", ""))
        if request.compute == "cuda" and request.spec.settings.get("gpu_layers", "all") == "all":
            done, _, of = layers.partition("/")
            if not layers or done != of:
                detail = f"layers on the GPU: {layers or 'none printed'}, planned all"
                return Failure(reason=Reason.NO_OFFLOAD, detail=detail)
        return None

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return the version with its commit, and the hash of the running executable; /health's must be the same."""
        running = executable_sha256(pid)
        said = settings.get("binary_sha256")
        if said is not None and said != running:
            raise ControlError(Reason.WRONG_PROCESS, f"/health says binary {said}, pid {pid} runs {running}")
        version = str(settings["version"])
        words = version_words(f"/proc/{pid}/exe", running)
        told = words if words.startswith(f"apr {version}") else f"apr {version}"
        return Identity(version=told, build=version, binary_sha256=running)

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return a greedy completion, ``/generate`` for ``identity``, chat for ``witness``; reuse cannot be chosen."""
        del cache, slot
        if prompt.text is None:
            raise ValueError("apr takes text, and this prompt has none")
        body: dict[str, Any] = {"prompt": prompt.text, "max_tokens": n_predict, "temperature": 0.0}
        if kind == "identity":
            return post("/generate", body)
        if kind == "witness":
            return post(apr_chat.ROUTE, apr_chat.chat_body(prompt.text, n_predict))
        return post(ROUTE, {"model": "m", **body, "stream": stream})

    def chat_request(self, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool) -> HttpRequest:
        """Return a greedy chat, its length forced; untimed ones name their ids."""
        del cache
        if prompt.text is None:
            raise ValueError("apr takes text, and this prompt has none")
        return post(apr_chat.ROUTE, apr_chat.timed_chat_body(prompt.text, n_predict, stream=stream))

    def tokenize(self, control: Control, text: str) -> list[int]:
        """Return the ids apr serves *text* with, as ``/generate`` gives them; ``/tokenize`` is another tokenizer."""
        return _generated(control.post("/generate", encoded({"prompt": text, "max_tokens": 1, "temperature": 0.0})))[0]

    def answer(self, control: Control, request: HttpRequest, blank: Answer) -> Answer:
        """Send a ``/generate``, whose ids are those of the prompt and the answer, or a chat."""
        value = control.post(request.path, request.body)
        if request.path == apr_chat.ROUTE:
            return blank.model_copy(update=apr_chat.chat_fields(value))
        prompt, generated = _generated(value)
        wanted = int(json.loads(request.body)["max_tokens"])
        return blank.model_copy(
            update={
                "prompt_tokens": len(prompt),
                "ids": generated,
                "text": str(value.get("text", "")),
                "finish": "limit" if len(generated) >= wanted else "stop",
            }
        )

    def cached_tokens(self, log: str) -> int | None:
        """Return the position the last prefill began at; a CPU server does not say."""
        return apr_log.reused_tokens(log)

    def formed(self, log: str) -> int | None:
        """Return the largest batch; None on a processor and for completions, which queue for a lock."""
        return max(apr_log.batches(log), default=None)

    def used_gpu(self, control: Control, log: str) -> tuple[bool | None, str]:
        """Return what an answer of one token says (``used_gpu``; streams have no such word), /health and the log."""
        said = control.post(ROUTE, encoded({"model": "m", "prompt": "a", "max_tokens": 1, "temperature": 0.0}))
        told = said.get("used_gpu") if isinstance(said, dict) else None
        if moved := self.moved_off(control, log):
            return False, moved
        return (told if isinstance(told, bool) else None), f"used_gpu: {json.dumps(told)} in an answer"

    def moved_off(self, control: Control, log: str) -> str:
        """Return apr's words for having left the GPU: its self-check runs at the first request, not at the load."""
        if said := apr_log.fallback(log):
            return said
        mode = str(control.get("/health").get("compute_mode", "")).lower()
        return "" if mode in _ON_GPU else f"/health says compute_mode {mode or 'nothing'} after the requests"


def _generated(value: Any) -> tuple[list[int], list[int]]:
    """Return the ids of the prompt and those generated, of a ``/generate`` answer."""
    try:
        ids, count = list(value["token_ids"]), int(value["num_generated"])
    except (KeyError, TypeError, ValueError) as err:
        raise ControlError(Reason.HTTP_ERROR, f"/generate gave no ids: {type(err).__name__} {err}") from err
    if not all(type(one) is int for one in ids) or not 0 <= count <= len(ids):
        raise ControlError(Reason.HTTP_ERROR, "/generate gave ids or a count that cannot be")
    return ids[: len(ids) - count], ids[len(ids) - count :]


def _model(config: Any) -> dict[str, Any]:
    """Return name, size and longest context of the file it says it serves, as far as it says so; no folder."""
    model = config.get("model") if isinstance(config, dict) else None
    if not isinstance(model, dict):
        return {}
    told = {"model_bytes": model.get("size_bytes"), "context_tokens_max": model.get("model_max_context_length")}
    name = {"model": Path(model["path"]).name} if isinstance(model.get("path"), str) else {}
    return name | {key: value for key, value in told.items() if type(value) is int and value > 0}


def _other_model(settings: Mapping[str, Any], request: StartRequest) -> str:
    """Return how the model it says it serves is not the plan's: another file, or too short a context; or nothing."""
    size = request.model_path.stat().st_size if request.model_path.is_file() else None
    told = settings.get("model"), settings.get("model_bytes")
    if all(one is not None for one in (size, *told)) and told[0] != request.model_path.name and told[1] != size:
        return f"serves {told[0]} of {told[1]} bytes, planned {request.model_path.name} of {size}"
    longest, needed = settings.get("context_tokens_max"), request.context_tokens_per_slot
    if longest is not None and longest < needed:
        return f"the model holds {longest} tokens of context, planned {needed}"
    return ""


def _effective(config: Any) -> dict[str, Any]:
    """Return the parts of the effective configuration that can change speed or answers, paths shortened."""
    parts = ("compute_class", "backend_loaded", "offload", "scheduler", "parity")
    return {name: config[name] for name in parts if isinstance(config, dict) and name in config}

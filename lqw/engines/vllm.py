"""``vllm serve``: a reference, published beside, never gating.

Settings of the params, all optional::

    tokenizer: str                  folder or name of the tokenizer; default: vLLM's own conversion of the GGUF's
    gpu_memory_utilization: float   default 0.9 as vLLM has it: its GPU memory is reserved, not used
    dtype: str                      default "auto"
    eager: bool                     no CUDA graphs; default false

It often cannot load a GGUF, and Qwen3.5 least of all: such a model is UNSUPPORTED in vLLM's own words. It takes ids,
forces the length, and gives ids back. Its prefix cache is off, so a cached row fails by name. It names the model
``lqw``; the folder the bytes lie in is proven by the command line alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lqw.engines.adapter import Adapter, encoded, post
from lqw.engines.control import ControlError
from lqw.engines.last_words import without_folders
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.engines.base import HttpRequest, Prompt, StartRequest
    from lqw.engines.control import Control

__all__ = ["MODEL", "Vllm"]

MODEL = "lqw"
_CANNOT = (
    "is not supported",
    "are not supported",
    "not supported for now",
    "Unsupported",
    "Unknown gguf model_type",
    "does not recognize this architecture",
    "has no vLLM implementation",
    "is not a valid JSON file",  # 0.32.0 without a GGUF plugin takes the model for its own configuration
    "Unrecognized model in",  # 0.32.0 with the plugin wants the configuration beside the GGUF
)


class Vllm(Adapter):
    """The adapter."""

    name = "vllm"
    takes: Literal["ids", "text"] = "ids"
    kinds: Mapping[str, type] = {"tokenizer": str, "gpu_memory_utilization": float, "dtype": str, "eager": bool}

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and flags."""
        settings = request.spec.settings
        words = [str(Path(request.spec.binary or "").absolute()), "serve", str(request.model_path)]
        words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL]
        words += [
            "--no-enable-prefix-caching",
            "--generation-config",
            "vllm",
            "--dtype",
            str(settings.get("dtype", "auto")),
        ]
        words += ["--max-model-len", str(request.context_tokens_per_slot), "--max-num-seqs", str(request.slots)]
        for word in ("tokenizer", "gpu_memory_utilization"):
            if word in settings:
                words += [f"--{word.replace('_', '-')}", str(settings[word])]
        return [*words, "--enforce-eager"] if settings.get("eager") else words

    def is_ready(self, control: Control) -> bool:
        """Return whether ``/health`` is 200: the port opens after the load."""
        return control.status("/health") == 200  # noqa: PLR2004

    def unsupported(self, log: str) -> str:
        """Return the last line that says the model cannot be loaded."""
        said = [line.strip() for line in log.splitlines() if any(mark in line for mark in _CANNOT)]
        return without_folders(said[-1])[:4000] if said else ""

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return version, model and context as ``/version`` and ``/v1/models`` say."""
        del log_path
        version, models = control.get("/version"), control.get("/v1/models")
        try:
            model = models["data"][0]
            return {
                "version": str(version["version"]),
                "model": str(model["id"]),
                "context_tokens": int(model["max_model_len"]),
                "vram": "reserved",
            }
        except (KeyError, IndexError, TypeError, ValueError) as err:
            detail = f"/version or /v1/models is not vLLM's: {type(err).__name__} {err}"
            raise ControlError(Reason.WRONG_PROCESS, detail) from err

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return how it serves another model or too little context."""
        if settings["model"] != MODEL:
            return Failure(reason=Reason.WRONG_PROCESS, detail=f"it serves {settings['model']}, not {MODEL}")
        if settings["context_tokens"] < request.context_tokens_per_slot:
            detail = f"{settings['context_tokens']} tokens of context, planned {request.context_tokens_per_slot}"
            return Failure(reason=Reason.WRONG_SETTINGS, detail=detail)
        return None

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return a greedy completion of ids, its length forced, its ids told."""
        del kind, cache, slot
        body: dict[str, Any] = {
            "model": MODEL,
            "prompt": list(prompt.ids),
            "max_tokens": n_predict,
            "min_tokens": n_predict,
            "temperature": 0.0,
            "ignore_eos": True,
            "return_token_ids": True,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        return post("/v1/completions", body)

    def tokenize(self, control: Control, text: str) -> list[int]:
        """Return the ids of *text*."""
        said = control.post("/tokenize", encoded({"model": MODEL, "prompt": text, "add_special_tokens": True}))
        return [int(one) for one in said["tokens"]]

    def detokenize(self, control: Control, ids: Sequence[int]) -> str:
        """Return the text of *ids*."""
        return str(control.post("/detokenize", encoded({"model": MODEL, "tokens": list(ids)}))["prompt"])

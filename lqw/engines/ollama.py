"""``ollama serve``: published beside, never gating. A daemon of its own on a port of its own, never the machine's.

Settings of the params, all optional::

    threads: int       num_thread; default: as ollama decides
    gpu_layers: int    num_gpu; default: as ollama decides on cuda, 0 on cpu

The same bytes: the model's blob in the daemon's own folder is a link to the GGUF, named by its sha256; ``create`` makes
a model of that digest, and the manifest it wrote must name the same digest. Context, slots and greedy sampling stand in
that model, since ollama's default context depends on the GPU's memory. It takes text only, forces no length, and tells
neither ids nor reuse: rows it cannot give fail by name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.engines.adapter import Adapter, encoded, post
from lqw.engines.binaries import file_sha256
from lqw.engines.control import ControlError
from lqw.engines.environment import scrubbed
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.engines.base import Environment, HttpRequest, Prompt, StartRequest, StreamFormat
    from lqw.engines.control import Control

__all__ = ["MODEL", "Ollama", "store_of"]

MODEL = "lqw"
_CANNOT_LOAD = re.compile(r"error loading model: (.+)")
_MODEL_LAYER = "application/vnd.ollama.image.model"
_MANIFEST = Path("manifests", "registry.ollama.ai", "library", MODEL, "latest")


def store_of(log_path: Path) -> Path:
    """Return the folder a daemon keeps its models in: one of its own beside its log."""
    return log_path.with_suffix(".ollama")


class Ollama(Adapter):
    """The adapter."""

    name = "ollama"
    stream_format: StreamFormat = "ollama"
    kinds: Mapping[str, type] = {"threads": int, "gpu_layers": int}
    least: Mapping[str, int] = {"threads": 1, "gpu_layers": 0}

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and its only word: everything else goes by the environment."""
        del port
        return [str(Path(request.spec.binary or "").absolute()), "serve"]

    def environment(self, base: Mapping[str, str], request: StartRequest, port: int) -> Environment:
        """Return a scrubbed environment: port, slots, a folder of its own, and no upkeep beside the requests."""
        store = store_of(request.log_path).absolute()
        own = {
            "OLLAMA_HOST": f"127.0.0.1:{port}",
            "OLLAMA_MODELS": str(store),
            "OLLAMA_NUM_PARALLEL": str(request.slots),
            "OLLAMA_CONTEXT_LENGTH": str(request.context_tokens_per_slot),
            "OLLAMA_MAX_LOADED_MODELS": "1",
            "OLLAMA_KEEP_ALIVE": "-1",
            "OLLAMA_NOPRUNE": "1",
            "HOME": str(store),  # it writes a key pair to its user's home
            **request.spec.env,
        }
        return scrubbed(base, own)

    def is_ready(self, control: Control) -> bool:
        """Return whether the daemon answers; the model is loaded after that."""
        return control.status("/api/version") == 200  # noqa: PLR2004

    def load(self, control: Control, request: StartRequest) -> None:
        """Make a model of the GGUF's own bytes and load it; UNSUPPORTED in ollama's own words where it cannot."""
        digest = file_sha256(request.model_path)
        blob = store_of(request.log_path) / "blobs" / f"sha256-{digest}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        if not blob.exists():
            blob.symlink_to(request.model_path.absolute())
        create = {
            "model": MODEL,
            "files": {request.model_path.name: f"sha256:{digest}"},
            "parameters": _parameters(request),
            "stream": False,
        }
        for path, body in (("/api/create", create), ("/api/generate", {"model": MODEL, "keep_alive": -1})):
            try:
                control.post(path, encoded(body), timeout_s=request.timeout_s)
            except ControlError as err:
                if err.failure.reason is not Reason.HTTP_ERROR:
                    raise
                said = err.failure.detail.replace(str(blob.absolute()), "the blob")
                why = _CANNOT_LOAD.findall(request.log_path.read_text(errors="replace"))
                detail = "; ".join([f"ollama cannot load it: {said}", *dict.fromkeys(why)])
                raise ControlError(Reason.UNSUPPORTED, detail) from err

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return version, the digest the model was made of, and what ``/api/ps`` says is loaded."""
        version, loaded = control.get("/api/version"), control.get("/api/ps")
        try:
            manifest = json.loads((store_of(log_path) / _MANIFEST).read_text())
            layers = [one["digest"] for one in manifest["layers"] if one["mediaType"] == _MODEL_LAYER]
            model = loaded["models"][0]
            return {
                "version": str(version["version"]),
                "blobs": [str(digest).removeprefix("sha256:") for digest in layers],
                "context_tokens": model.get("context_length"),
                "vram_bytes": int(model["size_vram"]),
                "quantization": str(model["details"].get("quantization_level", "")),
            }
        except (OSError, ValueError, KeyError, IndexError, TypeError) as err:
            raise ControlError(
                Reason.WRONG_SETTINGS, f"ollama does not say what it loaded: {type(err).__name__} {err}"
            ) from err

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return how it serves other bytes than the arms, too little context, or from the CPU."""
        digest = file_sha256(request.model_path)
        if settings["blobs"] != [digest]:
            detail = f"its model is of blobs {settings['blobs']}, the GGUF is {digest}"
            return Failure(reason=Reason.WRONG_PROCESS, detail=detail)
        context = settings["context_tokens"]
        if context is not None and context < request.context_tokens_per_slot:
            detail = f"{context} tokens of context, planned {request.context_tokens_per_slot}"
            return Failure(reason=Reason.WRONG_SETTINGS, detail=detail)
        if request.compute == "cuda" and settings["vram_bytes"] <= 0:
            return Failure(reason=Reason.NO_OFFLOAD, detail="/api/ps says that nothing of the model is on the GPU")
        return None

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return a raw ``/api/generate``: no template; reuse, slots and the length cannot be forced."""
        del kind, cache, slot
        if prompt.text is None:
            raise ValueError("ollama takes text, and this prompt has none")
        options = {"num_predict": n_predict, "temperature": 0.0, "seed": 1}
        body = {"model": MODEL, "prompt": prompt.text, "raw": True, "stream": stream, "keep_alive": -1}
        return post("/api/generate", {**body, "options": options})


def _parameters(request: StartRequest) -> dict[str, Any]:
    """Return what stands in the model, so that a request of another context does not load it again."""
    settings = request.spec.settings
    out: dict[str, Any] = {"num_ctx": request.context_tokens_per_slot, "temperature": 0.0}
    if "threads" in settings:
        out["num_thread"] = settings["threads"]
    if "gpu_layers" in settings or request.compute == "cpu":
        out["num_gpu"] = settings.get("gpu_layers", 0)
    return out

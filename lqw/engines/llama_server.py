"""llama-server of llama.cpp: the comparator, and the subject of the demo (settings other than the comparator's).

Settings of the params, all optional::

    threads, threads_batch: int      default: as llama-server decides    batch, ubatch: int    default 2048, 512
    gpu_layers: int | "all"          default "all" on cuda, 0 on cpu     flash_attn: on | off | auto
    cache_type_k, cache_type_v: str  default f16                         mmap: bool            default true
    ctx_checkpoints, poll: int       default: as llama-server decides

Everything else is fixed, so that both arms get the same: one slot per planned stream, context per slot times slots
(llama.cpp divides it), no host-RAM prompt cache (it saves the last state before the next request's clock starts),
no fitting of unset values to free memory, no speculation, no web interface. ``-lv 4`` makes it print the batch and
thread counts in force, which no endpoint tells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lqw.engines.adapter import Adapter, encoded, post
from lqw.engines.base import HttpRequest, Identity, Prompt
from lqw.engines.binaries import executable_sha256
from lqw.engines.checks import check_binary, check_settings
from lqw.engines.control import ControlError
from lqw.engines.logprobs import margins_of
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lqw.engines.base import Compute, Route, StartRequest, StreamFormat, Where
    from lqw.engines.control import Control
    from lqw.params import EngineSpec
    from lqw.samples import Answer

__all__ = ["FLAGS", "LlamaServer"]

# Setting of the params -> (flag, type of its value; object: a whole number or a word).
FLAGS: dict[str, tuple[str, type]] = {
    "threads": ("-t", int),
    "threads_batch": ("-tb", int),
    "batch": ("-b", int),
    "ubatch": ("-ub", int),
    "gpu_layers": ("-ngl", object),
    "flash_attn": ("-fa", str),
    "cache_type_k": ("-ctk", str),
    "cache_type_v": ("-ctv", str),
    "ctx_checkpoints": ("-ctxcp", int),
    "poll": ("--poll", int),
    "mmap": ("--mmap", bool),
}
_LEAST = {"threads": 1, "threads_batch": 1, "batch": 2, "ubatch": 1, "ctx_checkpoints": 0, "poll": 0}
# llama_context: n_ubatch              = 512
_PRINTED = re.compile(r"(?:llama_context|system_info): .*?\b(n_ctx|n_ctx_seq|n_batch|n_ubatch|flash_attn)\s+= (\S+)")
_THREADS = re.compile(r"system_info: n_threads = (\d+) \(n_threads_batch = (\d+)\)")
_LAYERS = re.compile(r"offloaded (\d+/\d+) layers to GPU")
CHAT = "/v1/chat/completions"
_NO_THINKING = {"enable_thinking": False}
_SEED = 1  # greedy sampling draws nothing; fixed all the same


class LlamaServer(Adapter):
    """The adapter. :class:`lqw.engines.embedded.Embedded` differs in the program only."""

    name = "llama_server"
    stream_format: StreamFormat = "llama"
    takes: Literal["ids", "text"] = "ids"
    routes: tuple[Route, ...] = ("completion", "chat")
    flags: Mapping[str, tuple[str, type]] = FLAGS
    words: Mapping[str, Sequence[str]] = {"flash_attn": ("on", "off", "auto")}

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse unknown or impossible settings and a binary that is missing or another one (ParamsError)."""
        self.check_settings(spec, where)
        if compute == "cuda" and spec.settings.get("gpu_layers", "all") in (0, "0"):
            raise ParamsError(
                file=where.file,
                field=f"{where.field}.settings.gpu_layers",
                value=spec.settings["gpu_layers"],
                problem="a CPU engine on a host with compute: cuda (a CPU against a GPU once made a ratio of 14)",
                remedy="remove the setting, or name a host with compute: cpu",
            )
        check_binary(spec, where)

    def check_settings(self, spec: EngineSpec, where: Where) -> None:
        """Refuse unknown or impossible settings (ParamsError)."""
        kinds = {word: kind for word, (_, kind) in self.flags.items()}
        check_settings(spec, kinds, _LEAST, self.words, where)

    def program(self, spec: EngineSpec) -> list[str]:
        """Return the words that stand before the flags."""
        return [str(Path(spec.binary or "").absolute())]

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and flags; defaults that matter are spelt out."""
        settings = {"gpu_layers": "all" if request.compute == "cuda" else 0, **request.spec.settings}
        context = request.slots * request.context_tokens_per_slot
        words = [*self.program(request.spec), "-m", str(request.model_path), "--host", "127.0.0.1", "--port", str(port)]
        words += ["-np", str(request.slots), "-c", str(context), "--fit", "off", "--cache-ram", "0"]
        words += ["--metrics", "--slots", "--no-webui", "--offline", "--spec-type", "none", "-lv", "4"]
        for word, value in settings.items():
            flag = self.flags[word][0]
            if isinstance(value, bool):
                words.append(flag if value else flag.replace("--", "--no-"))
            else:
                words += [flag, str(value)]
        if "threads" in settings and "threads_batch" not in settings:
            words += ["-tb", str(settings["threads"])]
        return words

    def is_ready(self, control: Control) -> bool:
        """Return whether ``/health`` is 200: the socket opens before the model is loaded and says 503 until then."""
        return control.status("/health") == 200  # noqa: PLR2004

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return what ``/props``, ``/slots`` and the log say is in force."""
        props, slots = control.get("/props"), control.get("/slots")
        try:
            contexts = sorted({int(slot["n_ctx"]) for slot in slots})
            settings: dict[str, Any] = {
                "build_info": str(props["build_info"]),
                "model": Path(props["model_path"]).name,
                "model_ftype": str(props.get("model_ftype", "")),
                "slots": int(props["total_slots"]),
                "slots_listed": len(slots),
                "context_tokens_per_slot": contexts[0] if contexts else 0,
                "speculative": any(bool(slot.get("speculative")) for slot in slots),
            }
        except (KeyError, TypeError, ValueError) as err:
            detail = f"/props or /slots is not llama-server's: {type(err).__name__} {err}"
            raise ControlError(Reason.WRONG_PROCESS, detail) from err
        return settings | _printed(log_path)

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return the first setting in force that is not the plan's: a handicapped comparator flatters the subject."""
        for problem in _problems(settings, request):
            return Failure(reason=Reason.WRONG_SETTINGS, detail=problem)
        layers = str(settings.get("layers_offloaded", ""))
        if request.compute == "cuda" and request.spec.settings.get("gpu_layers", "all") == "all":
            done, _, of = layers.partition("/")
            if not layers or done != of:
                return Failure(
                    reason=Reason.NO_OFFLOAD, detail=f"layers on the GPU: {layers or 'none printed'}, planned all"
                )
        return None

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return build info as version and build, and the hash of the running executable."""
        build = str(settings["build_info"])
        return Identity(version=build, build=build, binary_sha256=executable_sha256(pid))

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return a greedy ``/completion``: ids in, the length forced, the argmax sampler alone."""
        del kind  # one route serves them all
        body: dict[str, Any] = {
            "prompt": list(prompt.ids),
            "n_predict": n_predict,
            "temperature": 0.0,
            "top_k": 1,
            "samplers": ["top_k", "temperature"],
            "seed": _SEED,
            "ignore_eos": True,
            "cache_prompt": cache,
            "stream": stream,
            "return_tokens": True,
        }
        if slot is not None:
            body["id_slot"] = slot
        return HttpRequest("/completion", json.dumps(body, separators=(",", ":")).encode())

    def chat_request(self, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool) -> HttpRequest:
        """Return a greedy chat of the text, without thinking; samplers as for a completion."""
        if prompt.text is None:
            raise ValueError("a chat takes text, and this prompt has none")
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": prompt.text}],
            "chat_template_kwargs": _NO_THINKING,
            "max_tokens": n_predict,
            "temperature": 0.0,
            "top_k": 1,
            "samplers": ["top_k", "temperature"],
            "seed": _SEED,
            "ignore_eos": True,
            "cache_prompt": cache,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        return post(CHAT, body)

    def chat_ids(self, control: Control, text: str) -> list[int]:
        """Return the ids of the prompt its template makes, special tokens parsed as it does."""
        asked = {"messages": [{"role": "user", "content": text}], "chat_template_kwargs": _NO_THINKING}
        prompt = str(control.post("/apply-template", encoded(asked)).get("prompt", ""))
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return _ids(control.post("/tokenize", encoded(body)), "tokens")

    def tokenize(self, control: Control, text: str) -> list[int]:
        """Return the ids of *text*, begin token included where the model has one."""
        body = json.dumps({"content": text, "add_special": True, "parse_special": False}).encode()
        return _ids(control.post("/tokenize", body), "tokens")

    def detokenize(self, control: Control, ids: Sequence[int]) -> str:
        """Return the text of *ids*."""
        return str(control.post("/detokenize", json.dumps({"tokens": list(ids)}).encode()).get("content", ""))

    def answer(self, control: Control, request: HttpRequest, blank: Answer) -> Answer:
        """Send a non-stream completion; its ``tokens`` are complete (streams drop ids inside a UTF-8 sequence)."""
        value = control.post(request.path, request.body)
        if request.path == CHAT:
            return blank.model_copy(update=_chat_fields(value))
        return blank.model_copy(
            update={
                "prompt_tokens": value.get("tokens_evaluated"),
                "ids": _ids(value, "tokens"),
                "text": str(value.get("content", "")),
                "finish": str(value.get("stop_type", "")),
                "margins": margins_of(value),
            }
        )


def _chat_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an :class:`lqw.samples.Answer`; a chat names no ids."""
    try:
        choice = value["choices"][0]
        return {
            "prompt_tokens": int(value["usage"]["prompt_tokens"]),
            "text": str(choice["message"]["content"]),
            "finish": str(choice["finish_reason"]),
        }
    except (KeyError, IndexError, TypeError, ValueError) as err:
        raise ControlError(Reason.HTTP_ERROR, f"{CHAT} gave no answer: {type(err).__name__} {err}") from err


def _problems(settings: Mapping[str, Any], request: StartRequest) -> Iterator[str]:
    wanted, per_slot = request.spec.settings, request.context_tokens_per_slot
    if settings["model"] != request.model_path.name:
        yield f"serves {settings['model']}, planned {request.model_path.name}"
    if not settings["slots"] == settings["slots_listed"] == request.slots:
        yield f"{settings['slots']} slots, {settings['slots_listed']} listed, planned {request.slots}"
    if settings["context_tokens_per_slot"] < per_slot:
        yield (
            f"{settings['context_tokens_per_slot']} tokens of context per slot, planned {per_slot} "
            "(llama.cpp divides the context by slots and caps it at the model's trained length)"
        )
    if settings["speculative"]:
        yield "speculative decoding is on, planned none"
    if settings.get("n_batch", 2) <= 1:
        yield f"n_batch = {settings['n_batch']}: a logical batch of one is a handicap, not a setting"
    for word, printed in (("ubatch", "n_ubatch"), ("threads", "n_threads"), ("threads_batch", "n_threads_batch")):
        if word in wanted and settings.get(printed, wanted[word]) != wanted[word]:
            yield f"{printed} = {settings[printed]}, planned {word} {wanted[word]}"


def _ids(value: Any, key: str) -> list[int]:
    ids = value.get(key) if isinstance(value, dict) else None
    if not isinstance(ids, list) or not all(type(one) is int for one in ids):
        raise ControlError(Reason.HTTP_ERROR, f"no list of token ids under {key!r}")
    return ids


def _printed(log_path: Path) -> dict[str, Any]:
    """Return the settings the log prints while loading; those it does not print are absent, not guessed."""
    try:
        text = log_path.read_text(errors="replace")
    except OSError:
        return {}
    out: dict[str, Any] = {key: int(value) if value.isdecimal() else value for key, value in _PRINTED.findall(text)}
    if threads := _THREADS.search(text):
        out |= {"n_threads": int(threads[1]), "n_threads_batch": int(threads[2])}
    if layers := _LAYERS.search(text):
        out["layers_offloaded"] = layers[1]
    return out

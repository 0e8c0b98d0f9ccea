"""A server that already runs, wherever: any that speaks OpenAI's completions. Published beside, never gating.

Settings of the params::

    url: str     http://HOST:PORT
    model: str   the name it serves the model under; default: the first it lists
    chat: bool   ask ``/v1/chat/completions``, its template around each prompt; default false

Nothing is started, so nothing of it is proven but what it says: which bytes it serves, on what and how is its owner's
word. A server of this machine on a GPU that lqw watches would be a stranger there: use it on a CPU host, or have it on
another machine or GPU. Servers that want a key or TLS cannot be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from lqw.engines.adapter import Adapter, post
from lqw.engines.base import Identity
from lqw.engines.binaries import executable_sha256
from lqw.engines.checks import check_settings
from lqw.engines.control import ControlError
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lqw.engines.base import Compute, HttpRequest, Prompt, StartRequest, Where
    from lqw.engines.control import Control
    from lqw.params import EngineSpec

__all__ = ["OpenAiUrl"]


class OpenAiUrl(Adapter):
    """The adapter; one made by :meth:`serving` knows the route, and the name the server's model goes by."""

    name = "openai_url"

    def __init__(self, model: str = "", *, chat: bool = False) -> None:
        self._model, self._chat = model, chat

    kinds: Mapping[str, type] = {"url": str, "model": str, "chat": bool}

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse unknown settings, a missing or unusable URL, and a binary (ParamsError)."""
        del compute
        check_settings(spec, self.kinds, self.least, self.words, where)
        url = urlsplit(str(spec.settings.get("url", "")))
        problem, field, value = "", f"{where.field}.settings.url", spec.settings.get("url")
        if url.scheme != "http" or not url.hostname or url.path.strip("/") or url.query or url.username:
            problem, remedy = "not http://HOST:PORT", "give scheme, host and port of a server, and nothing else"
        elif spec.binary is not None:
            problem, field, value = "nothing is started here", f"{where.field}.binary", spec.binary
            remedy = "remove the field, or name the engine that is to be started"
        if problem:
            raise ParamsError(file=where.file, field=field, value=value, problem=problem, remedy=remedy)

    def place(self, spec: EngineSpec) -> tuple[str, int] | None:
        """Return host and port of the URL."""
        url = urlsplit(str(spec.settings["url"]))
        return url.hostname or "", url.port or 80

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return nothing: it runs already."""
        del request, port
        return []

    def is_ready(self, control: Control) -> bool:
        """Return whether it lists its models."""
        return control.status("/v1/models") == 200  # noqa: PLR2004

    def read_back(self, control: Control, log_path: Path) -> dict[str, Any]:
        """Return the models it lists."""
        del log_path
        try:
            names = [str(one["id"]) for one in control.get("/v1/models")["data"]]
        except (KeyError, TypeError) as err:
            raise ControlError(Reason.WRONG_PROCESS, "/v1/models is no list of models") from err
        return {"models": names, "settings_proven": False}

    def serving(self, settings: Mapping[str, Any], request: StartRequest) -> Self:
        """Return an adapter whose requests name the model."""
        asked = request.spec.settings
        return type(self)(str(asked.get("model") or settings["models"][0]), chat=bool(asked.get("chat", False)))

    def mismatch(self, settings: Mapping[str, Any], request: StartRequest) -> Failure | None:
        """Return UNSUPPORTED where it does not list the model."""
        wanted = request.spec.settings.get("model")
        if settings["models"] and wanted in (None, *settings["models"]):
            return None
        detail = f"it lists {', '.join(settings['models']) or 'no model'}; asked for {wanted or 'any'}"
        return Failure(reason=Reason.UNSUPPORTED, detail=detail)

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return what can be known: the hash of its executable where it runs here."""
        model = settings["models"][0] if settings["models"] else "no model"
        return Identity(f"server of {model}", "not told", executable_sha256(pid) if pid else "")

    def request_body(
        self, kind: str, prompt: Prompt, n_predict: int, *, cache: bool, stream: bool, slot: int | None = None
    ) -> HttpRequest:
        """Return a greedy completion.

        llama-server's words for reuse and slot are sent too: a server that does not know them ignores them.
        """
        del kind
        if prompt.text is None:
            raise ValueError("openai_url takes text, and this prompt has none")
        said = {"messages": [{"role": "user", "content": prompt.text}]} if self._chat else {"prompt": prompt.text}
        body: dict[str, Any] = {
            "model": self._model,
            **said,
            "max_tokens": n_predict,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": cache,
            "stream": stream,
        }
        if slot is not None:
            body["id_slot"] = slot
        if stream:
            body["stream_options"] = {"include_usage": True}
        return post("/v1/chat/completions" if self._chat else "/v1/completions", body)

"""The engines lqw knows: one line each.

Further ones may live outside: modules named in ``LQW_ENGINE_MODULES`` (colon-separated) are imported when a name is
not found, and their ``register(engines)`` is called. lqw's own tests add their fake engine that way, so that it is
no part of an ordinary gate; the adapter's name and hash stand in every receipt.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from lqw.engines.apr import Apr
from lqw.engines.embedded import Embedded
from lqw.engines.llama_server import LlamaServer
from lqw.engines.ollama import Ollama
from lqw.engines.openai_url import OpenAiUrl
from lqw.engines.vllm import Vllm
from lqw.errors import ParamsError, UsageError

if TYPE_CHECKING:
    from lqw.engines.base import Engine

__all__ = ["ENGINES", "MODULES", "get_engine"]

MODULES = "LQW_ENGINE_MODULES"
ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Apr(), LlamaServer(), Embedded(), Ollama(), OpenAiUrl(), Vllm())
}


def get_engine(name: str, *, file: str = "params", field: str = "engine") -> Engine:
    """Return an adapter by the word the params use; ParamsError names the known ones, UsageError a module."""
    if name not in ENGINES:
        for module in filter(None, os.environ.get(MODULES, "").split(":")):
            try:
                importlib.import_module(module).register(ENGINES)
            except (ImportError, AttributeError, ValueError) as err:
                raise UsageError(
                    f"{MODULES}={os.environ[MODULES]!r}: {module!r} adds no engine: {err}",
                    remedy=f"unset {MODULES}, or name modules that have register(engines)",
                ) from err
    if name not in ENGINES:
        raise ParamsError(
            file=file, field=field, value=name, problem="no such engine", remedy=f"one of: {', '.join(sorted(ENGINES))}"
        )
    return ENGINES[name]

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
from lqw.errors import ParamsError

if TYPE_CHECKING:
    from lqw.engines.base import Engine

__all__ = ["ENGINES", "MODULES", "get_engine"]

MODULES = "LQW_ENGINE_MODULES"
ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Apr(), LlamaServer(), Embedded(), Ollama(), OpenAiUrl(), Vllm())
}


def get_engine(name: str, *, file: str = "params", field: str = "engine") -> Engine:
    """Return an adapter by the word the params use; ParamsError names the known ones."""
    if name not in ENGINES:
        for module in filter(None, os.environ.get(MODULES, "").split(":")):
            importlib.import_module(module).register(ENGINES)
    if name not in ENGINES:
        raise ParamsError(
            file=file, field=field, value=name, problem="no such engine", remedy=f"one of: {', '.join(sorted(ENGINES))}"
        )
    return ENGINES[name]

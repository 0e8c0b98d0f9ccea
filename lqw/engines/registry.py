"""The engines lqw knows: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.engines.embedded import Embedded
from lqw.engines.llama_server import LlamaServer
from lqw.errors import ParamsError

if TYPE_CHECKING:
    from lqw.engines.base import Engine

__all__ = ["ENGINES", "get_engine"]

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (LlamaServer(), Embedded())}


def get_engine(name: str, *, file: str = "params", field: str = "engine") -> Engine:
    """Return an adapter by the word the params use; ParamsError names the known ones."""
    if name not in ENGINES:
        raise ParamsError(
            file=file, field=field, value=name, problem="no such engine", remedy=f"one of: {', '.join(sorted(ENGINES))}"
        )
    return ENGINES[name]

"""The embedded engine: llama-server's own code from the wheel ``xllamacpp``, in a process with llama-server's words.

For everything but the program it *is* :class:`lqw.engines.llama_server.LlamaServer`: same flags, routes, streams.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from lqw.engines.base import Identity
from lqw.engines.binaries import mapped_sha256
from lqw.engines.llama_server import LlamaServer
from lqw.errors import ParamsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lqw.engines.base import Compute, Where
    from lqw.params import EngineSpec

__all__ = ["Embedded"]

_PACKAGE = "xllamacpp"


class Embedded(LlamaServer):
    """A real llama.cpp on any machine with a wheel; CPU only."""

    name = "embedded"

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse what llama-server would, a binary (there is none to name), a GPU, and a missing wheel."""
        self.check_settings(spec, where)
        problem, field, value = "", where.field, spec.engine
        if spec.binary is not None:
            problem, field, value = "embedded runs the installed wheel", f"{where.field}.binary", spec.binary
            remedy = "remove the field, or name the engine llama_server"
        elif compute != "cpu":
            problem, remedy = "embedded serves from the CPU only", "use the engine llama_server on this host"
        elif importlib.util.find_spec(_PACKAGE) is None:
            problem, remedy = f"the package {_PACKAGE} is not installed", "pip install -e '.[demo]'"
        if problem:
            raise ParamsError(file=where.file, field=field, value=value, problem=problem, remedy=remedy)

    def program(self, spec: EngineSpec) -> list[str]:
        """Return this Python, isolated from the caller's folder and variables, with the server module."""
        del spec
        return [sys.executable, "-I", "-m", "lqw.engines.embedded_server"]

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return the wheel's version, and the hash of its library: the executable is only Python."""
        version = f"{_PACKAGE} {metadata.version(_PACKAGE)}"
        return Identity(version, str(settings["build_info"]), mapped_sha256(pid, f"{_PACKAGE}."))

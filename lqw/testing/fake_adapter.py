"""The fake engine behind the protocol: llama-server's adapter, another program, and settings for speed and faults.

Settings besides llama-server's: ``fault`` (:class:`lqw.testing.faults.Fault`), ``fault_after``, ``prefill_tok_s``,
``decode_tok_s``, ``contention``, ``start_sd``, ``load_s``, ``rss_mib``. A ``binary`` may be any executable file: its
hash is this fake's identity, and the variable :data:`PACE` then scales its speed, as a machine that has moved does.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.engines.base import Identity
from lqw.engines.binaries import file_sha256
from lqw.engines.checks import check_binary
from lqw.engines.llama_server import FLAGS, LlamaServer
from lqw.testing.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.engines.base import Compute, Engine, Environment, StartRequest, Where
    from lqw.params import EngineSpec

__all__ = ["LOUD", "PACE", "Fake", "register"]

PACE = "LQW_FAKE_PACE"
"""What a build's speed is multiplied with; engines without a binary do not look at it."""

LOUD = "LQW_FAKE_LOUD"
"""The one model file whose starts differ by ``start_sd``; every model's do where it is not set."""

_BINARY = "LQW_FAKE_BINARY"
_COMMIT = re.compile(r"^# commit ([0-9a-f]{7,40})$", re.MULTILINE)  # a build's file may say what it was built from
_SPEEDS = ("prefill_tok_s", "decode_tok_s")

_OWN: dict[str, tuple[str, type]] = {
    "fault": ("--fault", str),
    "fault_after": ("--fault-after", int),
    "prefill_tok_s": ("--prefill-tok-s", float),
    "decode_tok_s": ("--decode-tok-s", float),
    "contention": ("--contention", float),
    "start_sd": ("--start-sd", float),
    "load_s": ("--load-s", float),
    "rss_mib": ("--rss-mib", int),
}


class Fake(LlamaServer):
    """llama-server as far as lqw can see."""

    name = "fake"
    flags = FLAGS | _OWN
    words: Mapping[str, Sequence[str]] = {**LlamaServer.words, "fault": tuple(Fault)}

    def check(self, spec: EngineSpec, *, compute: Compute, where: Where) -> None:
        """Refuse unknown settings, and a binary that is named and is not there or another one."""
        del compute
        self.check_settings(spec, where)
        if spec.binary is not None:
            check_binary(spec, where)

    def program(self, spec: EngineSpec) -> list[str]:
        """Return this Python with the server module."""
        del spec
        return [sys.executable, "-I", "-m", "lqw.testing.fake_engine"]

    def command(self, request: StartRequest, port: int) -> list[str]:
        """Return program and flags; a build runs at the pace of the machine, and some models are louder than others."""
        pace, spec = float(os.environ.get(PACE, "1")), request.spec
        if spec.binary is not None and pace != 1:
            speeds = {name: float(spec.settings[name]) * pace for name in _SPEEDS if name in spec.settings}
            spec = spec.model_copy(update={"settings": {**spec.settings, **speeds}})
        if os.environ.get(LOUD, request.model_path.name) != request.model_path.name:
            spec = spec.model_copy(update={"settings": {**spec.settings, "start_sd": 0.0}})
        return super().command(replace(request, spec=spec), port)

    def environment(self, base: Mapping[str, str], request: StartRequest, port: int) -> Environment:
        """Return llama-server's, with the file that the server stands for."""
        made, binary = super().environment(base, request, port), request.spec.binary
        return made if binary is None else replace(made, variables={**made.variables, _BINARY: binary})

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return a version that says what it is, and the hash of the binary it stands for, or of the server module."""
        started_with = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        binary = next((word.partition("=")[2] for word in started_with if word.startswith(f"{_BINARY}=")), "")
        module = importlib.import_module("lqw.testing.fake_engine")
        commit = _COMMIT.search(Path(binary).read_text(encoding="utf-8")) if binary else None
        version = f"fake 1 ({commit[1]})" if commit else "fake 1"
        return Identity(version, str(settings["build_info"]), file_sha256(binary or str(module.__file__)))


def register(engines: dict[str, Engine]) -> None:
    """Add the fake to a registry; called by :func:`lqw.engines.registry.get_engine` for a named module."""
    engines[Fake.name] = Fake()

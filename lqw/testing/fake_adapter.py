"""The fake engine behind the protocol: llama-server's adapter, another program, and settings for speed and faults.

Settings besides llama-server's: ``fault`` (:class:`lqw.testing.faults.Fault`), ``fault_after``, ``prefill_tok_s``,
``decode_tok_s``, ``contention``, ``start_sd``, ``load_s``, ``rss_mib``.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from lqw.engines.base import Identity
from lqw.engines.binaries import file_sha256
from lqw.engines.llama_server import FLAGS, LlamaServer
from lqw.testing.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.engines.base import Compute, Engine, Where
    from lqw.params import EngineSpec

__all__ = ["Fake", "register"]

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
        """Refuse unknown settings; there is no binary."""
        del compute
        self.check_settings(spec, where)

    def program(self, spec: EngineSpec) -> list[str]:
        """Return this Python with the server module."""
        del spec
        return [sys.executable, "-I", "-m", "lqw.testing.fake_engine"]

    def identity(self, pid: int, settings: Mapping[str, Any]) -> Identity:
        """Return a version that says what it is, and the hash of the server module."""
        del pid
        module = importlib.import_module("lqw.testing.fake_engine")
        return Identity("fake 1", str(settings["build_info"]), file_sha256(str(module.__file__)))


def register(engines: dict[str, Engine]) -> None:
    """Add the fake to a registry; called by :func:`lqw.engines.registry.get_engine` for a named module."""
    engines[Fake.name] = Fake()

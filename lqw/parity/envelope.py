"""The v2 envelope around a record of one stream: what was measured, of which program and bytes, and how. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from lqw.parity.judge import ENVELOPE, least_of

__all__ = ["Taken", "envelope"]

THRESHOLDS = "params/parity/thresholds.yaml"
_QUANT = re.compile(r"(?<![A-Z0-9])((?:IQ|Q|TQ)\d(?:_[A-Z0-9]+)*|BF16|F16|F32)(?![A-Z0-9])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Taken:
    """One record as it came out of its tool.

    Attributes
    ----------
    raw : dict
        The tool's own JSON: ``metrics`` has one object a position.
    version : str
        The program's words for itself, its commit in brackets where it has one.
    comparator : dict
        ``kind`` ``none`` with a ``reason`` where one binary compares its two backends, else the method's name with the
        ``sha`` of the program compared with.
    """

    raw: dict[str, Any]
    version: str
    backend: str
    comparator: dict[str, str]
    command: list[str]
    binary_sha256: str
    started_utc: str
    hardware: dict[str, str | None] = field(default_factory=dict)


def envelope(taken: Taken, *, model: str, file: str, model_sha256: str, host: str, now_utc: str) -> dict[str, Any]:
    """Return the receipt; ``result`` follows from the raw metrics, and is empty where they are none.

    No floor is in it: a receipt may not bring the threshold it is held to.
    """
    quant = _QUANT.search(file)
    return {
        "schema": ENVELOPE,
        "cell": {"model": model, "file": file, "quant": quant[1].upper() if quant else None},
        "shape": {"batch": 1, "concurrency": 1},
        "host": host,
        "backend": taken.backend,
        "apr_version": taken.version,
        "generated_at": now_utc,
        "comparator": taken.comparator,
        "threshold_source": THRESHOLDS,
        "provenance": {
            "command": taken.command,
            "binary_sha256": taken.binary_sha256,
            "model_sha256": model_sha256,
            "gpu": taken.hardware.get("gpu"),
            "sm": taken.hardware.get("sm"),
            "arch": taken.hardware.get("arch"),
            "started_utc": taken.started_utc,
            "measured_by": "lqw parity record",
        },
        "result": least_of(taken.raw),
        "raw": taken.raw,
    }

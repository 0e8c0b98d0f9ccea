"""What apr writes to its log and nowhere else: where it computes and what it reused.

The batches it formed are read in :mod:`lqw.parity.telemetry`.

The lines are those of apr 0.72.3, recorded in ``tests/fixtures/engines/apr-*.log``.
"""

from __future__ import annotations

import re

__all__ = ["fallback", "gpu_layers", "reused_tokens"]

# gpu-layers: requested=all resolved=24 total=24 (backend=cuda)
_LAYERS = re.compile(r"^gpu-layers: requested=\S+ resolved=(\d+) total=(\d+)", re.MULTILINE)
# [qwen35] batched prefill: 3 tokens in 12 ms (244 tok/s, chunk 3 rows, attention cuBLAS f32, from position 849)
_PREFILL = re.compile(r"^\[qwen35\] batched prefill: (\d+) tokens in .*\bfrom position (\d+)\)", re.MULTILINE)
_FALLBACKS = (
    "qwen35 path rejected, falling back to CPU",
    "the default GPU could not be used",
    "CUDA init failed, falling back to CPU",
)


def gpu_layers(log: str) -> str:
    """Return ``resolved/total`` layers on the GPU, or nothing where the log does not say."""
    found = _LAYERS.search(log)
    return f"{found[1]}/{found[2]}" if found else ""


def reused_tokens(log: str) -> int | None:
    """Return from which position the last prefill of *log* began: so many tokens were not evaluated again."""
    found = _PREFILL.findall(log)
    return int(found[-1][1]) if found else None


def fallback(log: str) -> str:
    """Return the line in which apr says that it leaves the GPU, or nothing."""
    return next((line.strip() for line in log.splitlines() if any(mark in line for mark in _FALLBACKS)), "")

"""What apr writes to its log and nowhere else: where it computes, what it reused, and the batches it formed.

The lines are those of apr 0.72.3, recorded in ``tests/fixtures/engines/apr-*.log``.
"""

from __future__ import annotations

import re

__all__ = ["batches", "fallback", "gpu_layers", "reused_tokens"]

# gpu-layers: requested=all resolved=24 total=24 (backend=cuda)
_LAYERS = re.compile(r"^gpu-layers: requested=\S+ resolved=(\d+) total=(\d+)", re.MULTILINE)
# [qwen35] batched prefill: 3 tokens in 12 ms (244 tok/s, chunk 3 rows, attention cuBLAS f32, from position 849)
_PREFILL = re.compile(r"^\[qwen35\] batched prefill: (\d+) tokens in .*\bfrom position (\d+)\)", re.MULTILINE)
# [PMAT-044] Batch m=3 done in 750.7ms (444.1 tok/s/slot): as it formed. Whole lines only: a log has other words.
_BATCH = re.compile(r"^\[PMAT-044\] Batch m=(\d{1,6}) done\b", re.MULTILINE)
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


def batches(log: str) -> list[int]:
    """Return how many requests each batch of *log* held when it formed; empty where no batch scheduler ran."""
    return [int(number) for number in _BATCH.findall(log)]


def fallback(log: str) -> str:
    """Return the line in which apr says that it leaves the GPU, or nothing."""
    return next((line.strip() for line in log.splitlines() if any(mark in line for mark in _FALLBACKS)), "")

"""The environment engines are started with: a short list of what passes, so that nothing unplanned reaches them.

Every flag of llama-server has an ``LLAMA_ARG_*`` variable, ggml, OpenMP and the allocator read others: a variable
left over in a captain's shell must not decide a release. What an engine is to get stands in ``env`` of its params.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lqw.engines.base import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["scrubbed"]

# The system's own words: where programs and their libraries are, who runs them, in which language.
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")
# These pass too, and are recorded: which GPU is seen and which libraries are loaded decides what is measured.
_RECORDED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
# Set here and kept away: worth naming, because somebody may have meant them.
_FAMILIES = (
    "LLAMA_", "GGML_", "GGUF_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "CUDA_", "NCCL_", "MALLOC_", "LD_",
    "APR_", "QWEN35_", "RAYON_", "OLLAMA_", "VLLM_", "HF_", "PYTHON",
)  # fmt: skip


def scrubbed(base: Mapping[str, str], own: Mapping[str, str]) -> Environment:
    """Return the environment of an engine: what passes of *base*, then the params' *own* words.

    Paths in the recorded part are shortened to their last names: a receipt carries no folder of this machine.
    """
    passed = {name: base[name] for name in (*_PASSED, *_RECORDED) if name in base}
    recorded = {name: passed[name] for name in _RECORDED if name in passed} | dict(own)
    dropped = sorted(name for name in base if name.startswith(_FAMILIES) and name not in passed and name not in own)
    return Environment(
        variables=passed | dict(own),
        recorded={name: _shortened(value) for name, value in sorted(recorded.items())},
        dropped=tuple(dropped),
    )


def _shortened(value: str) -> str:
    return ":".join(Path(part).name if part.startswith("/") else part for part in value.split(":"))

"""Params that no file holds: what :mod:`lqw.testing.synthetic` makes runs of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from lqw.params import Params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DEMO_ROWS", "name_sha256", "synthetic_params"]

DEMO_ROWS = ("ttft@128", "ttft@512", "prefill@512", "decode", "agg@1", "agg@4", "ttft_cached@512", "rss_peak")


def name_sha256(*parts: object) -> str:
    """Return a sha256 that stands for a file that does not exist."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _steps(rows: Sequence[str], agg_tokens: int, repeats: int) -> list[dict[str, Any]]:
    """Return one launch with one slot, and one more for every number of streams beyond one."""
    alone: dict[str, dict[str, Any]] = {}
    wide: dict[int, dict[str, Any]] = {}
    for short in rows:
        metric, _, size = short.partition("@")
        if metric in ("ttft", "prefill"):
            alone[f"cold{size}"] = {"kind": "cold", "prompt_tokens": int(size), "repeats": repeats, "warmups": 1}
        elif metric == "decode":
            alone["decode"] = {
                "kind": "decode", "prompt_tokens": 16, "output_tokens": 32, "repeats": 1, "warmups": 0,
            }  # fmt: skip
        elif metric == "ttft_cached":
            alone["cached"] = {"kind": "cached", "prompt_tokens": int(size), "repeats": repeats, "warmups": 0}
        elif metric == "agg":
            step = {
                "kind": "agg", "prompt_tokens": 32, "output_tokens": agg_tokens, "streams": int(size), "repeats": 1,
                "warmups": 0,
            }  # fmt: skip
            if int(size) == 1:
                alone["agg"] = step
            else:
                wide[int(size)] = step
    launches = [{"slots": 1, "steps": list(alone.values())}] if alone else []
    return launches + [{"slots": streams, "steps": [step]} for streams, step in sorted(wide.items())]


def synthetic_params(
    *,
    rows: Sequence[str] = DEMO_ROWS,
    models: Sequence[str] = ("tiny",),
    release: str = "1.1.0",
    host: str = "synthetic",
    seed: int = 7,
    looks: Sequence[int] = (3, 5, 7, 9),
    floor_pairs: int = 6,
    margin: float = 0.40,
    agg_tokens: int = 64,
    repeats: int = 2,
    detector: str = "report",
    subject_settings: Mapping[str, Any] | None = None,
    targets: Mapping[str, float] | None = None,
) -> Params:
    """Return params that no file holds, valid in every other way.

    Parameters
    ----------
    rows : sequence of str
        Short row ids, ``metric@size``; the launches follow from them.
    models, release, host, seed, looks, floor_pairs, margin
        As in the params files.
    agg_tokens, repeats : int
        Output tokens of aggregate streams; timed repeats of cold and cached steps.
    detector : str
        ``one_token_detector`` of the host.
    subject_settings, targets : mapping, optional
    """
    engine = {"engine": "embedded", "settings": {"threads": 2}}
    prompts = {f"p{i}": f"Prompt number {i} asks for a plain sentence about the sea." for i in range(2)}
    files = ("demo.yaml", "protocols/p.yaml", "hosts/h.yaml", "prompts/corpus.txt", "prompts/identity.yaml")
    return Params.model_validate(
        {
            "path": f"{release}.yaml",
            "release": {
                "schema": "lqw-release/1",
                "release": release,
                "hosts": [host],
                "protocol": "synthetic",
                "seed": seed,
                "subject": {**engine, "settings": dict(subject_settings or {"threads": 2})},
                "comparator": engine,
                "models": [{"name": m, "gguf": f"{m}.gguf", "sha256": name_sha256("gguf", m)} for m in models],
            },
            "host": {
                "schema": "lqw-host/1",
                "name": host,
                "compute": "cpu",
                "margin": {"letter": "D", "fraction": margin, "reason": "a run made of numbers, with wide noise"},
                "one_token_detector": detector,
            },
            "protocol": {
                "schema": "lqw-protocol/1",
                "name": "synthetic",
                "rows": list(rows),
                "launches": _steps(rows, agg_tokens, repeats),
                "looks": list(looks),
                "floor_pairs": floor_pairs,
                "identity": {"output_tokens": 24, "repeats": 2},
                "min_window_s": 0.2,
            },
            "targets": {"schema": "lqw-targets/1", "targets": dict(targets or {"prefill": 0.8, "decode": 0.9})},
            "prompts": prompts,
            "files": {name: name_sha256("file", name) for name in files},
        }
    )

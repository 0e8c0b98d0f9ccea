"""``lqw doctor --roofline``: the device's copy bandwidth and matmul rate, measured once and kept with the params."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from lqw.canonical import write_atomic
from lqw.host.fingerprint import host_facts
from lqw.host.roofline import Rate, Unavailable, measure_copy, measure_matmul
from lqw.params.loading import ROOFLINES, params_root
from lqw.params.roofline import CopyRate, MatmulRate, RooflineSpec
from lqw.pipeline.runs import utc_now
from lqw.receipt.roofline import device_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["keep_roofline", "measure_roofline"]


def measure_roofline(host: str, compute: Literal["cpu", "cuda"]) -> RooflineSpec:
    """Measure both rates; one that cannot be measured here is named in ``missing``.

    Raises
    ------
    UsageError
        The host computes on a GPU, and there is none.
    """
    missing: dict[Any, str] = {}

    def rate(part: str, measure: Callable[[Literal["cpu", "cuda"]], Rate]) -> Rate | None:
        try:
            return measure(compute)
        except Unavailable as err:
            missing[part] = str(err)
            return None

    device = device_of(host_facts(host, compute), compute)
    copy, matmul = rate("copy", measure_copy), rate("matmul", measure_matmul)
    return RooflineSpec(
        schema="lqw-roofline/1",
        host=host,
        compute=compute,
        device=device,
        measured_utc=utc_now(),
        copy=None if copy is None else CopyRate(bytes_s=round(copy.per_s), method=copy.method),
        matmul=None if matmul is None else MatmulRate(flop_s=round(matmul.per_s), method=matmul.method),
        missing=missing,
    )


def keep_roofline(spec: RooflineSpec, release: Path) -> Path:
    """Write the host's file below the ``params/`` folder of a release file; return its path."""
    path = params_root(release) / ROOFLINES / f"{spec.host}.json"
    path.parent.mkdir(exist_ok=True)
    value = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    write_atomic(path, (json.dumps({"schema": spec.schema_, **value}, indent=1) + "\n").encode())
    return path

"""How far each row is from what the host can do at best: bytes over copy bandwidth, operations over matmul rate.

A token cannot come sooner than the weights and the keys and values it looks at have been read, nor a prompt before its
products are done (MEASUREMENT, "Roofline"). What is left out (attention's own products, activations) only brings an
engine nearer to its limit. Published, never gating; everything here follows from the journal's header and the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lqw.metrics import RowId
    from lqw.params import Params, StepSpec
    from lqw.samples import Header, HostFacts, ModelWork
    from lqw.verdict import Judgement

__all__ = ["Limit", "device_of", "limit_of", "roofline_of"]

_MS = 1e3


def device_of(host: HostFacts, compute: Literal["cpu", "cuda"]) -> str:
    """Return the device that a roofline is of: the GPU, or the processor with its cores."""
    return str(host.gpu) if compute == "cuda" else f"{host.cpu_model}, {host.cores} cores"


@dataclass(frozen=True, slots=True)
class Limit:
    """The best value a row can have, in its unit, and the work of one token (one prompt for a latency or prefill).

    ``by`` names what binds: ``copy`` the bytes, ``matmul`` the operations.
    """

    value: float
    bytes: int
    flops: int
    by: Literal["copy", "matmul"]

    def share(self, seen: float, *, smaller_is_better: bool) -> float:
        """Return how much of the limit a value reaches, 1 being all of it."""
        return self.value / seen if smaller_is_better else seen / self.value


def _work(step: StepSpec, work: ModelWork) -> tuple[int, int, float]:
    """Return bytes and operations of one pass over a model, and how many tokens come of it."""
    if step.kind in ("cold", "cached"):
        fresh = step.suffix_tokens if step.kind == "cached" else step.prompt_tokens
        old = step.prompt_tokens if step.kind == "cached" else 0
        return work.weight_bytes + work.kv(old), 2 * (work.layer_weights * fresh + work.output_weights), fresh
    context = step.prompt_tokens + step.output_tokens // 2  # while tokens are made, on average
    own = work.kv(context) + 2 * work.state_bytes  # a recurrent state is read and written
    flops = 2 * (work.layer_weights + work.output_weights)
    return work.weight_bytes + step.streams * own, step.streams * flops, step.streams


def limit_of(row: RowId, step: StepSpec, work: ModelWork, *, bytes_s: float | None, flop_s: float | None) -> Limit:
    """Return the limit of a timed row.

    Parameters
    ----------
    row, step
        The row and the step it is taken from.
    work : ModelWork
        Of its model.
    bytes_s, flop_s : float or None
        What was measured of the device; at least one of them.
    """
    size, flops, tokens = _work(step, work)
    by_copy = size / bytes_s if bytes_s else 0.0
    by_matmul = flops / flop_s if flop_s else 0.0
    seconds = max(by_copy, by_matmul)
    value = seconds * _MS if row.kind.unit == "ms" else tokens / seconds
    return Limit(value, size, flops, "copy" if by_copy >= by_matmul else "matmul")


def roofline_of(header: Header, params: Params, judgement: Judgement) -> dict[str, Any] | None:
    """Return the receipt's member ``roofline``; None where the host was never measured.

    Returns
    -------
    dict or None
        ``sha256`` of the host's file, ``device``, ``rows``: row → limit in the row's unit, bytes and operations, what
        binds, and both engines' percent of it; ``without`` says why a row, or all of them, have no limit.
    """
    roof = params.roofline
    if roof is None:
        return None
    out: dict[str, Any] = {
        "sha256": params.files.get(f"rooflines/{roof.host}.json", ""),
        "device": roof.device,
        "rows": {},
        "without": {},
    }
    here = device_of(header.host, params.host.compute)
    if roof.device != here:
        out["without"]["all"] = f"measured on {roof.device}, the run on {here}: lqw doctor PARAMS --roofline"
        return out
    if roof.copy_ is None and roof.matmul is None:
        out["without"]["all"] = "neither rate could be measured: " + "; ".join(roof.missing.values())
        return out
    steps = {step.step_id: step for step in params.protocol.steps}
    for row in judgement.rows:
        name = str(row.row)
        step = steps.get(row.row.step_id)
        work = header.work.get(row.row.model)
        if step is None:
            continue  # memory has no such limit
        if work is None:
            out["without"][name] = "the file's header does not tell the model's sizes"
            continue
        limit = limit_of(
            row.row,
            step,
            work,
            bytes_s=None if roof.copy_ is None else roof.copy_.bytes_s,
            flop_s=None if roof.matmul is None else roof.matmul.flop_s,
        )
        smaller = row.row.kind.sign < 0
        out["rows"][name] = {
            "limit": limit.value,
            "unit": row.unit,
            "bytes": limit.bytes,
            "flops": limit.flops,
            "by": limit.by,
            **{
                f"{arm}_percent": None if seen is None else 100 * limit.share(seen, smaller_is_better=smaller)
                for arm, seen in (("subject", row.subject), ("comparator", row.comparator))
            },
        }
    return out

"""Two distributions compared by their heads: what the served API tells of them. Pure.

``/completion`` gives the log-probabilities of the likeliest tokens, not the logits. A softmax forgets a constant, so
log-probabilities are compared after their mean is taken off: the cosine of centred values (their correlation) over the
tokens that either side has in its head. A token that one side's head lacks counts as that head's last value, which is
the most it can be. This is not the cosine of whole logits that ``apr parity`` computes, and has a floor of its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["METHOD", "compare_heads", "record_of"]

METHOD = "llama-logprobs"
_LEAST_TAIL = 1e-9  # of probability, outside both heads


def _centred_cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of both, each less its mean; 1 where both are constant, 0 where only one is."""
    one, other = ([value - math.fsum(side) / len(side) for value in side] for side in (left, right))
    norms = [math.sqrt(math.fsum(value * value for value in side)) for side in (one, other)]
    if not all(norms):
        return 1.0 if not any(norms) else 0.0
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return max(-1.0, min(1.0, dot / (norms[0] * norms[1])))


def _divergence(reference: Sequence[float], subject: Sequence[float]) -> float:
    """Return KL(reference ‖ subject) in nats, everything outside the heads taken as one token."""
    total = 0.0
    tails = [max(1 - math.fsum(map(math.exp, side)), _LEAST_TAIL) for side in (reference, subject)]
    for p, q in [*zip(reference, subject, strict=True), (math.log(tails[0]), math.log(tails[1]))]:
        total += math.exp(p) * (p - q)
    return max(total, 0.0)


def _argmax(head: Mapping[int, float]) -> int:
    return max(head, key=lambda token: (head[token], -token))


def compare_heads(position: int, reference: Mapping[int, float], subject: Mapping[int, float]) -> dict[str, Any]:
    """Return one position's metric, in the names of ``apr parity``: ``cpu_argmax`` is the reference's.

    Parameters
    ----------
    position : int
        Of the token predicted, from 0.
    reference, subject : mapping
        Token id → log-probability in nats, at least two each.
    """
    tokens = sorted(reference.keys() | subject.keys())
    left, right = ([side.get(token, min(side.values())) for token in tokens] for side in (reference, subject))
    apart = [abs(a - b) for a, b in zip(left, right, strict=True)]
    best, told = _argmax(reference), _argmax(subject)
    return {
        "position": position,
        "token_id": best,
        "cpu_argmax": best,
        "gpu_argmax": told,
        "max_abs_diff": round(max(apart), 6),
        "mean_abs_diff": round(math.fsum(apart) / len(apart), 6),
        "cosine_similarity": round(_centred_cosine(left, right), 6),
        "kl_divergence": round(_divergence(left, right), 6),
        "verdict": "OK" if best == told else "ARGMAX",
    }


def record_of(
    model_file: str,
    reference: Sequence[Mapping[int, float]],
    subject: Sequence[Mapping[int, float]],
    *,
    arms: Mapping[str, str],
) -> dict[str, Any]:
    """Return the raw record of one continuation, position by position; ``arms`` says who stands under which name."""
    metrics = [compare_heads(at, *pair) for at, pair in enumerate(zip(reference, subject, strict=True))]
    same = sum(one["verdict"] == "OK" for one in metrics)
    return {
        "model": model_file,
        "method": METHOD,
        "arms": dict(arms),
        "head_tokens": min(map(len, [*reference, *subject]), default=0),
        "tokens": len(metrics),
        "passed": same,
        "failed": len(metrics) - same,
        "parity": same == len(metrics),
        "metrics": metrics,
    }

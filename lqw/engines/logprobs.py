"""Log-probabilities of llama-server's API: what each token's runner-up was worth, and whole distributions' heads.

``n_probs`` makes the server sort its vocabulary for every token: never on a timed request.
"""

from __future__ import annotations

import json
from typing import Any

from lqw.engines.base import HttpRequest

__all__ = ["head_of", "margins_of", "with_margins", "with_probs"]

IMPOSSIBLE = -1e4  # nats; llama-server writes the least float for minus infinity


def with_probs(request: HttpRequest, count: int) -> HttpRequest:
    """Return *request* with the *count* likeliest tokens asked for at each position."""
    return HttpRequest(request.path, json.dumps({**json.loads(request.body), "n_probs": count}).encode())


def with_margins(request: HttpRequest) -> HttpRequest:
    """Return *request* with the two likeliest tokens asked for at each position."""
    return with_probs(request, 2)


def margins_of(value: Any) -> list[float] | None:
    """Return, per token of an answer, ``logprob(best) − logprob(second)`` in nats; None where it does not tell."""
    positions = value.get("completion_probabilities") if isinstance(value, dict) else None
    if not isinstance(positions, list) or not positions:
        return None
    out = []
    for position in positions:
        top = position.get("top_logprobs") if isinstance(position, dict) else None
        if not isinstance(top, list) or len(top) < 2:  # noqa: PLR2004 - a runner-up
            return None
        first, second = sorted((float(one["logprob"]) for one in top), reverse=True)[:2]
        out.append(round(first - second, 6))
    return out


def head_of(value: Any) -> dict[int, float]:
    """Return token id → log-probability (nats) of the first position of an answer; empty where it does not tell.

    A token that the sampler was forbidden has no finite value and is left out.
    """
    positions = value.get("completion_probabilities") if isinstance(value, dict) else None
    top = positions[0].get("top_logprobs") if isinstance(positions, list) and positions else None
    out = {}
    for one in top if isinstance(top, list) else []:
        logprob = one.get("logprob")
        if isinstance(logprob, int | float) and logprob > IMPOSSIBLE:
            out[int(one["id"])] = float(logprob)
    return out

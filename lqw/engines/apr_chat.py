"""apr's chat route: the one whose requests form batches on a GPU (completions and ``/generate`` queue for a lock).

``logprobs`` names the id of every token. The template adds tokens before and after the text, the same for every
request, so answers are comparable among themselves and with no other route's.
"""

from __future__ import annotations

from typing import Any

from lqw.engines.control import ControlError
from lqw.outcomes import Reason

__all__ = ["ROUTE", "chat_body", "chat_fields", "timed_chat_body"]

ROUTE = "/v1/chat/completions"


def chat_body(text: str, n_predict: int) -> dict[str, Any]:
    """Return a greedy chat of *n_predict* forced tokens, whose answer names its ids."""
    return {
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": n_predict,
        "temperature": 0.0,
        "ignore_eos": True,
        "logprobs": True,
        "stream": False,
    }


def timed_chat_body(text: str, n_predict: int, *, stream: bool) -> dict[str, Any]:
    """Return the chat of a timed row, and of its untimed twin, which names its ids; no thinking on either arm."""
    return chat_body(text, n_predict) | {
        "logprobs": not stream,
        "stream": stream,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def chat_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an :class:`lqw.samples.Answer`; ControlError where ids are missing or miscounted."""
    try:
        choice, usage = value["choices"][0], value["usage"]
        ids = [token["token_id"] for token in choice["logprobs"]["content"]]
        fields = {
            "prompt_tokens": int(usage["prompt_tokens"]),
            "ids": ids,
            "text": str(choice["message"]["content"]),
            "finish": str(choice["finish_reason"]),
        }
        counted = int(usage["completion_tokens"])
    except (KeyError, IndexError, TypeError, ValueError) as err:
        raise ControlError(Reason.HTTP_ERROR, f"{ROUTE} gave no ids: {type(err).__name__} {err}") from err
    if not all(type(one) is int for one in ids) or counted != len(ids):
        raise ControlError(Reason.HTTP_ERROR, f"{ROUTE} counts {counted} tokens and names {len(ids)}")
    return fields

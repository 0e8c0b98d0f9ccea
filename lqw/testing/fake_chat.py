"""The fake engine's chat route: a template around one message, and its events in OpenAI's words."""

from __future__ import annotations

from typing import Any

from lqw.testing.fake_model import tokenize

__all__ = ["PATH", "as_chat", "as_completion", "templated"]

PATH = "/v1/chat/completions"


def templated(body: dict[str, Any]) -> str:
    """Return the prompt that the template makes of the messages; the space around each is cut off."""
    said = "".join(f"<{one['role']}>{one['content'].strip()}" for one in body["messages"])
    return f"{said}<assistant>"


def as_completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return the completion that a chat asks for."""
    return {
        "prompt": tokenize(templated(body)),
        "n_predict": body["max_tokens"],
        "cache_prompt": body.get("cache_prompt", True),
        "stream": body.get("stream", False),
    }


def as_chat(event: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    """Return an event, or the last one, or a whole answer of a completion in a chat's words."""
    if not event["stop"]:
        return {"choices": [{"index": 0, "delta": {"content": event["content"]}, "finish_reason": None}]}
    prompt, said = event["tokens_evaluated"], event["tokens_predicted"]
    text = {"delta": {}} if stream else {"message": {"role": "assistant", "content": event["content"]}}
    return {
        "choices": [{"index": 0, **text, "finish_reason": "length" if event["stop_type"] == "limit" else "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said},
        "timings": event["timings"],
    }

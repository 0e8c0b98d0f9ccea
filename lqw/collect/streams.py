"""What the events of a stream mean, per wire format: which carry generated tokens, how many, and how it ended.

A role, usage, progress, comment or ping event never counts as a token; text is not re-tokenised; chunks are not
counted as tokens where the engine tells better (MEASUREMENT, "TTFT" and "token counts").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lqw.samples import ServerTimings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lqw.collect.wire import Event

__all__ = ["FORMATS", "Told", "understand"]


@dataclass(slots=True)
class Told:
    """What a stream told.

    Attributes
    ----------
    stamps_ns, tokens : list of int
        Arrival and number of tokens of every event that carries generated tokens.
    reads : list of int
        The read each of them was completed in.
    text, ids
        What was generated; ``ids`` may lack tokens that end inside a character.
    finished : bool
        The last event of the format was there.
    error : str
        An error object the engine sent inside a 200.
    counts : dict
        Every count of generated tokens the engine gave, by its source.
    prompt_tokens : dict
        Every count of prompt tokens the engine gave, by its source.
    """

    stamps_ns: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    text: str = ""
    ids: list[int] = field(default_factory=list)
    finished: bool = False
    error: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    prompt_tokens: dict[str, int] = field(default_factory=dict)
    timings: ServerTimings | None = None

    def add(self, event: Event, tokens: int) -> None:
        """Note *tokens* generated tokens that arrived with *event*."""
        self.stamps_ns.append(event.stamp_ns)
        self.tokens.append(tokens)
        self.reads.append(event.read)


def _count(value: Any) -> int | None:
    """Return a count, or None; ``true`` is no count and a missing one is not zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _milliseconds(nanoseconds: Any) -> float | None:
    value = _number(nanoseconds)
    return None if value is None else value / 1e6


def _timings(value: Any) -> ServerTimings | None:
    if not isinstance(value, dict):
        return None
    return ServerTimings(
        cache_n=_count(value.get("cache_n")),
        prompt_n=_count(value.get("prompt_n")),
        prompt_ms=_number(value.get("prompt_ms")),
        predicted_n=_count(value.get("predicted_n")),
        predicted_ms=_number(value.get("predicted_ms")),
    )


def _note_timings(told: Told, value: Any) -> None:
    timings = _timings(value)
    if timings is None:
        return
    told.timings = timings
    if timings.predicted_n is not None:
        told.counts["timings"] = timings.predicted_n
    if timings.prompt_n is not None:
        told.prompt_tokens["timings"] = timings.prompt_n + (timings.cache_n or 0)


def _note_error(told: Told, value: Any) -> bool:
    if not isinstance(value, dict) or "error" not in value or value["error"] is None:
        return False
    error = value["error"]
    told.error = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    return True


def _llama(told: Told, event: Event, value: dict[str, Any]) -> None:
    """llama-server ``/completion``: ``tokens_predicted`` runs along, so that held-back tokens are counted when told."""
    so_far, counted = _count(value.get("tokens_predicted")), sum(told.tokens)
    if value.get("stop") is True:
        told.finished = True
        _note_timings(told, value.get("timings"))
        evaluated = _count(value.get("tokens_evaluated"))
        if evaluated is not None:
            told.prompt_tokens["evaluated"] = evaluated
        if so_far is None:
            return
        told.counts["events"] = so_far
        if so_far > counted:  # tokens inside an unfinished character are only told of here
            told.add(event, so_far - counted)
        return
    if "prompt_progress" in value or so_far == 0:
        return
    text, ids = value.get("content"), value.get("tokens")
    ids = [int(token) for token in ids if _count(token) is not None] if isinstance(ids, list) else []
    if so_far is None and not ids and not text:
        return
    tokens = so_far - counted if so_far is not None else max(len(ids), 1)
    if tokens <= 0:
        return
    told.text += text if isinstance(text, str) else ""
    told.ids += ids
    told.add(event, tokens)


def _openai(told: Told, event: Event, value: dict[str, Any]) -> None:
    """OpenAI-like completions and chat: text in any channel is a token; ids where logprobs or ``token_ids`` tell."""
    _note_timings(told, value.get("timings"))
    usage = value.get("usage")
    if isinstance(usage, dict):
        for key, store in (("completion_tokens", told.counts), ("prompt_tokens", told.prompt_tokens)):
            count = _count(usage.get(key))
            if count is not None:
                store["usage"] = count
        _note_reuse(told, usage.get("prompt_tokens_details"))
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    told.finished = told.finished or choice.get("finish_reason") is not None
    said = choice.get("delta")
    delta: dict[str, Any] = said if isinstance(said, dict) else {}
    channels = [choice.get("text"), delta.get("content"), delta.get("reasoning_content"), delta.get("reasoning")]
    text = "".join(part for part in channels if isinstance(part, str))
    ids = _logprob_ids(choice.get("logprobs")) or _token_ids(choice.get("token_ids"))
    if text or ids:
        told.text += text
        told.ids += ids
        told.add(event, max(len(ids), 1))


def _note_reuse(told: Told, details: Any) -> None:
    """Note how much of the prompt came from a cache, where the server tells it in its usage alone."""
    reused = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if reused is not None and (told.timings is None or told.timings.cache_n is None):
        told.timings = (told.timings or ServerTimings()).model_copy(update={"cache_n": reused})


def _token_ids(value: Any) -> list[int]:
    """Return the ids of a chunk as vLLM gives them with ``return_token_ids``."""
    entries = value if isinstance(value, list) else []
    return [token for token in entries if _count(token) is not None]


def _logprob_ids(value: Any) -> list[int]:
    content = value.get("content") if isinstance(value, dict) else None
    entries = content if isinstance(content, list) else []
    found = [_count(entry.get("token_id")) for entry in entries if isinstance(entry, dict)]
    return [token for token in found if token is not None]


def _ollama(told: Told, event: Event, value: dict[str, Any]) -> None:
    """Ollama NDJSON: text until ``done``; durations in ns; ``prompt_eval_count`` includes cached tokens."""
    text = "".join(part for part in (value.get("response"), value.get("thinking")) if isinstance(part, str))
    if text:
        told.text += text
        told.add(event, 1)
    if value.get("done") is not True:
        return
    told.finished = True
    told.timings = ServerTimings(
        prompt_n=_count(value.get("prompt_eval_count")),
        prompt_ms=_milliseconds(value.get("prompt_eval_duration")),
        predicted_n=_count(value.get("eval_count")),
        predicted_ms=_milliseconds(value.get("eval_duration")),
    )
    for key, store in (("eval_count", told.counts), ("prompt_eval_count", told.prompt_tokens)):
        count = _count(value.get(key))
        if count is not None:
            store["ollama"] = count


FORMATS: dict[str, Callable[[Told, Event, dict[str, Any]], None]] = {
    "llama": _llama,
    "openai": _openai,
    "ollama": _ollama,
}
"""How each wire format is read. A new format is one function and one line here."""


def _settle(told: Told) -> None:
    """Spread tokens that an engine counted but did not place over the chunks after the first.

    Several tokens may share a chunk where text waits for a whole character. The total is the engine's own count;
    only its distribution inside the stream is assumed to be even.
    """
    total = next((told.counts[source] for source in ("usage", "ollama") if source in told.counts), None)
    missing = 0 if total is None else total - sum(told.tokens)
    if missing <= 0 or not told.tokens:
        return
    where = range(1, len(told.tokens)) or range(1)
    for step in range(missing):
        told.tokens[where[step * len(where) // missing]] += 1


def understand(events: Sequence[Event], stream_format: str) -> Told:
    """Read the events of a stream; never raises on content.

    Parameters
    ----------
    events : sequence of Event
        From :func:`lqw.collect.wire.read_response`.
    stream_format : str
        A key of :data:`FORMATS`.
    """
    told, read = Told(), FORMATS[stream_format]
    for event in events:
        if event.data.strip() == b"[DONE]":
            told.finished = True
            continue
        try:
            value = json.loads(event.data)
        except ValueError:
            told.error = told.error or f"an event is not JSON: {event.data[:120]!r}"
            continue
        if isinstance(value, dict) and not _note_error(told, value):
            read(told, event, value)
    _settle(told)
    return told

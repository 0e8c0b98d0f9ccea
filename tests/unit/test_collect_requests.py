"""Every demand a timed request must meet, and the reason it gets when it does not."""

import json
from pathlib import Path

import pytest

from lqw.collect.requests import Asked, sample_of
from lqw.collect.streams import understand
from lqw.collect.transport import Exchange
from lqw.collect.wire import Event
from lqw.outcomes import Reason

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
MS = 1_000_000


def _asked(n=20, prompt=40, reuse=0):
    return Asked("decode", "timed", 0, 0, tuple(range(1000, 1000 + prompt)), n, reuse)


def _token(i, **more):
    return {"content": "w", "tokens": [5000 + i], "stop": False, "tokens_predicted": i, "tokens_evaluated": 40, **more}


def _last(n=20, prompt=40, cache=0, **more):
    timings = {"cache_n": cache, "prompt_n": prompt - cache, "prompt_ms": 50.0, "predicted_n": n, "predicted_ms": 100.0}
    return {
        "content": "",
        "tokens": [],
        "stop": True,
        "tokens_predicted": n,
        "tokens_evaluated": prompt,
        "timings": timings,
    } | more


def _exchange(values, *, head=HEAD, first=100 * MS, gap=10 * MS, **more):
    stamps = [1000 + first + gap * i for i in range(len(values))]
    reads = [f"data: {json.dumps(value)}\n\n".encode() for value in values]
    reads[0] = head + reads[0]
    return Exchange(due_ns=900, sent_ns=1000, stamps=stamps, reads=reads, closed_ns=stamps[-1] + 1, **more)


def _sample(values, asked=None, **more):
    return sample_of(_exchange(values, **more), asked or _asked(), "llama", 500)


GOOD = [*(_token(i) for i in range(1, 21)), _last()]


def test_a_good_stream():
    sample = _sample(GOOD)
    assert sample.failure is None
    assert sample.ttft_ns == 100 * MS
    assert sample.gaps_ns == [10 * MS] * 19
    assert sample.chunk_tokens == [1] * 20
    assert (sample.sent_ns, sample.due_ns) == (500, 400)
    assert sample.ids_sha256
    assert sample.text_sha256
    assert sample.timings.predicted_n == 20


def test_progress_and_empty_events_are_no_tokens():
    progress = {"content": "", "tokens": [0], "stop": False, "tokens_predicted": 0, "prompt_progress": {"processed": 8}}
    sample = _sample([progress, progress, *GOOD])
    assert sample.failure is None
    assert sample.ttft_ns == 120 * MS


def test_tokens_held_back_inside_a_character_are_counted_when_told():
    values = [_token(1), _token(4), *(_token(i) for i in range(5, 19)), _last()]
    sample = _sample(values)
    assert sample.failure is None
    assert sample.chunk_tokens[:2] == [1, 3]
    assert sample.chunk_tokens[-1] == 2  # the last two only with the last event
    assert sum(sample.chunk_tokens) == 20
    assert sample.ids_sha256 is None


@pytest.mark.parametrize(
    ("values", "asked", "reason"),
    [
        ([*GOOD[:10], _last(10)], _asked(), Reason.SHORT_OUTPUT),
        ([_last(0)], _asked(), Reason.SHORT_OUTPUT),
        ([*GOOD[:-1], _last(19) | {"tokens_predicted": 20}], _asked(), Reason.COUNT_MISMATCH),
        ([_token(1) | {"tokens": [1, 2, 3]}, *GOOD[1:]], _asked(), Reason.COUNT_MISMATCH),
        (GOOD, _asked(prompt=41), Reason.PROMPT_LENGTH),
        ([*GOOD[:-1], _last(cache=7)], _asked(), Reason.NOT_COLD),
        ([*GOOD[:-1], _last(cache=23)], _asked(reuse=32), Reason.NO_REUSE),
        ([*GOOD[:-1], _last(timings={"predicted_n": 20})], _asked(reuse=32), Reason.NO_REUSE),
        (GOOD[:-1], _asked(), Reason.STREAM_BROKEN),
        ([*GOOD[:5], {"error": {"code": 500, "message": "slot lost"}}], _asked(), Reason.HTTP_ERROR),
    ],
)
def test_what_is_wrong_has_its_reason(values, asked, reason):
    assert _sample(values, asked).failure.reason is reason


def test_reuse_within_eight_tokens_is_reuse():
    assert _sample([*GOOD[:-1], _last(cache=24)], _asked(reuse=32)).failure is None


def test_a_buffered_stream_is_refused_but_a_single_token_is_not():
    assert _sample(GOOD, gap=MS // 10).failure.reason is Reason.NOT_STREAMED
    assert _sample([_token(1), _last(1)], _asked(n=1), gap=1).failure is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"error": "reset", "detail": "ConnectionResetError"}, Reason.CONNECTION_RESET),
        ({"error": "stall", "detail": "nothing arrived for 60 s"}, Reason.TIMEOUT),
        ({"error": "timeout", "detail": "still ran"}, Reason.TIMEOUT),
        ({"head": HEAD.replace(b"200 OK", b"503 Busy")}, Reason.HTTP_ERROR),
        ({"head": HEAD.replace(b"text/event-stream", b"application/json")}, Reason.NOT_STREAMED),
        ({"head": HEAD.replace(b"HTTP/1.1", b"SPDY")}, Reason.STREAM_BROKEN),
        ({"head": HEAD.replace(b"Connection: close", b"Content-Length: 999999")}, Reason.STREAM_BROKEN),
    ],
)
def test_a_broken_wire_has_its_reason(more, reason):
    assert _sample(GOOD, **more).failure.reason is reason


def test_an_answer_of_nothing():
    empty = Exchange(sent_ns=1000, closed_ns=2000)
    assert sample_of(empty, _asked(), "llama", 0).failure.reason is Reason.STREAM_BROKEN
    refused = Exchange(sent_ns=1000, closed_ns=2000, error="connect", detail="refused")
    assert sample_of(refused, _asked(), "llama", 0).failure.reason is Reason.CONNECTION_RESET


def _events(values, raw=()):
    return [Event(json.dumps(v).encode(), 100 * i, i) for i, v in enumerate(values, 1)] + [
        Event(data, 10_000, 99) for data in raw
    ]


def test_chat_role_and_usage_chunks_are_no_tokens_and_done_ends():
    delta = lambda **d: {"choices": [{"delta": d, "finish_reason": None}]}  # noqa: E731
    values = [
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(content="a"),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}},
    ]
    told = understand(_events(values, [b"[DONE]"]), "openai")
    assert told.stamps_ns == [200, 300]
    assert told.tokens == [1, 3]  # the engine's own count, not the chunks
    assert told.finished
    assert told.prompt_tokens == {"usage": 9}


def test_ollama_lines():
    values = [{"response": "a"}, {"response": "b"}, {"done": True, "eval_count": 2, "prompt_eval_count": 5}]
    told = understand(_events(values), "ollama")
    assert (told.tokens, told.finished, told.prompt_tokens) == ([1, 1], True, {"ollama": 5})


def test_not_json_is_an_error():
    assert "not JSON" in understand(_events([], [b"<html>"]), "openai").error


def test_a_recorded_answer_of_ollama():
    raw = (Path(__file__).parents[1] / "fixtures" / "exchanges" / "ollama_stream.txt").read_bytes()
    sample = sample_of(
        Exchange(sent_ns=0, stamps=[5], reads=[raw], closed_ns=6), _asked(4, prompt=13, reuse=None), "ollama", 0
    )
    assert sample.failure is None  # one read, so nothing is known of gaps; counts agree all the same
    assert sample.chunk_tokens == [1, 1, 1, 1]
    assert (sample.timings.prompt_n, sample.timings.predicted_n) == (13, 4)
    assert sample.timings.predicted_ms == 215.773621

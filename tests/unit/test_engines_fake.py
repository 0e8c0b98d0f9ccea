"""The fake engine does what its faults say, on the wire."""

import json
import socket
import threading
import time

import pytest

from lqw.engines.base import Prompt
from lqw.testing.fake_model import detokenize, tokenize
from lqw.testing.faults import Fault
from tests.support.engines import started

PROMPT = Prompt(tuple(tokenize("The lamp keeper climbed the stairs.")))
OTHER = Prompt((2, *tokenize("Another prompt of some length.")[::-1]))


def ask(engine, prompt=PROMPT, n=8, *, cache=False, slot=None, stream=True):
    """Return (events, ended properly, seconds) of a raw exchange."""
    path, body = engine.request_body("cold", prompt, n, cache=cache, stream=stream, slot=slot)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    began, data = time.perf_counter(), b""
    with socket.create_connection((engine.host, engine.port), timeout=0.5) as sock:
        sock.sendall(head + body)
        try:
            while received := sock.recv(65536):
                data += received
        except (TimeoutError, ConnectionResetError):
            data += b"<silence>"
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ") and line.endswith(b"}")]
    if not stream:
        events = [json.loads(data.split(b"\r\n\r\n", 1)[1])]
    return events, data.endswith(b"0\r\n\r\n"), time.perf_counter() - began


def tokens(events):
    return [token for event in events if not event.get("stop") for token in event["tokens"]]


def test_a_healthy_stream(tmp_path):
    with started(tmp_path) as engine:
        events, ended, _ = ask(engine)
        whole, _, _ = ask(engine, stream=False)
    assert ended
    assert len(tokens(events)) == 8
    assert [event["tokens_predicted"] for event in events] == [*range(1, 9), 8]
    assert tokens(events) == whole[0]["tokens"]
    assert "".join(event["content"] for event in events) == whole[0]["content"]
    timings = events[-1]["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (0, len(PROMPT.ids), 8)


@pytest.mark.parametrize("after", [0, 1])
def test_a_fault_begins_when_it_is_told_to(tmp_path, after):
    with started(tmp_path, fault="short_output", fault_after=after) as engine:
        counts = [len(tokens(ask(engine, n=9)[0])) for _ in range(2)]
    assert counts == [[6, 6], [9, 6]][after]


@pytest.mark.parametrize(
    ("fault", "events_seen", "ended"),
    [
        (Fault.DIE_IN_STREAM, 3, False),
        (Fault.STALL, 3, False),
        (Fault.TRUNCATED, 3, False),
        (Fault.NO_LAST_EVENT, 8, True),
    ],
)
def test_broken_streams(tmp_path, fault, events_seen, ended):
    with started(tmp_path, fault=str(fault)) as engine:
        events, properly, _ = ask(engine)
    assert (len(events), properly) == (events_seen, ended)
    assert not any(event["stop"] for event in events)


def test_errors(tmp_path):
    with started(tmp_path, fault="error_in_200") as engine:
        events, ended, _ = ask(engine)
        assert ended
        assert events[-1]["error"]["code"] == 500
        assert "error" in ask(engine, stream=False)[0][0]
    with started(tmp_path, fault="http_500") as engine:
        assert ask(engine, stream=False)[0][0]["error"]["code"] == 500
    with started(tmp_path) as engine:
        too_long = ask(engine, Prompt((11,) * 600), stream=False)[0][0]
        assert too_long["error"]["type"] == "exceed_context_size_error"


def test_lies_about_counts(tmp_path):
    with started(tmp_path, fault="wrong_prompt_count") as engine:
        last = ask(engine)[0][-1]
        assert last["tokens_evaluated"] == last["timings"]["prompt_n"] == len(PROMPT.ids) - 2
    with started(tmp_path, fault="lying_count") as engine:
        events = ask(engine)[0]
        assert events[-1]["timings"]["predicted_n"] == len(tokens(events)) + 1


@pytest.mark.parametrize(
    ("fault", "asked", "reused"),
    [("none", True, True), ("none", False, False), ("cold_reuse", False, True), ("no_reuse", True, False)],
)
def test_reuse_of_a_prefix(tmp_path, fault, asked, reused):
    longer = Prompt((*PROMPT.ids, *OTHER.ids))
    with started(tmp_path, fault=fault) as engine:
        ask(engine, n=1, cache=True, slot=0)
        cached = ask(engine, longer, n=1, cache=asked, slot=0)[0][-1]["timings"]["cache_n"]
        same = ask(engine, longer, n=1, cache=asked, slot=0)[0][-1]["timings"]["cache_n"]
    assert cached == (len(PROMPT.ids) if reused else 0)
    assert same == (len(longer.ids) - 1 if reused else 0), "the last token is always computed"


def test_a_pinned_slot_does_not_know_what_another_has(tmp_path):
    with started(tmp_path) as engine:
        ask(engine, n=1, cache=True, slot=0)
        assert ask(engine, n=1, cache=True, slot=1)[0][-1]["timings"]["cache_n"] == 0


def test_texts(tmp_path):
    said = {}
    for fault in ("none", "other_tokens", "unsteady", "garbage"):
        with started(tmp_path, fault=fault) as engine:
            said[fault] = [tokens(ask(engine)[0]) for _ in range(2)]
    assert said["none"][0] == said["none"][1]
    assert said["other_tokens"][0] == said["other_tokens"][1] != said["none"][0]
    assert said["unsteady"][0] != said["unsteady"][1]
    assert len(set(said["garbage"][0])) == 1
    assert len(set(said["none"][0])) > 4


def test_answers_follow_from_the_prompt_alone(tmp_path):
    with started(tmp_path) as one:
        first = tokens(ask(one)[0])
    with started(tmp_path, slots=4, ubatch=1) as two:
        assert tokens(ask(two)[0]) == first
        assert tokens(ask(two, OTHER)[0]) != first


def together(engine, n=12):
    results = [None, None]

    def go(index, prompt):
        results[index] = ask(engine, prompt, n)

    threads = [threading.Thread(target=go, args=pair) for pair in enumerate((PROMPT, OTHER))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, time.perf_counter() - began


def test_garbage_only_beside_others(tmp_path):
    with started(tmp_path, fault="garbage_parallel", decode_tok_s=100) as engine:
        alone = tokens(ask(engine)[0])
        (first, second), _ = together(engine)
    assert len(set(alone)) > 4
    assert min(len(set(tokens(first[0]))), len(set(tokens(second[0])))) < 4


def test_streams_run_together_and_a_serialising_server_does_not(tmp_path):
    walls = {}
    for fault in ("none", "serialise"):
        with started(tmp_path, fault=fault, decode_tok_s=50, contention=0.0) as engine:
            walls[fault] = together(engine)[1]
    assert walls["serialise"] > 1.3 * walls["none"]


def test_a_buffered_stream_sends_all_at_the_end(tmp_path):
    with started(tmp_path, fault="buffered", decode_tok_s=100) as engine:
        path, body = engine.request_body("cold", PROMPT, 20, cache=False, stream=True)
        head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection((engine.host, engine.port), timeout=5) as sock:
            began = time.perf_counter()
            sock.sendall(head + body)
            while b"data:" not in sock.recv(65536):
                pass
            assert time.perf_counter() - began > 0.15


def test_the_declared_speed_is_kept(tmp_path):
    with started(tmp_path, prefill_tok_s=200, decode_tok_s=50) as engine:
        timings = ask(engine, Prompt(PROMPT.ids[:20]), 16)[0][-1]["timings"]
    # Never faster; slower only by what a busy machine adds.
    assert 99 <= timings["prompt_ms"] < 250
    assert 299 <= timings["predicted_ms"] < 750


def test_a_one_token_prefill_is_slower(tmp_path):
    with started(tmp_path, prefill_tok_s=500, ubatch=1) as engine:
        timings = ask(engine, n=1)[0][-1]["timings"]
    assert timings["prompt_ms"] > 1.8 * len(PROMPT.ids) / 500 * 1e3


def test_starts_differ_when_they_are_told_to(tmp_path):
    seen = set()
    for _ in range(3):
        with started(tmp_path, start_sd=0.5, prefill_tok_s=2_000) as engine:
            seen.add(round(ask(engine, n=1)[0][-1]["timings"]["prompt_ms"]))
    assert len(seen) > 1


def test_text_and_ids_of_the_pretended_tokenizer():
    text = "naïve 🍎 春"
    assert detokenize(tokenize(text)) == text
    assert detokenize([0xD800 + 10, 3, 2_000_001]) == " blue1"

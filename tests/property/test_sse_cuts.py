"""However a recorded stream is cut into reads, the same events come out, each with the stamp that completed it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.collect.streams import understand
from lqw.collect.wire import read_response

EXCHANGES = Path(__file__).parents[1] / "fixtures" / "exchanges"
STREAMS = {
    "llama_stream.txt": "llama",
    "apr_chat_stream.txt": "openai",
    "apr_completion_stream.txt": "openai",
    "apr_per_token_stream.txt": "openai",
    "ollama_stream.txt": "ollama",  # NDJSON: a line an event
}


def _raw(name):
    return (EXCHANGES / name).read_bytes()


def _parse(parts):
    parts = [part for part in parts if part]
    return read_response(list(range(10, 10 * len(parts) + 1, 10)), parts)


@pytest.mark.parametrize("name", STREAMS)
def test_cut_in_two_at_every_byte(name):
    raw = _raw(name)
    whole = _parse([raw])
    ends = _event_ends(raw, whole)
    for cut in range(1, len(raw)):
        got = _parse([raw[:cut], raw[cut:]])
        assert [event.data for event in got.events] == [event.data for event in whole.events]
        assert got.complete
        assert got.body == whole.body
        assert [event.stamp_ns for event in got.events] == [10 if end <= cut else 20 for end in ends]


def _event_ends(raw, whole):
    """Where each event's last line end is in the raw bytes, found another way: by searching for its text."""
    ends, at = [], 0
    before, after = (b"", b"\n") if b"x-ndjson" in raw else (b"data: ", b"\n\n")
    for event in whole.events:
        at = raw.index(before + event.data + after, at) + len(before + event.data + after)
        ends.append(at)
    return ends


@settings(max_examples=60, derandomize=True, deadline=None)
@given(name=st.sampled_from(sorted(STREAMS)), data=st.data())
def test_cut_anywhere_many_times(name, data):
    raw = _raw(name)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=40)))
    got = _parse([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)])
    told, whole = understand(got.events, STREAMS[name]), understand(_parse([raw]).events, STREAMS[name])
    assert (told.tokens, told.text, told.ids, told.counts) == (whole.tokens, whole.text, whole.ids, whole.counts)
    assert told.stamps_ns == sorted(told.stamps_ns)
    assert sum(told.tokens) == (4 if name == "ollama_stream.txt" else 24)


@pytest.mark.parametrize("name", STREAMS)
def test_a_truncated_stream_is_never_complete(name):
    raw = _raw(name)
    head = raw.index(b"\r\n\r\n") + 4
    for cut in range(head, len(raw) - len(b"0\r\n\r\n"), 7):
        got = _parse([raw[:cut]])
        assert not got.complete


LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(datas=st.lists(TEXT, min_size=1, max_size=5), end=LINE_ENDS, noise=st.lists(TEXT, max_size=2), data=st.data())
def test_any_line_end_comments_and_multi_byte_text(datas, end, noise, data):
    body = "".join(
        "".join(f": {text}{end}" for text in noise) + f"id: 7{end}data: {text}{end}{end}" for text in datas
    ).encode()
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    at = turn = 0
    while at < len(body):
        part = body[at : at + sizes[turn % len(sizes)]]
        raw += b"%X;ext=1\r\n%s\r\n" % (len(part), part)
        at, turn = at + len(part), turn + 1
    got = _parse([bytes([byte]) for byte in raw + b"0\r\n\r\n"])
    assert [event.data.decode() for event in got.events] == datas
    assert got.complete

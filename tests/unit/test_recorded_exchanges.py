"""Every exchange recorded from a real engine: what lqw reads in it is what its raw bytes say, read another way.

The other way: chunk framing taken off by a split, every ``data:`` line parsed by itself, its words taken by name.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from lqw.collect.requests import Asked, sample_of
from lqw.collect.streams import understand
from lqw.collect.transport import Exchange
from lqw.collect.wire import read_response
from lqw.engines.base import HttpRequest
from lqw.engines.control import ControlError
from lqw.engines.registry import get_engine
from lqw.outcomes import Reason
from lqw.samples import Answer

EXCHANGES = Path(__file__).parents[1] / "fixtures" / "exchanges"
EVERY_BYTE = 4_000  # bytes of a stream up to which it is cut everywhere
REFUSED = ("too_long", "bad_json", "bad_type", "no_such_route")


@cache
def recorded(folder):
    head, *lines = (json.loads(line) for line in (EXCHANGES / folder / "exchanges.jsonl").read_text().splitlines())
    return head, lines


FOLDERS = sorted(path.parent.name for path in EXCHANGES.glob("*/exchanges.jsonl"))
ALL = [(folder, line["file"]) for folder in FOLDERS for line in recorded(folder)[1]]
STREAMS = [(folder, line["file"]) for folder in FOLDERS for line in recorded(folder)[1] if line["format"]]


def line_of(folder, file):
    return next(line for line in recorded(folder)[1] if line["file"] == file)


def exchange_of(folder, line):
    """Return the exchange as the transport would have left it: the recorded bytes, cut where they were received."""
    raw = (EXCHANGES / folder / line["file"]).read_bytes()
    ends = [end for _, end in line["reads"]]
    reads = [raw[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    assert b"".join(reads) == raw
    stamps = [stamp for stamp, _ in line["reads"]]
    return Exchange(0, 0, 0, stamps, reads, line["closed_ns"], line["error"], line["detail"])


def said(raw):
    """Return the JSON of every data line, found without the parser under test."""
    head, body = raw.split(b"\r\n\r\n", 1)
    if b"chunked" in head.lower():
        body = re.sub(rb"(?:^|\r\n)[0-9a-fA-F]+\r\n", b"", body)
    return [json.loads(one) for one in re.findall(rb"^data: ?(\{.*\})\r?$", body, re.MULTILINE)]


def words_of(values):
    """Return text, ids and the engine's own counts (prompt, generated, reused), by the names both engines use."""
    text, ids, told = "", [], {}
    for value in values:
        choice = (value.get("choices") or [{}])[0]
        delta = choice.get("delta") or {}
        text += value.get("content") or choice.get("text") or delta.get("content") or ""
        ids += value.get("tokens") or []
        if usage := value.get("usage"):
            told |= {"prompt": usage["prompt_tokens"], "generated": usage["completion_tokens"]}
        if value.get("stop"):
            told |= {"prompt": value["tokens_evaluated"], "generated": value["tokens_predicted"]}
        if "cache_n" in (value.get("timings") or {}):
            told["reused"] = value["timings"]["cache_n"]
    return text, ids, told


def test_both_engines_were_asked_on_every_route():
    assert {"apr-cpu", "llama-server-cpu"} <= set(FOLDERS)
    for folder in FOLDERS:
        head, lines = recorded(folder)
        names = {line["file"].removesuffix(".txt") for line in lines}
        for route in get_engine(head["engine"]).routes:
            kinds = ("stream", "one_token", "whole", "prime", "cached", "together_0", "together_3", "wrong_model")
            assert {f"{route}_{kind}" for kind in (*kinds, *REFUSED[:3])} <= names
        assert {"identity", "witness", "no_such_route"} <= names
        assert {f"{name}.txt" for name in names} == {path.name for path in (EXCHANGES / folder).glob("*.txt")}
        assert sum(path.stat().st_size for path in (EXCHANGES / folder).iterdir()) <= 2 * 2**20


@pytest.mark.parametrize(("folder", "file"), STREAMS)
def test_the_events_are_what_the_answer_says(folder, file):
    line = line_of(folder, file)
    exchange = exchange_of(folder, line)
    response = read_response(exchange.stamps, exchange.reads)
    values = said(b"".join(exchange.reads))
    assert [json.loads(one.data) for one in response.events if one.data != b"[DONE]"] == values
    told = understand(response.events, line["format"])
    text, ids, counts = words_of(values)
    assert (told.text, told.ids, told.error) == (text, ids, "")
    assert (response.complete, told.finished) == (True, True)
    assert set(told.prompt_tokens.values()) == {counts["prompt"]}
    assert counts["generated"] in told.counts.values()
    asked = json.loads(line["body"])
    wanted = asked.get("max_tokens", asked.get("n_predict"))
    route = "chat" if "messages" in asked else "completion"
    size = counts["prompt"]
    got = sample_of(exchange, Asked("x", "timed", 1, 0, (1,) * size, wanted, None, route=route), line["format"], 0)
    assert got.failure is None
    assert (sum(got.chunk_tokens), got.status) == (wanted, 200)
    firsts = [one.stamp_ns for one in response.events if b'"content":"' in one.data or b'"text":"' in one.data]
    assert got.ttft_ns >= firsts[0]
    assert got.ttft_ns + sum(got.gaps_ns) <= line["closed_ns"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_cached_prefix_is_told_where_the_engine_tells_it(folder):
    """By completion: a chat closes the user's turn, and a recurrent state cannot be taken back to before that."""
    primed, cached = (
        words_of(said((EXCHANGES / folder / f"completion_{kind}.txt").read_bytes()))[2] for kind in ("prime", "cached")
    )
    assert cached["prompt"] > primed["prompt"] > 400
    if recorded(folder)[0]["engine"] == "llama_server":
        assert (primed["reused"], cached["reused"]) == (0, primed["prompt"])
    else:
        assert {"reused"}.isdisjoint(primed | cached)  # apr tells it in its log alone, and on a GPU alone


@pytest.mark.parametrize(("folder", "file"), STREAMS)
def test_however_the_reads_are_cut_the_same_is_read(folder, file):
    line = line_of(folder, file)
    raw = (EXCHANGES / folder / file).read_bytes()
    whole = understand(read_response([1], [raw]).events, line["format"])
    cuts = range(1, len(raw), 1 if len(raw) <= EVERY_BYTE else 997)
    for cut in cuts:
        events = read_response([1, 2], [raw[:cut], raw[cut:]]).events
        got = understand(events, line["format"])
        assert (got.text, got.ids, got.tokens, got.counts) == (whole.text, whole.ids, whole.tokens, whole.counts)
        assert got.stamps_ns == sorted(got.stamps_ns)


class Replayed:
    """A control connection whose one answer is the recorded one."""

    def __init__(self, body):
        self.body = body

    def post(self, path, body):
        value = json.loads(self.body)
        if "error" in value:
            raise ControlError(Reason.HTTP_ERROR, str(value["error"]))
        return value


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("file", ["identity", "witness", "chat_whole"])
def test_a_whole_answer_is_read_as_it_stands(folder, file):
    line = line_of(folder, f"{file}.txt")
    exchange, engine = exchange_of(folder, line), get_engine(recorded(folder)[0]["engine"])
    value = json.loads(read_response(exchange.stamps, exchange.reads).body)
    asked = HttpRequest(line["path"], line["body"].encode())
    blank = Answer(prompt="x", shape="single", repeat=0, text="")
    got = engine.answer(Replayed(json.dumps(value)), asked, blank)
    usage = value.get("usage") or {}
    prompt = usage.get("prompt_tokens", value.get("tokens_evaluated"))
    if "token_ids" in value:
        prompt = len(value["token_ids"]) - value["num_generated"]
        assert got.ids == value["token_ids"][prompt:]
    choice = (value.get("choices") or [{}])[0]
    text = value.get("text") or value.get("content") or choice["message"]["content"]
    assert (got.prompt_tokens, got.text) == (prompt, text)
    assert got.finish in {"limit", "length"}
    if got.ids:
        assert len(got.ids) == 24


@pytest.mark.parametrize(("folder", "file"), [one for one in ALL if any(kind in one[1] for kind in REFUSED)])
def test_a_refusal_is_an_http_error_with_the_engines_own_words(folder, file):
    line = line_of(folder, file)
    exchange = exchange_of(folder, line)
    response = read_response(exchange.stamps, exchange.reads)
    assert 400 <= response.status < 500
    got = sample_of(exchange, Asked("x", "timed", 1, 0, (1,), 24, None), "openai", 0)
    assert got.failure.reason is Reason.HTTP_ERROR
    assert f"status {response.status}" in got.failure.detail
    assert json.loads(response.body)["error"]
    assert response.body[:80].decode() in got.failure.detail

"""lqw's own timed streams: ``python -m tests.bench.clients.own URL STREAMS ROUNDS TOKENS OUT``."""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from lqw.collect.streams import understand
from lqw.collect.transport import Target, encode_request, exchange_together, quiet
from lqw.collect.wire import read_response


def _told(raw):
    stamps = understand(read_response(raw.stamps, raw.reads).events, "openai").stamps_ns
    return {
        "ttft_ms": (stamps[0] - raw.sent_ns) / 1e6,
        "itl_ms": (stamps[-1] - stamps[0]) / 1e6 / (len(stamps) - 1),
        "sent_ns": raw.sent_ns,
        "stamps_ns": stamps,
    }


def _main(url, streams, rounds, tokens, out):
    parts = urlsplit(url)
    target = Target(parts.hostname, parts.port)
    wish = {"model": "null", "prompt": "one two three", "max_tokens": tokens, "stream": True}
    payloads = [encode_request(target, "/v1/completions", json.dumps(wish).encode())] * streams
    exchange_together(target, payloads, timeout_s=60)
    with quiet():
        raws = [raw for _ in range(rounds) for raw in exchange_together(target, payloads, timeout_s=60)]
    Path(out).write_text(json.dumps([_told(raw) for raw in raws]))


_main(sys.argv[1], *(int(one) for one in sys.argv[2:5]), sys.argv[5])

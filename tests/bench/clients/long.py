"""One stream for many minutes: ``python -m tests.bench.clients.long URL MINUTES GAP_MS OUT`` tells lqw's memory over it."""

import json
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from lqw.collect.transport import Target, encode_request, exchange, quiet

LOOK_S = 5.0


def _main(url, minutes, gap_ms, out):
    parts, rss, over = urlsplit(url), [], threading.Event()
    target = Target(parts.hostname, parts.port)
    wish = {"model": "null", "prompt": "one", "max_tokens": int(minutes * 60_000 / gap_ms), "stream": True}
    payload = encode_request(target, "/v1/completions", json.dumps(wish).encode())

    def look():
        while not over.wait(LOOK_S):
            rss.append(psutil.Process().memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    with quiet():
        began = time.perf_counter()
        raw = exchange(target, payload, timeout_s=minutes * 60 + 60)
        took = time.perf_counter() - began
    over.set()
    watcher.join()
    told = {"reads": len(raw.reads), "bytes": sum(map(len, raw.reads)), "wall_s": took, "error": raw.error, "rss": rss}
    Path(out).write_text(json.dumps({**told, "rss_after": psutil.Process().memory_info().rss}))


_main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4])

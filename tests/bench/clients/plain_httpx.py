"""Plain httpx, as most scripts use it: ``python plain_httpx.py URL STREAMS ROUNDS TOKENS OUT``, in its own environment."""

import asyncio
import json
import sys
import time
from pathlib import Path

import httpx


async def _ask(client, url, tokens):
    began, stamps = time.perf_counter(), []
    wish = {"model": "null", "prompt": "one two three", "max_tokens": tokens, "stream": True}
    async with client.stream("POST", f"{url}/v1/completions", json=wish) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["text"]:
                    stamps.append(time.perf_counter())
    return {"ttft_ms": (stamps[0] - began) * 1e3, "itl_ms": (stamps[-1] - stamps[0]) * 1e3 / (len(stamps) - 1)}


async def _main(url, streams, rounds, tokens):
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=streams), timeout=60) as client:
        found = []
        for _ in range(rounds + 1):
            found += await asyncio.gather(*(_ask(client, url, tokens) for _ in range(streams)))
    return found[streams:]  # without the warm-up round


said = asyncio.run(_main(sys.argv[1], *(int(one) for one in sys.argv[2:5])))
Path(sys.argv[5]).write_text(json.dumps(said))

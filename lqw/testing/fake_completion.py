"""One completion of the fake engine: which tokens, when, and what the events say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lqw.testing.fake_model import answer_seed, detokenize, next_token, tokenize
from lqw.testing.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.testing.fake_engine import FakeServer
    from lqw.testing.fake_model import Slot

__all__ = ["Completion"]

SAVE_S = 0.25
"""What llama-server took on an H200 to put a prompt of 32,768 tokens into its cache in the host's memory."""


class Completion:
    """One request being served: tokens, counts and clocks."""

    def __init__(self, body: dict[str, Any], fault: Fault, slot: Slot, server: FakeServer) -> None:
        self.body, self.fault, self.slot, self.server = body, fault, slot, server
        prompt = body["prompt"]
        self.prompt: list[int] = prompt if isinstance(prompt, list) else tokenize(prompt)
        self.stream = bool(body.get("stream", False))
        self.limit = max(1, int(body.get("n_predict", 1)))
        self.tokens: list[int] = []
        self.cached = 0
        self.prefill_ms = self.decode_ms = 0.0

    @property
    def evaluated(self) -> int:
        """Return the prompt tokens it says it has evaluated or reused."""
        return len(self.prompt) - (2 if self.fault is Fault.WRONG_PROMPT_COUNT else 0)

    def generate(self) -> Iterator[int]:
        """Take the time of prefill and decode and yield each token when it is due."""
        if self.fault is Fault.SAVES_STATE and self.slot.cached:
            time.sleep(SAVE_S)
        began = time.perf_counter()
        asked = bool(self.body.get("cache_prompt", True))
        reuse = {Fault.COLD_REUSE: True, Fault.NO_REUSE: False}.get(self.fault, asked)
        self.cached = self.slot.common(self.prompt) if reuse else 0
        self.server.batch.prefill(len(self.prompt) - self.cached)
        due = time.perf_counter()
        self.prefill_ms = (due - began) * 1e3
        self.slot.cached = list(self.prompt)
        wanted = max(1, self.limit * 2 // 3) if self.fault is Fault.SHORT_OUTPUT else self.limit
        salt = {Fault.OTHER_TOKENS: "other", Fault.UNSTEADY: str(time.monotonic_ns())}.get(self.fault, "")
        first, seed = due, answer_seed(self.prompt, salt)
        for position in range(wanted):
            if position:
                due = self.server.batch.token(due)
            alone = self.server.slots.busy <= 1
            stuck = self.fault is Fault.GARBAGE or (self.fault is Fault.GARBAGE_PARALLEL and not alone)
            token = next_token(seed, 0 if stuck else position)
            self.tokens.append(token)
            self.decode_ms = (time.perf_counter() - first) * 1e3
            yield token
        self.slot.cached += self.tokens[:-1]

    def event(self, token: int) -> dict[str, Any]:
        """Return the event of one token."""
        return {
            "index": 0,
            "content": detokenize([token]),
            "tokens": [token] if self.body.get("return_tokens") else [],
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": len(self.tokens),
            "tokens_evaluated": self.evaluated,
        }

    def last(self) -> dict[str, Any]:
        """Return the last event of a stream, or the whole answer of a request without one."""
        count, fresh = len(self.tokens), self.evaluated - self.cached
        said = count + (1 if self.fault is Fault.LYING_COUNT else 0)
        return {
            "index": 0,
            "content": "" if self.stream else detokenize(self.tokens),
            "tokens": [] if self.stream or not self.body.get("return_tokens") else self.tokens,
            "id_slot": self.slot.number,
            "stop": True,
            "model": self.server.args.model,
            "tokens_predicted": said,
            "tokens_evaluated": self.evaluated,
            "generation_settings": {key: value for key, value in self.body.items() if key != "prompt"},
            "prompt": detokenize(self.prompt),
            "has_new_line": False,
            "truncated": False,
            "stop_type": "limit" if count == self.limit else "eos",
            "stopping_word": "",
            "tokens_cached": len(self.prompt) + count - 1,
            "timings": {
                "cache_n": self.cached,
                "prompt_n": fresh,
                "prompt_ms": self.prefill_ms,
                "prompt_per_token_ms": self.prefill_ms / max(1, fresh),
                "prompt_per_second": fresh / max(1e-9, self.prefill_ms) * 1e3,
                "predicted_n": said,
                "predicted_ms": self.decode_ms,
                "predicted_per_token_ms": self.decode_ms / count,
                "predicted_per_second": count / max(1e-9, self.decode_ms) * 1e3,
            },
        }

"""What is looked at after a step: decoding by a difference that may show nothing, and the batches a log tells of."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from lqw.collect import proofs
from lqw.collect.proofs import step_facts
from lqw.engines.apr import Apr
from lqw.engines.llama_server import LlamaServer
from lqw.params import StepSpec

STEP = StepSpec(kind="decode", prompt_tokens=16, output_tokens=32, repeats=1)


class _Asker:
    """Asks nobody: every request is its own number of tokens."""

    running = SimpleNamespace(host="h", port=1, used_gpu=lambda: (None, ""), formed={7: 3}.get)

    def asked(self, *_):
        return None

    def request(self, *_, stream, want_tokens=None):
        del stream
        return SimpleNamespace(path="/completion", body=want_tokens)

    def limit_s(self):
        return 1.0


@pytest.mark.parametrize(
    ("clock", "extra", "value"),
    [
        ((0, 90, 90, 100, 100, 130), 0, (10, 30)),  # T(1) = 10, once the prompt was paid for; T(32) = 30
        ((0, 90, 90, 100, 100, 110), 0, None),  # as long
        ((0, 90, 90, 100, 100, 105), 0, None),  # shorter
        ((0, 90, 90, 100, 100, 130), -1, None),  # fewer tokens than asked for
    ],
)
def test_a_difference_that_is_not_positive_has_no_value(monkeypatch, clock, extra, value):
    class Answers:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def post(self, _, tokens):
            return {"usage": {"completion_tokens": tokens + extra}}

    ticks = iter(clock)
    monkeypatch.setattr(proofs, "Control", Answers)
    monkeypatch.setattr(proofs.time, "perf_counter_ns", lambda: next(ticks))
    found = step_facts(_Asker(), STEP, mark=0, unstreamed=True).unstreamed
    assert (None if found is None else (found.one_ns, found.all_ns)) == value
    assert found is None or found.again


@pytest.mark.parametrize(("kind", "mark", "formed"), [("agg", 7, 3), ("agg", 0, None), ("decode", 7, None)])
def test_the_largest_batch_that_the_log_tells_of_since_the_step_began(kind, mark, formed):
    step = StepSpec(kind=kind, prompt_tokens=16, output_tokens=32, streams=4 if kind == "agg" else 1, repeats=1)
    assert step_facts(_Asker(), step, mark=mark, unstreamed=False).formed == formed


def test_apr_tells_its_batches_in_the_log_of_a_gpu_and_not_on_a_processor():
    """Recorded: four chats at one moment on an H200, of which three were served together; a queue has no line or 1."""
    exchanges = Path(__file__).parents[1] / "fixtures" / "exchanges"
    for folder, formed in (("apr-cuda", 3), ("apr-cpu", None)):
        log = (exchanges / folder / "engine.log").read_text()
        assert Apr().formed(log) == formed
    assert Apr().formed("[PMAT-044] Batch m=1 done in 1ms\n a [PMAT-044] Batch m=9 done\n") == 1
    assert LlamaServer().formed("[PMAT-044] Batch m=9 done\n") is None

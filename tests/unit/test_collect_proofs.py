"""Decoding by the difference of two whole answers: a difference that shows nothing is no value."""

from types import SimpleNamespace

import pytest

from lqw.collect import proofs
from lqw.collect.proofs import step_facts
from lqw.params import StepSpec

STEP = StepSpec(kind="decode", prompt_tokens=16, output_tokens=32, repeats=1)


class _Asker:
    """Asks nobody: every request is its own number of tokens."""

    running = SimpleNamespace(host="h", port=1, used_gpu=lambda: (None, ""))

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
        ((0, 10, 20, 50), 0, (10, 30)),  # T(1) = 10, T(32) = 30
        ((0, 10, 20, 30), 0, None),  # as long
        ((0, 10, 20, 25), 0, None),  # shorter
        ((0, 10, 20, 50), -1, None),  # fewer tokens than asked for
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
    found = step_facts(_Asker(), STEP, unstreamed=True).unstreamed
    assert (None if found is None else (found.one_ns, found.all_ns)) == value

"""Untimed answers to what is timed: which step at which shape, and asked as the timed one is."""

from types import SimpleNamespace

import pytest

from lqw.canonical import sha256_bytes, sha256_json
from lqw.collect.prompts import PromptSet
from lqw.collect.twins import take_twins, twin_step
from lqw.outcomes import Reason
from lqw.params import StepSpec
from lqw.samples import Answer, Failure

STEPS = [
    {"kind": "cold", "prompt_tokens": 64},
    {"kind": "cold", "prompt_tokens": 16},
    {"kind": "decode", "prompt_tokens": 128, "output_tokens": 16},
    {"kind": "cached", "prompt_tokens": 32, "suffix_tokens": 8},
    {"kind": "cached", "prompt_tokens": 16, "suffix_tokens": 8},
    {"kind": "agg", "prompt_tokens": 16, "output_tokens": 16, "streams": 2},
    {"kind": "agg", "prompt_tokens": 16, "output_tokens": 16, "streams": 1},
]


def protocol(steps=STEPS):
    made = [StepSpec(**step, repeats=1) for step in steps]
    return SimpleNamespace(steps=made, request_timeout_s=9)


class Running:
    def __init__(self, failing=()):
        self.asked, self.failing = [], failing

    def answer(self, prompt, n_predict, *, name, shape, cache, slot, timeout_s, route, stream=0):
        self.asked.append((prompt.ids, n_predict, name, shape, cache, stream))
        failure = Failure(reason=Reason.TIMEOUT, detail="no answer") if prompt.ids in self.failing else None
        return Answer(prompt=name, shape=shape, repeat=0, stream=stream, text="w", ids=[5, stream], failure=failure)


PROMPTS = PromptSet(
    {
        ("cached@16", "prime", 0, 0): (1, 2),
        ("cached@16", "timed", 0, 0): (1, 2, 3),
        ("decode", "timed", 0, 0): (4,),
        ("agg@2", "timed", 0, 0): (6,),
        ("agg@2", "timed", 0, 1): (7,),
    }
)


@pytest.mark.parametrize(
    ("shape", "steps", "step"),
    [
        ("single", STEPS, "decode"),
        ("single", STEPS[:2], "cold@16"),
        ("cached", STEPS, "cached@16"),
        ("agg@2", STEPS, "agg@2"),
        ("agg@4", STEPS, None),
    ],
)
def test_one_step_for_each_shape(shape, steps, step):
    found = twin_step(protocol(steps), shape)
    assert (found and found.step_id) == step


def test_a_cached_twin_is_primed_first_and_the_prime_is_no_twin():
    running = Running()
    (twin,) = take_twins(protocol(), running, PROMPTS, "cached")
    assert running.asked == [
        ((1, 2), 1, "cached@16", "cached", True, 0),
        ((1, 2, 3), 1, "cached@16", "cached", True, 0),
    ]
    assert (twin.step, twin.prompt_sha256, twin.want_tokens) == ("cached@16", sha256_json([1, 2, 3]), 1)
    assert (twin.text_sha256, twin.ids_sha256) == (sha256_bytes(b"w"), sha256_json([5, 0]))
    (lost,) = take_twins(protocol(), Running(failing=[(1, 2)]), PROMPTS, "cached")
    assert (lost.failure.reason, lost.ids_sha256) == (Reason.TIMEOUT, None)


def test_parallel_twins_leave_together_one_a_stream():
    running = Running()
    twins = list(take_twins(protocol(), running, PROMPTS, "agg@2"))
    assert sorted(running.asked) == [((6,), 16, "agg@2", "agg@2", False, 0), ((7,), 16, "agg@2", "agg@2", False, 1)]
    assert [twin.prompt_sha256 for twin in twins] == [sha256_json([6]), sha256_json([7])]
    assert list(take_twins(protocol(), running, PROMPTS, "agg@4")) == []

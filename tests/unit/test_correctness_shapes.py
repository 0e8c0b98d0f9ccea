"""Identity at every shape the gate times, and on the timed requests themselves."""

import pytest

from lqw.correctness import IdentityTask, adopt_reference, judge_identity, judge_timed, reference_from
from lqw.correctness.shapes import other_shapes, streams_of
from lqw.metrics import RowId
from lqw.outcomes import Arm, Purpose, Reason
from lqw.samples import Answer, Failure, IdentityRecord, RequestSample, StartRecord, Twin

SHA, SUM, OTHER = "ab" * 32, "11" * 32, "22" * 32
ROWS = [RowId.parse("m/decode")]
PROMPTS = {"code": "def f(x):", "prose": "The lamp keeper"}
SHAPES = {"cached": ("code",), "agg@2": ("code", "prose")}
GOOD = list(range(10, 30))


def task(release="1.1.0", shapes=SHAPES):
    return IdentityTask({"m": SHA}, "box", release, PROMPTS, output_tokens=20, repeats=2, at_shapes=shapes)


def answer(prompt, shape, repeat, ids=GOOD, **more):
    return Answer(prompt=prompt, shape=shape, repeat=repeat, ids=ids, text="words", finish="limit", **more)


def record(change=None, twins=(), shapes=SHAPES, **more):
    """All answers; *change* maps (shape, prompt, repeat) to other ids, or None to leave that answer out."""
    out = []
    for shape, prompts in {"single": tuple(PROMPTS), **shapes}.items():
        for stream, prompt in enumerate(prompts):
            for repeat in range(2):
                ids = (change or {}).get((shape, prompt, repeat), GOOD)
                if ids is not None:
                    lane = stream if shape == "agg@2" else 0
                    out.append(answer(prompt, shape, repeat, ids, stream=lane, **more))
    return IdentityRecord(model="m", position=0, started_utc="x", wall_s=1.0, answers=out, twins=list(twins))


HELD = reference_from([record()], [], task=task("1.0.0"))


def judged(change=None, held=HELD, **more):
    return judge_identity([record(change, **more)], held, ROWS, Purpose.GATE, task=task())


def reason(result):
    (failure,) = result.voids.values()
    return failure.reason, failure.detail


def test_the_shapes_follow_from_what_is_timed():
    steps = [("cold", 1), ("agg", 16), ("cached", 1), ("agg", 4), ("agg", 1), ("cached", 1)]
    assert other_shapes(steps) == ("cached", "agg@4", "agg@16")
    assert [streams_of(shape) for shape in ("single", *other_shapes(steps))] == [1, 1, 4, 16]
    assert other_shapes([("cold", 1), ("decode", 1)]) == ()


def test_one_reference_per_shape_is_adopted_and_agreed_with():
    assert set(HELD.models["m"].shapes) == {"single", "cached", "agg@2"}
    assert judged().voids == {}


@pytest.mark.parametrize("shape", ["single", "cached", "agg@2"])
def test_a_shape_that_was_not_answered_is_not_shown_to_be_right(shape):
    why, detail = reason(judged({(shape, "code", 1): None}))
    assert (why, f"code ({shape})" in detail, "1 of 2 answers" in detail) == (Reason.VOID_CORRECTNESS, True, True)


@pytest.mark.parametrize("shape", ["cached", "agg@2"])
def test_other_tokens_than_the_reference_of_the_shape_void_also_of_parallel_streams_that_agree(shape):
    changed = [*GOOD[:5], 99, *GOOD[6:]]
    why, detail = reason(judged({(shape, "code", 0): changed, (shape, "code", 1): changed}))
    assert (why, f"code ({shape})" in detail, "token 5 differs" in detail) == (Reason.VOID_CORRECTNESS, True, True)


@pytest.mark.parametrize("repeat", [0, 1])
def test_parallel_streams_that_differ_among_themselves_flag_and_are_not_held(repeat):
    changed = {("agg@2", "code", repeat): [*GOOD[:5], 99, *GOOD[6:]]}
    flagged = judged(changed)
    assert flagged.voids == {}
    assert all("token 5 differs" in flag.detail for flag in flagged.flags)
    assert [flag.kind for flag in flagged.flags] == (["self", "reference"] if repeat == 0 else ["self"])
    assert set(reference_from([record(changed)], [], task=task()).models["m"].shapes["agg@2"]) == {"prose"}


def test_garbage_of_one_parallel_stream_voids_and_names_prompt_and_stream():
    why, detail = reason(judged({("agg@2", "prose", 1): [7] * 20}))
    assert why is Reason.VOID_GARBAGE
    assert "prose (agg@2) constant_run: prose#1 stream 1: longest run of one token: 20" in detail


def test_margins_of_both_sides_stand_beside_the_first_difference():
    held = reference_from([record(margins=[0.5] * 20)], [], task=task("1.0.0"))
    changed = [*GOOD[:5], 99, *GOOD[6:]]
    result = judged({("single", "code", r): changed for r in range(2)}, held, margins=[0.0125] * 20)
    detail = reason(result)[1]
    assert "(led its runner-up by 0.500 nats) before" in detail
    assert "(led its runner-up by 0.013 nats) now" in detail or "by 0.012 nats) now" in detail


# adoption


def test_shapes_that_were_not_held_join_and_lawful_differences_of_parallel_streams_refuse_nothing():
    old = reference_from([record(shapes={})], [], task=task("1.0.0", {}))
    joined = adopt_reference(old, reference_from([record()], [], task=task()))
    assert (joined.added, joined.refused, set(joined.reference.models["m"].shapes)) == (
        ("m",),
        {},
        {"single", "cached", "agg@2"},
    )
    unlike = {("agg@2", "code", 0): [99, *GOOD[1:]]}
    again = adopt_reference(joined.reference, reference_from([record(unlike)], [], task=task("1.2.0")))
    assert (again.kept, again.reference) == (("m",), joined.reference)
    other = {("agg@2", "code", r): [99, *GOOD[1:]] for r in range(2)}
    refused = adopt_reference(joined.reference, reference_from([record(other)], [], task=task("1.3.0")))
    assert "code (agg@2): token 0 differs" in refused.refused["m"]
    assert refused.reference == joined.reference


# timed requests


def start(step="decode", pair=1, arm=Arm.SUBJECT, **sample):
    request = {
        "step": step, "role": "timed", "repeat": 0, "stream": 0, "prompt_tokens": 4, "prompt_sha256": SHA,
        "want_tokens": 20, "due_ns": 0, "sent_ns": 0, "connect_ns": 0, "text_sha256": SUM, "ids_sha256": SUM,
    }  # fmt: skip
    return StartRecord(
        model="m", pair=pair, arm=arm, launch=0, position=pair, started_utc="x", origin_ns=0, wall_s=1.0,
        requests=[RequestSample(**{**request, **sample})],
    )  # fmt: skip


def twin(**more):
    return Twin(
        **{"step": "decode", "prompt_sha256": SHA, "want_tokens": 20, "text_sha256": SUM, "ids_sha256": SUM, **more}
    )


def timed(starts, *twins):
    return judge_timed(starts, ROWS, [record(twins=twins)])


def test_timed_answers_must_be_the_untimed_one_by_ids_or_else_by_text():
    starts = [start(), start(pair=2)]
    assert [c.detail for c in timed(starts, twin()).checks if c.kind == "twin"] == [
        "2 timed answers are the untimed one by ids"
    ]
    why, detail = reason(timed(starts, twin(ids_sha256=OTHER)))
    assert why is Reason.VOID_CORRECTNESS
    assert "pair 1 decode repeat 0 stream 0 answered other than the same prompt does untimed" in detail
    no_ids = [start(ids_sha256=None), start(pair=2, ids_sha256=None)]
    assert timed(no_ids, twin(ids_sha256=OTHER)).voids == {}
    assert reason(timed(no_ids, twin(text_sha256=OTHER)))[0] is Reason.VOID_CORRECTNESS


@pytest.mark.parametrize(
    ("step", "starts", "state"),
    [
        ("cold@8", [{}, {}], "void"),
        ("cached@8", [{}, {}], "void"),
        ("cached@8", [{}, {"ids_sha256": SHA}], "flag"),  # reuse itself is unsteady here
        ("agg@4", [{}, {}], "flag"),  # each batch is put together anew
    ],
)
def test_each_shapes_timed_answers_are_held_to_the_untimed_of_that_shape(step, starts, state):
    samples = [start(step, pair=pair, **more) for pair, more in enumerate(starts, 1)]
    checks = [c for c in timed(samples, twin(step=step, ids_sha256=OTHER)).checks if c.kind == "twin"]
    assert [(c.state, "pair 1" in c.detail) for c in checks] == [(state, True)]


def test_a_twin_that_failed_voids_and_one_of_another_prompt_says_nothing():
    lost = Failure(reason=Reason.TIMEOUT, detail="no answer")
    assert reason(timed([start()], twin(failure=lost)))[0] is Reason.TIMEOUT
    assert [c for c in timed([start()], twin(prompt_sha256=OTHER)).checks if c.kind == "twin"] == []


def test_a_timed_stream_of_one_token_voids_by_pair_and_stream_also_in_parallel():
    starts = [start("agg@4", stream=2, constant_run=16), start("agg@4", pair=2, stream=3, constant_run=31)]
    why, detail = reason(timed(starts))
    assert why is Reason.VOID_GARBAGE
    assert "pair 1 agg@4 repeat 0 stream 2: one token 16 times in a row (and 1 more)" in detail
    assert timed([start("agg@4", constant_run=15)]).voids == {}


def test_what_the_comparator_repeats_on_the_same_prompt_is_the_model_and_only_flagged():
    mine = start("decode", constant_run=17)
    same = start("decode", arm=Arm.COMPARATOR, constant_run=18)
    judged = timed([mine, same])
    assert judged.voids == {}
    assert [(c.state, c.detail) for c in judged.checks if c.kind == "constant_run"] == [
        ("flag", "pair 1 decode repeat 0 stream 0: one token 17 times in a row, as the comparator on the same prompt")
    ]
    for other in ({"constant_run": 15}, {"constant_run": 18, "prompt_sha256": OTHER}, {"constant_run": None}):
        assert reason(timed([mine, start("decode", arm=Arm.COMPARATOR, **other)]))[0] is Reason.VOID_GARBAGE
    elsewhere = start("agg@4", arm=Arm.COMPARATOR, constant_run=18)
    assert reason(timed([mine, elsewhere]))[0] is Reason.VOID_GARBAGE

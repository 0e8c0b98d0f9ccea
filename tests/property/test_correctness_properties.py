"""What holds for all answers: any change of a token is found at its index, order never matters, flags never void."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lqw.correctness import IdentityTask, detect, first_difference, judge_identity, reference_from
from lqw.correctness.detectors import longest_run, shortest_cycle
from lqw.correctness.reference import reference_answer
from lqw.metrics import RowId
from lqw.outcomes import Purpose
from lqw.samples import Answer, IdentityRecord

PROFILE = settings(derandomize=True, max_examples=60, deadline=None)
IDS = st.lists(st.integers(0, 300), min_size=1, max_size=24)
ROWS = [RowId.parse("m/decode"), RowId.parse("m/rss_peak")]


def one(ids, prompt="p", repeat=0):
    return Answer(prompt=prompt, shape="single", repeat=repeat, ids=ids, text=" ".join(map(str, ids)), finish="limit")


def record(answers):
    return IdentityRecord(model="m", position=0, started_utc="x", wall_s=1.0, answers=answers)


@PROFILE
@given(ids=IDS, data=st.data())
def test_a_changed_token_is_found_at_its_index(ids, data):
    index = data.draw(st.integers(0, len(ids) - 1))
    changed = [*ids[:index], ids[index] + 1, *ids[index + 1 :]]
    difference = first_difference(reference_answer(one(ids)), one(changed))
    assert difference is not None
    assert difference.index == index
    assert first_difference(reference_answer(one(ids)), one(list(ids))) is None


@PROFILE
@given(ids=IDS, extra=IDS)
def test_an_answer_that_goes_on_or_stops_early_differs_at_the_shorter_end(ids, extra):
    longer = first_difference(reference_answer(one(ids)), one(ids + extra))
    shorter = first_difference(reference_answer(one(ids + extra)), one(ids))
    assert longer is not None
    assert shorter is not None
    assert longer.index == shorter.index == len(ids)


@PROFILE
@given(
    answers=st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 9), min_size=8, max_size=8), min_size=1),
    data=st.data(),
)
def test_the_order_of_answers_never_matters_and_equal_answers_are_never_wrong(answers, data):
    task = IdentityTask({"m": "ab" * 32}, "box", "1", dict.fromkeys(answers, "?"), output_tokens=8, repeats=2)
    given_answers = [one(ids, name, repeat) for name, ids in answers.items() for repeat in range(2)]
    shuffled = data.draw(st.permutations(given_answers))
    reference = reference_from([record(given_answers)], [], task=task)
    assert reference_from([record(shuffled)], [], task=task) == reference
    assert judge_identity([record(shuffled)], reference, ROWS, Purpose.GATE, task=task).voids == {}


@PROFILE
@given(ids=st.lists(st.integers(0, 4), max_size=60), text=st.text(max_size=80))
def test_detectors_take_any_answer(ids, text):
    found = detect(one(ids).model_copy(update={"text": text}), want=len(ids), prompt=text)
    assert {f.kind for f in found} >= {"empty", "constant_run", "cycle", "replacement", "echo"}
    assert any(f.state == "void" for f in found if f.kind == "constant_run") == (longest_run(ids) >= 16)


@PROFILE
@given(
    turn=st.lists(st.integers(0, 9), min_size=2, max_size=8, unique=True),
    turns=st.integers(4, 9),
    cut=st.integers(0, 1),
)
def test_a_cycle_of_four_turns_or_more_is_found_with_its_period(turn, turns, cut):
    items = (turn * (turns + 1))[: len(turn) * turns + cut]
    assert shortest_cycle(items) == (len(turn), len(items))

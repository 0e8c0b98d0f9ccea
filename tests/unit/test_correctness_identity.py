"""Token identity: with itself, free of garbage, with the reference; which rows are void, and the words of it."""

import json
from pathlib import Path

import pytest

from lqw.canonical import canonical_bytes
from lqw.correctness import (
    IdentityTask,
    correctness_from_json,
    correctness_to_json,
    judge_correctness,
    judge_identity,
    judge_timed,
    parse_reference,
    reference_from,
    reference_to_json,
)
from lqw.errors import IntegrityError
from lqw.metrics import RowId
from lqw.outcomes import Arm, Purpose, Reason
from lqw.samples import Answer, Failure, Header, HostFacts, IdentityRecord, RequestSample, StartRecord

ROOT = Path(__file__).parents[2]
REAL = json.loads((ROOT / "tests/fixtures/correctness/gemma3-270m.json").read_text(encoding="utf-8"))
SHA = "ab" * 32
ROWS = [RowId.parse(f"m/{short}") for short in ("ttft@512", "prefill@512", "decode", "rss_peak")]
PROMPTS = {"code": "def f(x):", "prose": "The lamp keeper"}
TASK = IdentityTask({"m": SHA}, "box", "1.1.0", PROMPTS, output_tokens=8, repeats=2)
BEFORE = IdentityTask({"m": SHA}, "box", "1.0.0", PROMPTS, output_tokens=8, repeats=2)


def answers(prompt, ids=None, text="some words", shape="single", repeats=2, **more):
    ids = list(range(10, 18)) if ids is None else ids
    return [
        Answer(prompt=prompt, shape=shape, repeat=r, ids=ids, text=text, finish="limit", prompt_tokens=4, **more)
        for r in range(repeats)
    ]


def record(given=None, model="m", **more):
    given = [*answers("code"), *answers("prose")] if given is None else given
    return IdentityRecord(
        model=model, position=0, started_utc="2026-01-01T00:00:00Z", wall_s=1.0, answers=given, **more
    )


def reference():
    return reference_from([record()], [], task=BEFORE)


def gate(records, ref="own", task=TASK, rows=ROWS):
    return judge_identity(records, reference() if ref == "own" else ref, rows, Purpose.GATE, task=task)


def only_reason(result, rows=ROWS):
    assert list(result.voids) == rows
    (reason,) = {failure.reason for failure in result.voids.values()}
    return reason, next(iter(result.voids.values())).detail


def test_the_same_tokens_void_nothing_and_the_result_says_they_were_compared_by_ids():
    result = gate([record()])
    assert result.voids == {}
    assert result.bad == ()
    assert result.compared == {"m": "ids"}


def test_without_ids_exact_text_is_compared_and_named():
    def texts(second):
        return record([a.model_copy(update={"ids": None}) for a in [*answers("code"), *answers("prose", text=second)]])

    ref = reference_from([texts("abcdef")], [], task=BEFORE)
    assert gate([texts("abcdef")], ref).compared == {"m": "text"}
    reason, detail = only_reason(gate([texts("abcxef")], ref))
    assert reason is Reason.VOID_CORRECTNESS
    assert "prose (single)" in detail
    assert "character 3 differs: 'def' before, 'xef' now" in detail


def test_other_tokens_than_the_reference_void_every_row_of_the_model_with_both_continuations():
    other = [10, 11, 12, 99, 14, 15, 16, 17]
    reason, detail = only_reason(gate([record([*answers("code"), *answers("prose", ids=other, text="some wards")])]))
    assert reason is Reason.VOID_CORRECTNESS
    assert detail == (
        "prose (single) reference: not the tokens of release 1.0.0: token 3 differs: "
        "'ords' ids [13, 14, 15, 16, 17] before, 'ards' ids [99, 14, 15, 16, 17] now"
    )


def test_a_subject_that_disagrees_with_itself_is_nondeterministic_before_it_is_wrong():
    first, second = answers("code")
    second = second.model_copy(update={"ids": [10, 11, 12, 13, 14, 15, 16, 99]})
    reason, detail = only_reason(gate([record([first, second, *answers("prose")])]))
    assert reason is Reason.VOID_NONDETERMINISTIC
    assert "code#1 against code#0: token 7 differs" in detail


def test_two_records_of_one_model_must_agree_too():
    again = record([*answers("code", ids=[1, 2, 3, 4, 5, 6, 7, 8]), *answers("prose")])
    assert only_reason(gate([record(), again]))[0] is Reason.VOID_NONDETERMINISTIC


def test_garbage_that_equals_the_reference_is_still_garbage():
    garbage = [*answers("code", ids=[7] * 20), *answers("prose", ids=list(range(20)))]
    task = IdentityTask({"m": SHA}, "box", "1.1.0", PROMPTS, output_tokens=20, repeats=2)
    reason, detail = only_reason(gate([record(garbage)], task=task))
    assert reason is Reason.VOID_GARBAGE
    assert "code (single) constant_run: code#0: longest run of one token: 20" in detail


def test_garbage_never_becomes_a_reference():
    garbage = record([*answers("code", ids=[7] * 20), *answers("prose", ids=list(range(20)))])
    task = IdentityTask({"m": SHA}, "box", "1.0.0", PROMPTS, output_tokens=20, repeats=2)
    ref = reference_from([garbage], [], task=task)
    assert ref.models == {}
    reason, detail = only_reason(gate([record()], ref))
    assert reason is Reason.NO_REFERENCE
    assert "has no answers of m" in detail


def test_a_gate_without_reference_is_void_by_name_and_an_adoption_needs_none():
    reason, detail = only_reason(gate([record()], None))
    assert (reason, detail) == (Reason.NO_REFERENCE, "reference: this host has no token reference")
    adopted = judge_identity([record()], None, ROWS, Purpose.ADOPT, task=TASK)
    assert adopted.voids == {}
    assert adopted.compared == {"m": "self"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": "other"}, "is of host other, this run box"),
        ({"prompts_sha256": "00" * 32}, "answered the prompts 000000000000"),
        ({"output_tokens": 64}, "has tokens per answer: 64, this run 8"),
    ],
)
def test_a_reference_of_something_else_is_no_reference(change, words):
    reason, detail = only_reason(gate([record()], reference().model_copy(update=change)))
    assert reason is Reason.NO_REFERENCE
    assert words in detail


def test_a_reference_of_other_model_bytes_is_no_reference():
    task = IdentityTask({"m": "cd" * 32}, "box", "1.1.0", PROMPTS, output_tokens=8, repeats=2)
    assert only_reason(gate([record()], task=task))[0] is Reason.NO_REFERENCE


def test_a_failed_start_gives_its_own_reason_to_the_rows_and_nothing_else_is_said():
    failed = record([], failure=Failure(reason=Reason.FAILED_START, detail="exit 1 after 0.2 s"))
    result = gate([failed])
    assert only_reason(result)[0] is Reason.FAILED_START
    assert {check.kind for check in result.checks if check.state == "void"} == {"start", "reference"}


def test_no_record_at_all_is_void_not_equal():
    reason, detail = only_reason(gate([]))
    assert reason is Reason.VOID_CORRECTNESS
    assert "no identity start" in detail


def test_a_failed_answer_a_missing_repeat_and_a_missing_prompt_are_named():
    timeout = Failure(reason=Reason.TIMEOUT, detail="no byte for 600 s")
    assert only_reason(gate([record([*answers("code", failure=timeout), *answers("prose")])]))[0] is Reason.TIMEOUT
    detail = only_reason(gate([record([*answers("code", repeats=1), *answers("prose")])]))[1]
    assert "code (single) answers: 1 of 2 answers are there" in detail
    assert "prose (single) answers: 0 of 2" in only_reason(gate([record(answers("code"))]))[1]
    foreign = [*answers("code"), *answers("prose"), *answers("poem")]
    assert "no such prompt was planned" in only_reason(gate([record(foreign)]))[1]


def test_a_prompt_counted_otherwise_is_another_prompt():
    changed = [a.model_copy(update={"prompt_tokens": 5}) for a in answers("prose")]
    reason, detail = only_reason(gate([record([*answers("code"), *changed])]))
    assert reason is Reason.VOID_CORRECTNESS
    assert "the prompt counted 4 tokens before, 5 now" in detail


def test_parallel_shapes_flag_a_difference_but_void_on_garbage():
    parallel = [*answers("code", shape="agg@4"), *answers("prose", shape="agg@4")]
    ref = reference_from([record([*answers("code"), *answers("prose"), *parallel])], [], task=BEFORE)
    other = answers("code", shape="agg@4", ids=[9, 8, 7, 6, 5, 4, 3, 2])
    drifted = [other[0], *answers("code", shape="agg@4")[1:], *answers("prose", shape="agg@4")]
    result = gate([record([*answers("code"), *answers("prose"), *drifted])], ref)
    assert result.voids == {}
    seen = [(flag.kind, flag.shape, flag.prompt) for flag in result.flags]
    assert seen == [("self", "agg@4", "code"), ("reference", "agg@4", "code")]
    garbage = [*answers("code", shape="agg@4", ids=[]), *answers("prose", shape="agg@4")]
    assert only_reason(gate([record([*answers("code"), *answers("prose"), *garbage])], ref))[0] is Reason.VOID_GARBAGE


def test_a_shape_that_the_reference_has_and_the_run_does_not_is_void():
    cached = [*answers("code", shape="cached"), *answers("prose", shape="cached")]
    ref = reference_from([record([*answers("code"), *answers("prose"), *cached])], [], task=BEFORE)
    assert "(cached) reference: release 1.0.0 answered at this shape" in only_reason(gate([record()], ref))[1]
    result = gate([record([*answers("code"), *answers("prose"), *cached])])
    assert only_reason(result)[0] is Reason.NO_REFERENCE, "and the other way round"


def test_only_the_rows_of_the_wrong_model_are_void():
    task = IdentityTask({"m": SHA, "n": SHA}, "box", "1.1.0", PROMPTS, output_tokens=8, repeats=2)
    good, bad = record(), record([*answers("code", ids=[1] * 8), *answers("prose")], model="n")
    ref = reference_from([good, record(model="n")], [], task=task)
    rows = [*ROWS, RowId.parse("n/decode"), RowId.parse("n/rss_peak")]
    assert [str(row) for row in gate([good, bad], ref, task, rows).voids] == ["n/decode", "n/rss_peak"]


@pytest.mark.parametrize("name", ["prose", "emoji"])
def test_a_real_change_of_summation_order_is_found_where_the_tie_is(name):
    """llama.cpp, batched against one-token prefill: a tie of 0.03 to 0.06 nats falls the other way."""
    task = IdentityTask({"m": SHA}, "box", "1.1.0", {name: "?"}, output_tokens=96, repeats=2)

    def real(side):
        one = REAL["with_ties"][side][name]
        return record([Answer(prompt=name, shape="single", repeat=r, **one) for r in range(2)])

    ref = reference_from([real("batched")], [], task=task)
    assert gate([real("batched")], ref, task).voids == {}
    reason, detail = only_reason(gate([real("one_token_prefill")], ref, task))
    assert reason is Reason.VOID_CORRECTNESS
    assert f"token {4 if name == 'prose' else 5} differs" in detail


# the timed requests


def start(pair, hashes, step="cold@512", *, arm=Arm.SUBJECT, prompt="p" * 64, field="text_sha256", role="timed"):
    requests = [
        RequestSample(
            step=step, role=role, repeat=i, stream=0, prompt_tokens=512, prompt_sha256=prompt, want_tokens=1, due_ns=0,
            sent_ns=0, connect_ns=0, **({field: h} if h else {}),
        )
        for i, h in enumerate(hashes)
    ]  # fmt: skip
    return StartRecord(
        model="m",
        pair=pair,
        arm=arm,
        launch=0,
        position=pair,
        started_utc="x",
        origin_ns=0,
        wall_s=1.0,
        requests=requests,
    )


def test_equal_timed_prompts_must_have_equal_answers_in_every_start():
    assert judge_timed([start(1, ["a", "a"]), start(2, ["a"])], ROWS).voids == {}
    reason, detail = only_reason(judge_timed([start(1, ["a"]), start(2, ["b"])], ROWS))
    assert reason is Reason.VOID_NONDETERMINISTIC
    assert "pair 1 cold@512 repeat 0 stream 0, pair 2 cold@512 repeat 0 stream 0" in detail


@pytest.mark.parametrize("step", ["agg@4", "cached@512"])
def test_batches_and_reuse_may_change_greedy_output_so_they_flag(step):
    result = judge_timed([start(1, ["a"], step), start(2, ["b"], step)], ROWS)
    assert result.voids == {}
    assert [flag.state for flag in result.flags] == ["flag"]


def test_other_prompts_the_comparator_and_warmups_are_not_compared():
    others = [
        start(2, ["b"], prompt="q" * 64),
        start(3, ["c"], arm=Arm.COMPARATOR),
        start(4, ["d"], role="warmup"),
    ]
    result = judge_timed([start(1, ["a"]), *others], ROWS)
    assert result.voids == {}
    assert "nothing to compare" in result.flags[0].detail


def test_ids_decide_where_every_request_has_them_and_absence_is_flagged():
    assert only_reason(judge_timed([start(1, ["a", "b"], field="ids_sha256")], ROWS))[0] is Reason.VOID_NONDETERMINISTIC
    result = judge_timed([start(1, [None, "a"])], ROWS)
    assert "2 timed requests carry no hash" in result.flags[0].detail


def test_the_first_failure_of_a_row_stays_when_both_judges_void_it():
    wrong = record([*answers("code", ids=[1] * 8), *answers("prose")])
    starts = [start(1, ["a"]), start(2, ["b"])]
    result = judge_correctness([wrong], starts, reference(), ROWS, Purpose.GATE, task=TASK)
    assert only_reason(result)[0] is Reason.VOID_CORRECTNESS
    assert {check.kind for check in result.bad} == {"reference", "timed"}


def test_a_model_whose_timed_answers_are_no_good_sets_no_reference():
    """Right untimed and anything else on the clock: such a run is nothing to hold a release to."""
    run = start(1, ["a"], "agg@4")
    repeats = run.requests[0].model_copy(update={"constant_run": 17})
    garbage = run.model_copy(update={"requests": [repeats]})
    for starts, models in (([run], {"m"}), ([garbage], set()), ([start(1, ["a"]), start(2, ["b"])], set())):
        assert reference_from([record()], starts, task=BEFORE).models.keys() == models


# JSON forms


def test_result_and_reference_survive_their_json_forms():
    wrong = record([*answers("code", ids=[1] * 8), *answers("prose")])
    result = gate([wrong])
    assert correctness_from_json(json.loads(canonical_bytes(correctness_to_json(result)))) == result
    assert parse_reference(canonical_bytes(reference_to_json(reference()))) == reference()


@pytest.mark.parametrize(
    "change",
    [
        {"voids": {"nonsense": {"reason": "TIMEOUT", "detail": ""}}},
        {"voids": {"m/decode": {"reason": "NO_SUCH", "detail": ""}}},
        {"checks": [{"model": "m"}]},
        {"checks": None},
        {"compared": {"m": "guess"}},
        {"more": 1},
    ],
)
def test_a_malformed_result_is_refused(change):
    with pytest.raises(IntegrityError, match="malformed"):
        correctness_from_json({**correctness_to_json(gate([record()])), **change})


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("output_tokens",), True, "output_tokens"),
        (("schema",), "lqw-reference/2", "schema"),
        (("models", "m", "model_sha256"), "short", "models.m.model_sha256"),
        (("models", "m", "shapes", "single", "code", "tokens"), 9, "there are 8 ids"),
        (("models", "m", "shapes", "single", "code", "ids"), None, "compared by ids exactly where there are ids"),
    ],
)
def test_a_malformed_reference_names_file_and_field(path, value, words):
    form = reference_to_json(reference())
    inner = form
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(IntegrityError, match=r"reference\.json") as caught:
        parse_reference(form)
    assert words in str(caught.value)


def header(params):
    host = HostFacts(name="box", cpu_model="c", cores=2, ram_gib=8, kernel="k", python="3")
    return Header(
        run_id="r", purpose=Purpose.GATE, started_utc="x", plan={}, plan_sha256="", params=params, host=host,
        models={"m": SHA}, lqw_version="0", lqw_source_sha256="",
    )  # fmt: skip


def test_the_task_is_read_from_the_journal_header():
    params = {
        "protocol": {"identity": {"output_tokens": 8, "repeats": 2}},
        "host": {"name": "box"},
        "release": {"release": "1.1.0"},
        "prompts": PROMPTS,
    }
    assert IdentityTask.from_header(header(params)) == TASK
    with pytest.raises(IntegrityError, match="no identity task"):
        IdentityTask.from_header(header({**params, "protocol": {}}))
    with pytest.raises(IntegrityError, match="counts or prompts"):
        IdentityTask.from_header(header({**params, "prompts": {}}))

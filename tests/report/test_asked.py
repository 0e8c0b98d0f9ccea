"""Routes, offload of each row and decoding without a stream: carried by the receipt, held to the plan, shown."""

from dataclasses import replace

import pytest

from lqw.errors import Exit
from lqw.outcomes import Arm, Outcome, Purpose, Reason
from lqw.receipt import verify_receipt
from lqw.report.asked import asked_lines, unstreamed_lines
from lqw.report.gather import gather_receipt
from lqw.report.html import page_html
from lqw.samples import Failure, StepFacts, Unstreamed
from lqw.testing.synthetic import synthetic_run
from tests.report.fakes import MODEL, floor_of, make_params, make_receipt, resealed

PATHS = {Arm.SUBJECT: "/v1/completions", Arm.COMPARATOR: "/completion"}
DECODED_NS = {Arm.SUBJECT: 155_000_000, Arm.COMPARATOR: 77_500_000}  # 31 tokens: 200 and 400 tok/s


def _steps(params, start, **other):
    def one(step):
        unstreamed = None
        if step.kind == "decode":
            unstreamed = Unstreamed(tokens=32, one_ns=5_000_000, all_ns=5_000_000 + DECODED_NS[start.arm])
        path = "/v1/chat/completions" if step.route == "chat" else PATHS[start.arm]
        told = {"step": step.step_id, "path": path, "used_gpu": True, "said": "used_gpu: true in an answer"}
        return StepFacts(**{**told, "unstreamed": unstreamed, **other})

    return [one(step) for step in params.protocol.launches[start.launch].steps]


def _chat(params):
    """The same params with all parallel streams by chat."""
    launches = [
        launch.model_copy(
            update={
                "steps": [
                    step.model_copy(update={"route": "chat"}) if step.streams > 1 else step for step in launch.steps
                ]
            }
        )
        for launch in params.protocol.launches
    ]
    return params.model_copy(update={"protocol": params.protocol.model_copy(update={"launches": launches})})


@pytest.fixture(scope="module")
def made():
    """Params, a run that passes, and its floor; four streams go by chat."""
    params = _chat(make_params())
    return params, synthetic_run(params, Purpose.GATE, sd=0.03, seed=3), floor_of(_chat(make_params("1.0.0")))


def _receipt(made, change=lambda start, steps: {"steps": steps}):
    params, run, floor = made
    starts = tuple(one.model_copy(update=change(one, _steps(params, one))) for one in run.starts)
    return make_receipt(params, replace(run, starts=starts), floor)


@pytest.fixture(scope="module")
def facts(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("asked") / "1.1.0.json"
    path.write_bytes(resealed(_receipt(made)))
    return gather_receipt(path)


def test_each_row_has_its_route_both_paths_and_its_proof(facts):
    lines = {line[0]: line[1:] for line in asked_lines(facts)}
    starts = len({(one.pair, one.arm) for one in facts.steps})
    assert lines[f"{MODEL}/decode"] == ("completion", "/v1/completions", "/completion", f"{starts} of {starts} starts")
    assert lines[f"{MODEL}/agg@4"][:3] == ("chat", "/v1/chat/completions", "/v1/chat/completions")
    assert f"{MODEL}/rss_peak" not in lines


@pytest.mark.parametrize(
    ("by_pair", "streams", "said"),
    [
        ({1: 3, 2: 4, 3: 4}, 4, "chat; subject's largest batch by its log: 3 to 4"),
        ({1: 1, 2: 1, 3: 1}, 4, "chat; subject's largest batch by its log: 1, a queue"),
        ({}, 4, "chat"),
        ({1: 1, 2: 1, 3: 1}, 1, "completion; subject's largest batch by its log: 1"),  # one stream is no queue
    ],
)
def test_a_queue_is_told_from_a_batch_by_the_engines_own_log(made, tmp_path, by_pair, streams, said):
    name = f"agg@{streams}"

    def change(start, steps):
        formed = by_pair.get(start.pair) if start.arm is Arm.SUBJECT else None
        return {"steps": [one.model_copy(update={"formed": formed}) if one.step == name else one for one in steps]}

    path = tmp_path / "1.1.0.json"
    path.write_bytes(resealed(_receipt(made, change)))
    assert verify_receipt(path).problems == ()
    assert {line[0]: line[1] for line in asked_lines(gather_receipt(path))}[f"{MODEL}/{name}"] == said


def test_decoding_without_a_stream_stands_beside_the_row(facts):
    ((model, streamed, ratio, subject, comparator),) = unstreamed_lines(facts)
    assert (model, ratio, subject, comparator) == (MODEL, "0.50×", "200 tok/s", "400 tok/s")
    assert streamed.endswith("×")
    page = page_html(facts)
    assert "Routes and offload" in page
    assert "Decoding without a stream" in page


def test_a_run_from_before_shows_nothing_of_it(tmp_path):
    params = make_params()
    run = synthetic_run(params, Purpose.GATE, sd=0.03, seed=3)
    path = tmp_path / "1.1.0.json"
    path.write_bytes(resealed(make_receipt(params, run, floor_of(make_params("1.0.0")))))
    old = gather_receipt(path)
    assert (old.judgement.outcome, asked_lines(old), unstreamed_lines(old)) == (Outcome.PASS, [], [])
    assert 'id="asked"' not in page_html(old)


def _without(name):
    return lambda start, steps: {"steps": [one for one in steps if one.step != name]}


def _with(name, **update):
    return lambda start, steps: {"steps": [one.model_copy(update=update) if one.step == name else one for one in steps]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_with("decode", path="/v1/chat/completions"), "a route of completion, as declared"),
        (_with("agg@4", path="/completion"), "a route of chat, as declared"),
        (_without("agg@4"), "its route, which is declared as chat"),
        (_with("decode", used_gpu=False), "the start claims no failure"),
        (_with("decode", step="decode@9"), "a planned step, once"),
    ],
)
def test_what_contradicts_the_plan_is_invalid(made, change, said):
    checked = verify_receipt(resealed(_receipt(made, change)))
    assert checked.exit_status == Exit.INVALID
    assert any(said in str(problem) for problem in checked.problems)


def test_a_step_that_left_the_gpu_has_failed_its_start_and_its_rows_have_no_number(made):
    why = Failure(reason=Reason.NO_OFFLOAD, detail="decode: /health says compute_mode cpu after the requests")

    def change(start, steps):
        if (start.pair, start.arm) != (2, Arm.SUBJECT) or start.launch:
            return {"steps": steps}
        return {"failure": why, "steps": _with("decode", used_gpu=False)(start, steps)["steps"]}

    checked = verify_receipt(resealed(_receipt(made, change)))
    assert checked.outcome is Outcome.UNDECIDED
    failed = {str(row.row) for row in checked.judgement.rows if row.verdict == "FAILED"}
    assert f"{MODEL}/decode" in failed

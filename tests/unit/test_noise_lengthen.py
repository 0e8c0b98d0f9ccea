"""Lengthening: how many repeats, from what the pairs before showed; recorded, and computed again by the verifier."""

import math

import pytest

from lqw.canonical import loads_strict
from lqw.errors import ParamsError
from lqw.noise.lengthen import lengthened, needed_repeats
from lqw.outcomes import Arm, Outcome, Purpose, Reason
from lqw.params import Params, load_params
from lqw.params.protocol import LaunchSpec, ProtocolSpec, StepSpec
from lqw.plan import StartKey
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.store import Store
from lqw.samples import Failure, RequestSample, StartRecord
from lqw.testing.receipts import receipt_of
from lqw.testing.synthetic import synthetic_params, synthetic_run
from tests.support.fake_params import write_params
from tests.support.one_start import one_start

COLD = StepSpec(kind="cold", prompt_tokens=64, repeats=2, max_repeats=9)


def _start(pair, arm, ttfts_ms, failure=None):
    asked = [
        RequestSample(
            step="cold@64", role="timed", repeat=at, stream=0, prompt_tokens=64, prompt_sha256="", want_tokens=1,
            due_ns=0, sent_ns=0, connect_ns=0, ttft_ns=round(ms * 1e6), chunk_tokens=[1],
        )
        for at, ms in enumerate(ttfts_ms)
    ]  # fmt: skip
    return StartRecord(
        model="m", launch=0, position=0, started_utc="", origin_ns=0, wall_s=1, pair=pair, arm=arm, requests=asked,
        failure=failure,
    )  # fmt: skip


def _pairs(within, between, count=3):
    """Starts whose two requests are e^±within around a level, levels e^(±between, 0, …) around 100 ms."""
    levels = [between, -between, *[0.0] * (count - 2)]
    return [
        _start(pair, arm, [100 * math.exp(level + within), 100 * math.exp(level - within)])
        for pair, level in enumerate(levels, 1)
        for arm in Arm
    ]


def _protocol(launches, *rows):
    """A protocol as far as lengthening looks: its rows and launches, unchecked."""
    return ProtocolSpec.model_construct(launches=launches, rows=list(rows))


@pytest.mark.parametrize(
    ("within", "between", "repeats"),
    [
        # s_w² = 2 w² (two values ± w), S² = b² (levels b, −b, 0): n = π/2 · 2 w² · 9 / b²
        (0.01, 0.1, 2),  # 0.28: as declared
        (0.04, 0.1, 5),  # 4.52
        (0.05, 0.1, 8),  # 7.07
        (0.1, 0.1, 9),  # 28.3: the ceiling
        (0.1, 1e-6, 9),
    ],
)
def test_as_many_as_bring_the_error_below_a_third_of_the_spread(within, between, repeats):
    assert needed_repeats(COLD, _pairs(within, between), metric="cold") == repeats


def test_what_shows_no_spread_is_not_lengthened():
    assert needed_repeats(COLD, _pairs(0.1, 0.1, count=3)[:4], metric="cold") == 2  # two pairs show nothing
    assert (
        needed_repeats(COLD, _pairs(0.1, 0.0), metric="cold") == 2
    )  # starts that are all the same are judged elsewhere
    assert needed_repeats(COLD.model_copy(update={"max_repeats": 0}), _pairs(0.1, 0.1), metric="cold") == 2
    failure = Failure(reason=Reason.ENGINE_DIED, detail="x")
    dead = [start.model_copy(update={"failure": failure}) if start.pair == 3 else start for start in _pairs(0.1, 0.1)]
    assert needed_repeats(COLD, dead, metric="cold") == 2


def test_only_pairs_before_count_and_both_arms_get_the_same():
    protocol, starts = _protocol([LaunchSpec(slots=1, steps=[COLD])] * 2, "ttft@64"), _pairs(0.04, 0.1, count=5)
    assert lengthened(protocol, starts, StartKey("m", 3, Arm.SUBJECT, 0)) == {}
    assert lengthened(protocol, starts, StartKey("m", 4, Arm.SUBJECT, 0)) == {"cold@64": 5}
    assert lengthened(protocol, starts, StartKey("other", 4, Arm.SUBJECT, 0)) == {}
    assert lengthened(protocol, starts, StartKey("m", 4, Arm.SUBJECT, 1)) == {}


AGG = StepSpec(kind="agg", prompt_tokens=64, output_tokens=16, streams=4, repeats=2, max_repeats=9)


def _batch(at, seconds, alone_s):
    """Four streams of 16 tokens in *seconds*; the first is over after *alone_s*, before the others begin."""
    end = round(seconds * 1e9)
    spans = [(1_000_000, round(alone_s * 1e9)), *[(round(alone_s * 1e9) + 2_000_000, end)] * 3]
    return [
        RequestSample(
            step="agg@4", role="timed", repeat=at, stream=stream, prompt_tokens=64, prompt_sha256="", want_tokens=16,
            due_ns=0, sent_ns=0, connect_ns=0, ttft_ns=begin, chunk_tokens=[1] * 16,
            gaps_ns=[(end - begin) // 15] * 14 + [end - begin - 14 * ((end - begin) // 15)],
        )
        for stream, (begin, end) in enumerate(spans)
    ]  # fmt: skip


def _batches(within, between, count=3):
    """Starts of an engine that serves the first of many streams alone (apr 0.72.3): no moment has all of them."""
    levels = [between, -between, *[0.0] * (count - 2)]
    return [
        _start(pair, arm, []).model_copy(
            update={"requests": [
                one for at, sign in enumerate((1, -1)) for one in _batch(at, 4 * math.exp(level + sign * within), 1.0)
            ]}
        )
        for pair, level in enumerate(levels, 1)
        for arm in Arm
    ]  # fmt: skip


def test_many_streams_are_lengthened_by_the_row_that_gates():
    """Where the first stream runs alone there is no common window: ``agg`` says nothing, ``agg_whole`` decides."""
    launches, starts = [LaunchSpec(slots=4, steps=[AGG])], _batches(0.04, 0.1)
    key = StartKey("m", 4, Arm.SUBJECT, 0)
    assert lengthened(_protocol(launches, "agg@4"), starts, key) == {}
    # s_w² = 2·0.04², S² = 0.1², a geometric mean: n = 2·0.04²·9/0.1² = 2.88
    assert lengthened(_protocol(launches, "agg_whole@4"), starts, key) == {"agg@4": 3}
    assert lengthened(_protocol(launches, "agg@4", "agg_whole@4"), starts, key) == {"agg@4": 3}
    assert lengthened(_protocol(launches, "agg_whole@16"), starts, key) == {}, "no row, nothing to lengthen"


@pytest.fixture(scope="module")
def params():
    raw = synthetic_params(rows=("ttft@128", "prefill@128", "decode", "agg@4")).model_dump(mode="json", by_alias=True)
    for launch in raw["protocol"]["launches"]:
        for step in launch["steps"]:
            step["repeats"], step["max_repeats"] = 2, 6
    return Params.model_validate(raw)


def test_a_lengthened_run_verifies_and_says_by_how_much(params, tmp_path):
    run = synthetic_run(params, Purpose.ADOPT, sd=0.001)
    longer = [start.repeats for start in run.starts if start.repeats]
    assert longer
    assert all(start.pair > 3 for start in run.starts if start.repeats)
    data = receipt_of(run, Store(tmp_path))
    assert (verify_receipt(data).outcome, verify_receipt(data).problems) == (Outcome.FLOOR, ())
    body = loads_strict(data)
    at = next(at for at, start in enumerate(body["starts"]) if start.get("repeats"))
    step = next(iter(body["starts"][at]["repeats"]))
    for edit in ("claim", "drop"):
        edited = loads_strict(data)
        start = edited["starts"][at]
        if edit == "claim":
            start["repeats"][step] -= 1
        else:  # the slowest of the added requests is left out
            start["requests"] = [one for one in start["requests"] if (one["step"], one["repeat"]) != (step, 2)]
        found = verify_receipt(seal(edited))
        assert found.outcome is Outcome.INVALID
        assert any(f"starts.{at}." in problem.field for problem in found.problems)


def test_a_start_is_asked_as_often_as_it_is_lengthened(tmp_path, monkeypatch):
    monkeypatch.setenv("LQW_ENGINE_MODULES", "lqw.testing.fake_adapter")
    folder = write_params(tmp_path, releases={"1.0.0": {}})
    params = load_params(folder / "1.0.0.yaml")
    raw = params.model_dump(mode="json", by_alias=True)
    first = raw["protocol"]["launches"][0]["steps"][0]
    first["max_repeats"] = first["repeats"] + 4
    wanted = {StepSpec.model_validate(first).step_id: first["repeats"] + 2}
    params = Params.model_validate(raw)
    start = one_start(params, tmp_path / "run", repeats=wanted)
    step = next(iter(wanted))
    timed = [one for one in start.requests if one.step == step and one.role == "timed"]
    assert start.failure is None
    assert start.repeats == wanted
    assert sorted({one.repeat for one in timed}) == list(range(wanted[step]))
    assert len({one.prompt_sha256 for one in timed}) == len(timed)


def test_a_ceiling_below_the_repeats_is_refused(tmp_path):
    folder = write_params(tmp_path, releases={"1.0.0": {}})
    protocol = next((tmp_path / "params" / "protocols").glob("*.yaml"))
    protocol.write_text(protocol.read_text().replace("repeats: 3\n", "repeats: 3\n    max_repeats: 2\n", 1))
    with pytest.raises(ParamsError, match="below repeats"):
        load_params(folder / "1.0.0.yaml")

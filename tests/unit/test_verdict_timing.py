"""Flags on times: clocks that part, bursts, a client slower than its row; from real recorded runs, edited by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from lqw.collect.bench import bench_rows
from lqw.errors import IntegrityError
from lqw.journal import read_journal
from lqw.metrics import RowId
from lqw.metrics.checks import bursts_of, clocks_of
from lqw.noise import RowData
from lqw.noise.pairs import pair_rows
from lqw.outcomes import Arm
from lqw.params import load_params
from lqw.receipt import Inputs, params_of, rejudge
from lqw.receipt.client import client_of
from lqw.report.bench import bench_cells
from lqw.verdict import ClientError, Standing, judge
from lqw.verdict.timing import bursts, client_error, clocks
from tests.support.fake_params import ENVIRONMENT, write_params
from tests.support.one_start import one_start

RECORDED = Path(__file__).parents[1] / "fixtures/selftest"
MS = 1_000_000


@pytest.fixture(scope="module")
def healthy():
    """A real run of the demo: 128 and 512 tokens, decode, one and four streams, cached; both arms llama.cpp."""
    return read_journal(RECORDED / "healthy/samples.jsonl")


def _evidence(journal, starts, calibration=None):
    """Return what a receipt's verdict is made from; voids of tokens, which have no reference here, are left out."""
    found = rejudge(Inputs(journal.header, tuple(starts), tuple(journal.identities), Standing(), None, calibration))
    return replace(found.evidence, voids={})


def _flags(journal, starts, calibration=None):
    """Return guard → row → text of the flags on times."""
    out = {}
    for guard in judge(_evidence(journal, starts, calibration)).guards:
        if guard.guard in ("clock", "bursts", "client"):
            assert guard.effect == "flag"
            out.setdefault(guard.guard, {})[guard.subject.rpartition("/")[2]] = guard.text
    return out


def _edited(journal, arm, step, edit, *, pairs=(2,)):
    """Return the starts with *edit* done to the timed requests of a step, numbered, in some pairs of one arm."""

    def one(start):
        if start.arm is not arm or start.pair not in pairs:
            return start
        asked = [edit(r, r.repeat) if (r.step, r.role) == (step, "timed") else r for r in start.requests]
        return start.model_copy(update={"requests": asked})

    return list(map(one, journal.starts))


@pytest.mark.parametrize("case", ["healthy", "one-token-prefill", "different-tokens", "real-apr-per-token"])
def test_no_real_run_is_flagged(case):
    """Two cores and an H200, llama.cpp and apr: what is lawful is not flagged, not even four streams that queue."""
    journal = read_journal(RECORDED / case / "samples.jsonl")
    calibration = {"ttft_error_p99_ms": 0.8, "cpu_share": 0.15}
    assert _flags(journal, journal.starts, calibration) == {}
    requests = [one for start in journal.starts for one in start.requests if one.role == "timed"]
    assert clocks_of(one for one in requests if one.step.startswith("c")).asked > 9
    assert bursts_of(requests).streams > 5


def test_a_state_saved_before_the_clock_starts_is_seen_in_the_one_request_that_pays(healthy):
    """PITFALLS 18 with its own figures: TTFT grows by 0.25 s, the server's prompt_ms stays."""

    def saved(request, repeat):
        late = request.ttft_ns + 250 * MS * (repeat == 0)
        return request.model_copy(update={"ttft_ns": late, "end_ns": request.end_ns + 250 * MS})

    starts = _edited(healthy, Arm.COMPARATOR, "cold@128", saved)
    found = _flags(healthy, starts)
    assert list(found) == ["clock"]
    assert list(found["clock"]) == ["ttft@128"]
    asked = sum(
        r.step == "cold@128" and r.role == "timed" for s in starts if s.arm is Arm.COMPARATOR for r in s.requests
    )
    assert (
        f"comparator: the server's own prompt time and ours part in 1 of {asked} requests, by up to +25"
        in found["clock"]["ttft@128"]
    )
    row = next(one for one in judge(_evidence(healthy, starts)).rows if one.row.short == "ttft@128")
    assert row.flags == (found["clock"]["ttft@128"].partition(": ")[2],), "it stands with its row"


def test_five_percent_and_three_milliseconds_are_allowed(healthy):
    def apart(by):
        def edit(request, _):
            return request.model_copy(update={"timings": request.timings.model_copy(update={"prompt_ms": request.ttft_ns / MS - by(request)})})  # fmt: skip

        return _flags(healthy, _edited(healthy, Arm.SUBJECT, "cached@512", edit, pairs=(1, 2, 3)))

    def limit(request):
        return 0.05 * request.ttft_ns / MS + 3.0

    assert apart(lambda r: limit(r) - 0.01) == {}
    assert list(apart(lambda r: limit(r) + 0.01)) == ["clock"]
    assert list(apart(lambda r: -limit(r) - 0.01)) == ["clock"], "a server that says more than passed is no better"


def test_an_engine_that_tells_no_clock_is_not_judged_by_it(healthy):
    starts = _edited(healthy, Arm.SUBJECT, "cold@128", lambda r, _: r.model_copy(update={"timings": None}))
    assert _flags(healthy, starts) == {}
    assert clocks_of([]).asked == 0


def _burst(of, every):
    """Put *of* tokens into one read, every *every* tokens; the time stays what it was."""

    def edit(request, _):
        gaps = list(request.gaps_ns)
        for at in range(0, len(gaps) - of, every):
            gaps[at + of - 1] += sum(gaps[at : at + of - 1])
            gaps[at : at + of - 1] = [0] * (of - 1)
        return request.model_copy(update={"gaps_ns": gaps})

    return edit


@pytest.mark.parametrize(("step", "row"), [("decode", "decode"), ("agg@4", "agg@4")])
def test_tokens_in_bursts_are_flagged(healthy, step, row):
    starts = _edited(healthy, Arm.SUBJECT, step, _burst(3, 5), pairs=(1, 2, 3))
    found = _flags(healthy, starts)
    assert list(found) == ["bursts"]
    assert list(found["bursts"]) == [row]
    assert "reads carried several tokens" in found["bursts"][row]
    few = _edited(healthy, Arm.SUBJECT, step, _burst(2, 12), pairs=(1, 2, 3))
    assert _flags(healthy, few) == {}, "one read in eleven"


def test_a_stream_whose_first_read_holds_most_of_it_is_flagged(healthy):
    def replayed(request, _):
        half = len(request.gaps_ns) // 2 + 1
        return request.model_copy(update={"gaps_ns": [0] * half + request.gaps_ns[half:]})

    found = _flags(healthy, _edited(healthy, Arm.COMPARATOR, "decode", replayed, pairs=(3,)))
    assert "in 1 of 3 streams the first read held more than 50% of them" in found["bursts"]["decode"]
    few = next(r for s in healthy.starts for r in s.requests if r.step == "decode" and r.role == "timed")
    short = few.model_copy(update={"gaps_ns": [0] * 7, "chunk_tokens": [1] * 8})
    assert not bursts_of([short]).seen, "eight tokens say nothing"


def test_a_client_that_is_slower_than_the_margin_is_flagged_row_by_row(healthy):
    assert _flags(healthy, healthy.starts, {"ttft_error_p99_ms": 4.9, "cpu_share": 0.8}) == {}
    (busy,) = _flags(healthy, healthy.starts, {"ttft_error_p99_ms": 0.5, "cpu_share": 0.81})["client"].items()
    assert busy == ("run", "the client used 81 % of a core in its calibration: it may be what was measured")
    seen = _evidence(healthy, healthy.starts)
    formed = pair_rows(seen.starts, seen.plan.rows, min_window_s=seen.min_window_s)
    used = {row: data for row, data in formed.items() if row.kind.step in ("cold", "cached", "decode")}
    shortest = min(min(d.subject + d.comparator) for r, d in used.items() if r.metric in ("ttft", "ttft_cached"))
    policy = replace(seen.plan.policy, margin=0.1)
    late = ClientError(0.1 * shortest + 0.01)
    flagged = {one.subject.rpartition("/")[2] for one in client_error(used, late, policy)}
    assert flagged
    assert "decode" not in flagged
    assert {name.partition("@")[2] for name in flagged} == {next(iter(flagged)).partition("@")[2]}
    assert client_error(used, ClientError(0.1 * shortest - 0.01), policy) == []


def test_a_flag_carries_its_numbers(healthy):
    """10 % of 500 tokens at 20,000 a second, the quicker arm, is 2.5 ms."""
    row = RowId.parse("m/prefill@500")
    data = {row: RowData(row, (1, 2, 3), (0.0,) * 3, (10_000.0,) * 3, (20_000.0,) * 3)}
    policy = replace(_evidence(healthy, healthy.starts).plan.policy, margin=0.1)
    (found,) = client_error(data, ClientError(2.6), policy)
    assert (found.subject, found.numbers) == ("m/prefill@500", pytest.approx({"effect_ms": 2.5, "error_ms": 2.6}))
    (busy,) = client_error(data, ClientError(0.5, cpu_share=0.9), policy)
    assert (busy.subject, busy.numbers) == ("run", {"cpu_share": 0.9})
    late = _edited(
        healthy, Arm.SUBJECT, "cold@128", lambda r, i: r.model_copy(update={"ttft_ns": r.ttft_ns + 250 * MS * (i == 0)})
    )
    row = RowId.parse(f"{healthy.starts[0].model}/ttft@128")
    data = {row: RowData(row, (1, 2, 3), (0.0,) * 3, (1.0,) * 3, (1.0,) * 3)}
    (found,) = clocks(data, late)
    assert found.numbers == {"parted": 1.0, "asked": found.numbers["asked"], "worst_ms": pytest.approx(250, abs=5)}
    assert found.numbers["asked"] >= 3
    row = RowId.parse(f"{healthy.starts[0].model}/decode")
    data = {row: RowData(row, (1, 2, 3), (0.0,) * 3, (1.0,) * 3, (1.0,) * 3)}
    (found,) = bursts(data, _edited(healthy, Arm.SUBJECT, "decode", _burst(3, 5), pairs=(1, 2, 3)))
    assert set(found.numbers) == {"several", "reads", "at_once"}


def test_a_row_of_no_stream_has_no_bursts(healthy):
    made = {"gaps_ns": [0] * 20, "chunk_tokens": [1] * 21}
    starts = _edited(healthy, Arm.SUBJECT, "cold@128", lambda r, _: r.model_copy(update=made), pairs=(1, 2, 3))
    row = RowId.parse(f"{healthy.starts[0].model}/ttft@128")
    assert bursts({row: RowData(row, (1, 2, 3), (0.0,) * 3, (1.0,) * 3, (1.0,) * 3)}, starts) == []


def test_lqw_bench_says_it_beside_its_rows(healthy):
    starts = _edited(healthy, Arm.SUBJECT, "decode", _burst(3, 5), pairs=(1, 2, 3))
    mine = [one.model_copy(update={"model": "model"}) for one in starts if one.arm is Arm.SUBJECT]
    rows = {one.row.short: one for one in bench_rows(params_of(healthy.header).protocol, mine)}
    assert {name for name, row in rows.items() if row.flags} == {"decode"}
    assert "bursts: " in bench_cells(rows["decode"].to_json())[-1]


@pytest.mark.parametrize("name", ["ttft_error_p99_ms", "cpu_share"])
def test_a_calibration_that_is_no_number_is_named(name):
    with pytest.raises(IntegrityError, match=f"calibration.{name}: 'fast' is no number"):
        client_of({"ttft_error_p99_ms": 1.0, "cpu_share": 0.1, name: "fast"})
    assert client_of(None) is None


def test_an_engine_that_saves_its_last_state_first_is_seen_by_both_clocks(tmp_path, monkeypatch):
    """The fake engine pays for the request before at the beginning of the next one, outside its own prompt time."""
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    params = load_params(write_params(tmp_path, releases={"1.0.0": {"fault": "saves_state"}}) / "1.0.0.yaml")
    start = one_start(params, tmp_path / "run")
    assert start.failure is None
    cold = [r for r in start.requests if (r.step, r.role) == ("cold@512", "timed")]
    found = clocks_of(cold)
    assert found.asked == len(cold) == 3
    assert found.parted >= 2, "every request but the first finds a state to save"
    assert found.worst_ms >= 250
    assert min(r.ttft_ns / MS - r.timings.prompt_ms for r in cold[1:]) >= 250, "its own clock leaves the saving out"

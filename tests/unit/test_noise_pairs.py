"""Pairs: orientation, what fails a row, and that nothing is dropped."""

import dataclasses
import math

import numpy as np
import pytest

from lqw.metrics import RowId
from lqw.metrics.values import RowValue
from lqw.noise import RowData, complete_pairs, pair_rows
from lqw.noise.pairs import log_ratio, row_problem
from lqw.outcomes import Arm, Reason
from lqw.samples import Failure
from tests.support import synthetic as syn

TTFT, DECODE, RSS = (RowId.parse(f"m/{short}") for short in ("ttft@512", "decode", "rss_peak"))


def _pairs(starts, rows=syn.DEMO_ROWS, model="m"):
    return pair_rows(starts, [RowId.parse(f"{model}/{short}") for short in rows], min_window_s=syn.WINDOW_S)


def _starts(pairs=4, seed=0, **options):
    plan = syn.plan(**options)
    return syn.starts_of(plan, np.random.default_rng(seed), pairs=pairs)


def _broken(starts, pair, arm, **update):
    return [s.model_copy(update=update) if (s.pair, s.arm) == (pair, arm) else s for s in starts]


def test_larger_is_better_for_every_metric():
    assert log_ratio(TTFT, 100.0, 200.0) == pytest.approx(math.log(2))
    assert log_ratio(DECODE, 200.0, 100.0) == pytest.approx(math.log(2))
    assert log_ratio(RSS, 200.0, 100.0) == pytest.approx(-math.log(2))


def test_ratios_are_those_of_the_start_values():
    plan = syn.plan(rows=("decode", "rss_peak"))
    starts = syn.starts_of(plan, np.random.default_rng(0), pairs=3)
    found = _pairs(starts, ("rss_peak",))[RSS]
    by = {(s.pair, s.arm): s.memory.rss_anon_bytes for s in starts}
    wanted = [-math.log(by[p, Arm.SUBJECT] / by[p, Arm.COMPARATOR]) for p in (1, 2, 3)]
    np.testing.assert_allclose(found.d, wanted)
    assert found.pairs == (1, 2, 3)


def test_prefill_and_ttft_of_one_prompt_are_the_same_evidence():
    found = _pairs(_starts())
    np.testing.assert_allclose(found[TTFT].d, found[RowId.parse("m/prefill@512")].d, rtol=1e-9)


def test_a_failed_request_fails_its_row_and_no_other():
    starts = _starts()
    victim = next(s for s in starts if s.pair == 2 and s.arm is Arm.SUBJECT)
    requests = [
        r.model_copy(update={"failure": syn.failed(Reason.NOT_COLD, "cache_n 5")}) if r.step == "cold@512" else r
        for r in victim.requests
    ]
    found = _pairs(_broken(starts, 2, Arm.SUBJECT, requests=requests))
    assert found[TTFT].reason is Reason.NOT_COLD
    assert "pair 2, subject" in found[TTFT].detail
    assert {row.short for row, data in found.items() if isinstance(data, Failure)} == {"ttft@512", "prefill@512"}


def test_a_failed_start_fails_every_row_of_its_model():
    failure = syn.failed(Reason.FAILED_START, "exit 1: cannot open shared object file")
    found = _pairs(_broken(_starts(), 3, Arm.COMPARATOR, failure=failure, requests=[], memory=None))
    assert {data.reason for data in found.values()} == {Reason.FAILED_START}
    assert all("pair 3, comparator" in data.detail for data in found.values())


def test_a_start_that_never_comes_up_is_named_even_when_no_pair_is_whole():
    failure = syn.failed(Reason.DOES_NOT_FIT, "needs 9 GiB of 8")
    (only,) = [s for s in _starts(pairs=1) if s.arm is Arm.SUBJECT]
    found = _pairs([only.model_copy(update={"failure": failure, "requests": [], "memory": None})])
    assert {data.reason for data in found.values()} == {Reason.DOES_NOT_FIT}


def _two_launches(pairs=3):
    """Launch 0 serves the single-stream rows, launch 1 the parallel one; both show memory."""
    rng, out, position = np.random.default_rng(0), [], 0
    for pair in range(1, pairs + 1):
        for launch, rows in enumerate((("ttft@512", "rss_peak"), ("agg@4", "rss_peak"))):
            for arm in Arm:
                values = syn.row_values(rows, rng, 0.05, {"rss_peak": 1.0 + launch})
                out.append(syn.start("m", pair, arm, position, values, launch=launch))
                position += 1
    return out


def test_memory_is_the_largest_peak_over_the_launches():
    found = _pairs(_two_launches(), ("ttft@512", "agg@4", "rss_peak"))
    assert min(found[RSS].subject) > 1.9 * syn.LEVEL["rss_peak"]
    assert len(found[TTFT].d) == 3


def test_a_failed_launch_leaves_the_other_launch_s_rows_but_not_memory():
    starts = [
        s.model_copy(update={"failure": syn.failed(Reason.ENGINE_DIED), "requests": []})
        if (s.pair, s.launch, s.arm) == (2, 1, Arm.SUBJECT)
        else s
        for s in _two_launches()
    ]
    found = _pairs(starts, ("ttft@512", "agg@4", "rss_peak"))
    assert isinstance(found[TTFT], RowData)
    assert found[RSS].reason is Reason.ENGINE_DIED
    assert found[RowId.parse("m/agg@4")].reason is Reason.ENGINE_DIED


def test_half_a_pair_is_no_pair_and_a_gap_ends_the_count():
    starts = _starts(pairs=5)
    assert complete_pairs(starts) == {"m": 5}
    assert complete_pairs([s for s in starts if (s.pair, s.arm) != (5, Arm.SUBJECT)]) == {"m": 4}
    assert complete_pairs([s for s in starts if s.pair != 2]) == {"m": 1}
    assert complete_pairs([]) == {}
    assert complete_pairs([s for s in _two_launches() if (s.pair, s.launch) != (3, 1)]) == {"m": 2}


def test_every_row_has_an_answer_even_without_samples():
    found = _pairs([])
    assert len(found) == len(syn.DEMO_ROWS)
    assert {data.reason for data in found.values()} == {Reason.TOO_FEW_PAIRS}


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_pairs_show_no_variance(n):
    assert _pairs(_starts(pairs=n))[DECODE].reason is Reason.TOO_FEW_PAIRS


def _data(row, subject, comparator):
    d = tuple(log_ratio(row, x, y) for x, y in zip(subject, comparator, strict=True))
    return RowData(row, tuple(range(1, len(d) + 1)), d, tuple(subject), tuple(comparator))


@pytest.mark.parametrize(
    ("subject", "comparator"),
    [((5.0, 5.0, 5.0), (4.0, 4.1, 4.2)), ((4.0, 4.1, 4.2), (5.0, 5.0, 5.0)), ((4.0, 4.4, 4.2), (2.0, 2.2, 2.1))],
)
def test_a_clock_does_not_give_one_value_throughout(subject, comparator):
    assert row_problem(_data(DECODE, subject, comparator)).reason is Reason.CONSTANT_SAMPLES
    assert row_problem(_data(RSS, subject, comparator)) is None  # memory may be constant


def test_a_ratio_that_is_not_finite_is_named():
    good = _data(DECODE, (4.0, 4.1, 4.2), (3.0, 3.3, 3.2))
    assert row_problem(good) is None
    assert row_problem(dataclasses.replace(good, d=(0.1, math.nan, 0.2))).reason is Reason.NOT_FINITE


def test_values_that_are_no_numbers_fail_the_row(monkeypatch):
    for value in (0.0, -1.0, math.inf, math.nan, None):
        monkeypatch.setattr(
            "lqw.noise.pairs.start_values", lambda s, r, *, min_window_s, v=value: {DECODE: RowValue(v)}
        )
        assert _pairs(_starts(), ("decode",))[DECODE].reason is Reason.NOT_FINITE

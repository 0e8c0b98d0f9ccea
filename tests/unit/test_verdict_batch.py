"""The arithmetic of a confirmation, by hand: what is asked for, each limit, and what is said."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import Family, RowId
from lqw.outcomes import BatchArm, Reason, RowVerdict
from lqw.samples import Failure
from lqw.verdict.confirm import (
    Beside,
    Raised,
    _ended_by,
    _is_whole,
    _suite_test,
    asked_of,
    batch_rows,
    confirm_rows,
    confirm_suites,
)
from lqw.verdict.results import RowResult, SuiteResult
from lqw.verdict.suite import TAU_COMMON

DECODE = RowId("tiny", "decode")
FAILED = Failure(reason=Reason.FAILED_START, detail="no")


def _band(**changed):
    held = {"sd": 0.02, "nu": 12.0, "folded": False, "floor": 0.0, "red_by": "floor", "se_floor": 0.02}
    return SimpleNamespace(**{**held, "delta_floor": 0.3, **changed})


def _row(
    row=DECODE, *, verdict=RowVerdict.RED, band=None, asks="1.0.0", floor="1.0.0", gating=True, family=Family.RATE
):
    return RowResult.model_construct(
        row=row, verdict=verdict, text="", band=band, confirm_with=asks, confirmation=None, floor_release=floor,
        gating=gating, family=family,
    )  # fmt: skip


def _suite(*, red=True, family=Family.RATE):
    return SuiteResult.model_construct(family=family, red=red, confirmation=None)


def _beside(gains, earlier=0.0, release="1.0.0"):
    gains = np.asarray(gains, dtype=float)
    return Beside(release, gains + earlier, np.full(len(gains), earlier))


def _around(mean, sd, n=7):
    """Return n numbers with exactly this mean and standard deviation."""
    at = np.arange(n) - (n - 1) / 2
    return mean + at * sd / at.std(ddof=1)


def _told(row, found, raised=None):
    (one,) = confirm_rows([row], {(DECODE, "1.0.0"): found}, {} if raised is None else {DECODE: raised})
    return one.confirmation


def test_what_is_asked_for_is_every_suspect_row_and_the_floors_of_every_red_family():
    one, other = RowId("a", "decode"), RowId("b", "decode")
    rows = [
        _row(one, asks=None, floor="1.1.0"),
        _row(other, asks="1.0.0", floor="1.2.0"),
        _row(other, asks=None, floor="0.1.0", gating=False),
        _row(other, asks=None, floor="0.2.0", family=Family.MEMORY),
        _row(other, asks=None, floor="0.3.0", verdict=RowVerdict.SUSPECT),
    ]
    assert asked_of(rows, [_suite(red=False)]) == {"b": ("1.0.0",)}
    assert asked_of(rows, [_suite()]) == {"a": ("1.1.0",), "b": ("1.0.0", "1.2.0")}


@pytest.mark.parametrize("louder", [0.02, 0.09])
def test_a_loss_is_held_to_the_scatter_of_run_or_batch_whichever_is_larger(louder):
    told = _told(_row(band=_band(sd=0.05)), _beside(_around(-0.2, louder), earlier=0.1))
    width = stats.t.isf(0.05, 12) * max(0.05, louder) * math.sqrt(2 / 7)
    assert told.limit == pytest.approx(math.exp(-width), rel=1e-9)
    assert told.state == "CONFIRMED"
    assert (told.candidate_ratio, told.earlier_ratio) == (pytest.approx(math.exp(-0.1)), pytest.approx(math.exp(0.1)))
    assert (told.difference, told.n, told.release) == (pytest.approx(math.exp(-0.2)), 7, "1.0.0")


def test_a_loss_that_a_target_raised_says_what_the_target_asks_for():
    raised = Raised(0.4, 0.1, 0.005)
    told = _told(_row(band=_band(folded=True)), _beside(_around(0.1, 0.001)), raised)
    width = stats.t.isf(0.05, 12) * math.sqrt(0.02**2 * (2 / 7 + 0.1) + 0.005**2)
    assert told.limit == pytest.approx(math.exp(0.4 - width), rel=1e-9)
    assert "in 7 tuples: " in told.text
    assert f"the target it met asks for {math.exp(0.4):.2f}×" in told.text


def test_a_gain_must_exceed_noise_and_stand_as_far_above_a_target_as_it_did():
    row = _row(verdict=RowVerdict.SUSPECT, band=_band(folded=True))
    raised = Raised(0.2, 0.1, 0.005)
    width = stats.t.isf(0.05, 12) * math.sqrt(0.02**2 * (2 / 7 + 0.1) + 0.005**2)
    told = _told(row, _beside(_around(0.5, 0.001)), raised)
    assert (told.state, told.limit) == ("CONFIRMED", pytest.approx(math.exp(0.2 + width), rel=1e-9))
    assert _told(row, _beside(_around(0.35, 0.001)), raised).state == "NOT CONFIRMED", "0.15 above it, and it was 0.3"


def test_a_row_without_a_band_confirms_nothing():
    assert _told(_row(band=None), _beside(_around(-0.2, 0.01))).state == "NOT MEASURED"


def test_a_run_without_a_gain_of_its_own_asks_for_none():
    band = _band(delta_floor=None)
    assert _is_whole(0.0, band, 0.05)
    assert not _is_whole(-0.2, band, 0.05)


def test_a_start_that_ended_the_batch_is_named_by_its_arm():
    whole = SimpleNamespace(failure=None, arm=BatchArm.EARLIER, release="1.0.0")
    found = _beside([0.0])
    assert _ended_by([whole], found) is found
    for arm, release, name in (
        (BatchArm.CANDIDATE, "1.1.0", "the candidate"),
        (BatchArm.COMPARATOR, "", "the comparator"),
        (BatchArm.EARLIER, "1.0.0", "1.0.0"),
    ):
        ended = SimpleNamespace(failure=FAILED, arm=arm, release=release)
        assert _ended_by([whole, ended], found).detail == f"in the batch, {name}: no"


def test_two_earlier_releases_are_each_held_beside_their_own_starts(monkeypatch):
    """Pairing itself is the run's own code: here it only tells which starts it was given."""
    starts = [
        SimpleNamespace(model=model, arm=arm, release=release, failure=FAILED if arm is BatchArm.CANDIDATE else None)
        for model in ("tiny", "other")
        for arm, release in (
            (BatchArm.COMPARATOR, ""), (BatchArm.CANDIDATE, "1.2.0"),
            (BatchArm.EARLIER, "1.0.0"), (BatchArm.EARLIER, "1.1.0"),
        )
    ]  # fmt: skip
    windows = []

    def pair(paired, rows, *, min_window_s):
        windows.append(min_window_s)
        told = [float(len(paired)), *(float(release[2:3] or 9) for _, release in paired)]
        return {row: SimpleNamespace(d=told * 7) for row in rows}

    monkeypatch.setattr("lqw.verdict.confirm._as_start", lambda start, arm: (arm, start.release))
    monkeypatch.setattr("lqw.verdict.confirm.pair_rows", pair)
    declared = SimpleNamespace(against={"tiny": ["1.0.0", "1.1.0"]})
    batch = SimpleNamespace(declared=declared, starts=starts)
    found = batch_rows(batch, [DECODE, RowId("other", "decode")], min_window_s=0.7)
    assert set(found) == {(DECODE, "1.0.0"), (DECODE, "1.1.0")}
    assert set(windows) == {0.7}
    assert found[DECODE, "1.0.0"].candidate[:3].tolist() == [2.0, 9.0, 2.0]
    assert found[DECODE, "1.0.0"].earlier[:3].tolist() == [2.0, 9.0, 0.0], "whole: the failed start changes nothing"
    assert found[DECODE, "1.1.0"].earlier[:3].tolist() == [2.0, 9.0, 1.0]


FAMILY = [RowId("a", "decode"), RowId("b", "decode"), RowId("c", "decode")]


def _family(found, *, raised=None, floors=("1.0.0", "1.1.0", "1.0.0"), red=True):
    rows = [
        _row(row, verdict=RowVerdict.PASS, band=_band(sd=0.02), asks=None, floor=floor)
        for row, floor in zip(FAMILY, floors, strict=True)
    ]
    measured = {(row, floor): one for row, floor, one in zip(FAMILY, floors, found, strict=True) if one is not None}
    suite = _suite(red=red)
    (told,) = confirm_suites([suite], rows, measured, raised or {})
    return told


def test_a_family_is_told_by_its_mean_and_names_every_release_it_was_held_beside():
    found = [_beside(_around(mean, 0.001)) for mean in (-0.05, -0.03, -0.04)]
    told = _family(found).confirmation
    assert (told.state, told.n, told.release) == ("CONFIRMED", 7, "1.0.0, 1.1.0")
    assert told.difference == pytest.approx(math.exp(-0.04))
    assert f"the rate rows together are at {math.exp(-0.04):.3f}× 1.0.0, 1.1.0, side by side" in told.text
    level = _family(found, raised={FAMILY[0]: Raised(0.3, 0.1, 0.005)}).confirmation.limit
    assert level > told.limit * math.exp(0.09)
    assert _family(found, red=False).confirmation is None


def test_a_family_of_which_a_row_was_not_measured_says_which():
    found = [_beside(_around(-0.05, 0.001)), None, _beside(_around(-0.04, 0.001))]
    told = _family(found).confirmation
    assert (told.state, told.text) == ("NOT MEASURED", "1.1.0 was not measured beside it")
    short = _family([found[0], found[2], _beside(_around(-0.05, 0.001, n=6))]).confirmation
    assert short.text == "6 of 7 tuples with 1.0.0 were measured"


def test_independent_rows_bring_the_error_of_their_floors_and_a_row_without_a_band_none():
    found = [_beside(_around(-0.02, 0.0001)) for _ in FAMILY]
    bands = [SimpleNamespace(sd=0.03), SimpleNamespace(sd=0.05), None]
    members = [SimpleNamespace(band=band, row=row) for band, row in zip(bands, FAMILY, strict=True)]
    above = [Raised(0.1, 0.125, 0.0), Raised(), Raised()]
    variance = (0.03**2 * (2 / 7 + 0.125) + 0.05**2 * 2 / 7) / 9
    session = (TAU_COMMON / 3) ** 2
    _, limit = _suite_test(members, found, above)
    assert limit == pytest.approx(0.1 / 3 - stats.t.isf(0.05, 18) * math.sqrt(variance + session), rel=1e-9)

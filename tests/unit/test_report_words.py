"""Numbers and words a person reads: sensible digits, units, direction in words."""

import math

import pytest

from lqw.metrics import RowId
from lqw.outcomes import RowVerdict, TargetState
from lqw.report import svg, words


@pytest.mark.parametrize(
    ("x", "text"),
    [(0, "0"), (0.0421, "0.042"), (0.9996, "1.0"), (1.234, "1.23"), (9.996, "10.0"), (45.16, "45.2"), (99.96, "100"),
     (1389.6, "1,390"), (-3.21, "-3.21"), (8.2e-5, "8.20e-05"), (math.nan, "–"), (math.inf, "–")],
)  # fmt: skip
def test_number_has_three_significant_digits(x, text):
    assert words.number(x) == text


@pytest.mark.parametrize(
    ("x", "unit", "text"),
    [(1389.6, "ms", "1,390 ms"), (172_000.0, "ms", "172 s"), (45.16, "tok/s", "45.2 tok/s"),
     (4.1e8, "bytes", "391 MiB"), (9.2e9, "bytes", "8.57 GiB"), (None, "ms", "–"), (math.nan, "ms", "–")],
)  # fmt: skip
def test_value_carries_its_unit(x, unit, text):
    assert words.value(x, unit) == text


@pytest.mark.parametrize(
    ("x", "family", "text"),
    [(0.5555, "latency", "1.8× slower"), (1.8, "latency", "1.8× faster"), (0.97, "rate", "3.1 % slower"),
     (1.031, "rate", "3.1 % faster"), (1.001, "rate", "equal"), (0.8, "memory", "1.2× more memory"),
     (1.05, "memory", "5.0 % less memory"), (None, "rate", "–"), (0.0, "rate", "–"), (math.nan, "rate", "–")],
)  # fmt: skip
def test_direction_is_said_in_words(x, family, text):
    assert words.versus(x, family) == text


def test_a_ratio_and_its_reciprocal_have_the_same_factor():
    for factor in (1.02, 1.5, 3.7, 12.0):
        worse, better = words.versus(1 / factor, "rate"), words.versus(factor, "rate")
        assert worse.replace("slower", "faster") == better


@pytest.mark.parametrize(
    ("state", "distance", "text"),
    [(TargetState.OPEN, 1.52, "OPEN, 1.52× to go"), (TargetState.OPEN, 1.03, "OPEN, 3.0 % to go"),
     (TargetState.MET, 0.8, "MET, 1.25× in hand"), (TargetState.LIKELY, 0.98, "LIKELY, 2.0 % in hand")],
)  # fmt: skip
def test_targets_are_distances(state, distance, text):
    assert words.target_words(state, distance) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_duration(seconds, text):
    assert words.duration(seconds) == text


def test_band_change_and_against():
    assert words.band(0.214) == "±21 %"
    assert words.band(None) == "–"
    assert words.change(0.54) == "−46 %"
    assert words.change(1.012) == "+1.2 %"
    assert words.change(66.3) == "66-fold"
    assert words.versus(1 / 116.4, "rate") == "116× slower"
    assert words.target_words(TargetState.OPEN, 93.12) == "OPEN, 93× to go"
    assert words.against(0.54, "latency", "its floor") == "1.9× slower than its floor"
    assert words.against(1.0, "latency", "its floor") == "equal to its floor"
    assert words.ratio(0.053) == "0.053×"
    assert words.ratio(12.34) == "12.3×"


def test_every_metric_has_a_title_and_every_verdict_a_symbol_of_its_own():
    assert words.describe(RowId.parse("m/agg@1")).endswith("1 stream")
    assert "512 tokens" in words.describe(RowId.parse("m/ttft@512"))
    assert set(words.SYMBOLS) == set(RowVerdict)
    assert len(set(words.SYMBOLS.values())) == len(RowVerdict)
    assert len({said.symbol for said in words.KINDS.values()}) == len(words.Kind)


def test_scale_maps_and_clips():
    linear, log = svg.Scale(0, 10, 100, 200), svg.Scale(1, 100, 0, 50, log=True)
    assert [linear(x) for x in (-5, 0, 5, 99)] == [100, 100, 150, 200]
    assert log(10) == pytest.approx(25)
    assert svg.Scale(3, 3, 0, 100)(3) == 50


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (1, 1000), (350, 1500), (2e-3, 5e4)])
def test_ticks_are_inside_and_few(low, high):
    ticks = svg.log_ticks(low, high)
    assert 1 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)


def test_drawn_text_is_escaped():
    assert "<b>" not in svg.text(1, 2, "<b>")
    assert '"' not in svg.figure([], 10, alt='say "hi" <now>').split("aria-label=")[1].split('"')[1]

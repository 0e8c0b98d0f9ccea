"""The calibration of a run that is resumed: kept where it still stands, measured again where not, the worst counts."""

import json
import os
import time
from dataclasses import replace

import pytest

from lqw.collect import kept, session
from lqw.collect.calibrate import Calibration, Load
from lqw.collect.kept import SOON_S, calibrated_once
from lqw.errors import IntegrityError

LOAD = Load(1, 5.0, 40, 5)
FIRST = Calibration(LOAD, 0.1, 0.2, 0.01, 0.02, 0.1, (5.5,))
LATE = replace(FIRST, ttft_error_p99_ms=6.5, earlier_ttft_error_p99_ms=())


def _never():
    raise AssertionError("calibrated again")


@pytest.fixture
def begun(tmp_path):
    path = tmp_path / "calibration.json"
    assert calibrated_once(path, LOAD, idle_s=float("inf"), calibrate=lambda: FIRST) == FIRST
    return path


def test_a_run_that_goes_on_at_once_keeps_its_calibration(begun):
    for idle_s in (0.0, SOON_S):
        assert calibrated_once(begun, LOAD, idle_s=idle_s, calibrate=_never) == FIRST


@pytest.mark.parametrize("idle_s", [SOON_S + 1, -1.0, float("inf")])
def test_one_that_rested_or_whose_clock_was_set_back_is_calibrated_again(begun, idle_s):
    again = calibrated_once(begun, LOAD, idle_s=idle_s, calibrate=lambda: LATE)
    assert again == replace(LATE, of=2)
    assert again.too_late
    assert "the worst of 2: the run was resumed" in again.flags


def test_so_is_one_on_another_boot_and_one_of_another_load(begun, monkeypatch, tmp_path):
    other = replace(LOAD, streams=16)
    assert calibrated_once(begun, other, idle_s=1.0, calibrate=lambda: replace(LATE, load=other)).of == 2
    boot = tmp_path / "boot_id"
    boot.write_text("another\n")
    monkeypatch.setattr(kept, "_BOOT", boot)
    assert calibrated_once(begun, other, idle_s=1.0, calibrate=lambda: replace(FIRST, load=other)).of == 3


def test_a_late_client_does_not_become_good_by_a_restart(tmp_path):
    path = tmp_path / "calibration.json"
    calibrated_once(path, LOAD, idle_s=float("inf"), calibrate=lambda: LATE)
    assert calibrated_once(path, LOAD, idle_s=1.0, calibrate=_never) == LATE
    assert calibrated_once(path, LOAD, idle_s=SOON_S * 2, calibrate=lambda: FIRST) == replace(LATE, of=2)


@pytest.mark.parametrize("text", ["{}", '{"schema":"lqw-calibration/1","sessions":[{"boot":"x"}]}', "no JSON"])
def test_a_file_that_is_no_calibration_is_named(begun, text):
    before = json.loads(begun.read_text())
    assert before["schema"] == "lqw-calibration/1"
    begun.write_text(text)
    with pytest.raises(IntegrityError, match=r"calibration\.json"):
        calibrated_once(begun, LOAD, idle_s=1.0, calibrate=_never)


def test_a_run_is_as_old_as_its_journal(tmp_path):
    journal = tmp_path / "samples.jsonl"
    assert session._idle_s(journal) == float("inf"), "a run that has not begun is never resumed"
    journal.write_text("{}\n")
    os.utime(journal, (time.time() - 3_600,) * 2)
    assert 3_599 < session._idle_s(journal) < 3_700

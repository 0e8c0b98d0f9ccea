"""``lqw calibrate``: real null server, real sockets; what it prints and how it exits."""

import json

from lqw.cli import calibrate
from lqw.cli.app import run
from lqw.collect.calibrate import Calibration, Load
from lqw.errors import Exit


def test_the_table_and_the_json(monkeypatch, capsys):
    monkeypatch.setattr(calibrate, "GAPS_MS", (5.0,))
    assert run(["calibrate", "--streams", "2", "--json"]) in (Exit.PASS, Exit.UNDECIDED)  # a busy machine may be late
    said = json.loads(capsys.readouterr().out)
    assert [(one["streams"], one["gap_ms"]) for one in said["loads"]] == [(2, 5.0)]
    assert said["loads"][0]["ttft_error_p99_ms"] >= said["loads"][0]["ttft_error_p50_ms"] > 0
    assert said["highest_rate_held"] in (0, 400)


def _with_errors(monkeypatch, ttft_ms, gap_ms):
    def measure(_target, load: Load):
        return Calibration(load, ttft_ms, ttft_ms, gap_ms, gap_ms, 0.2)

    monkeypatch.setattr("lqw.collect.calibrate.calibrate", measure)


def test_a_late_client_is_void(monkeypatch, capsys):
    _with_errors(monkeypatch, 6.0, 2.0)
    assert run(["calibrate"]) == Exit.UNDECIDED
    out = capsys.readouterr().out
    assert "VOID: TTFT error p99 above 5 ms" in out
    assert "): 0 events/s" in out


def test_a_punctual_one_holds_all_rates(monkeypatch, capsys):
    _with_errors(monkeypatch, 0.3, 0.1)
    assert run(["calibrate"]) == Exit.PASS
    assert "16,000 events/s" in capsys.readouterr().out


def test_no_streams_is_a_usage_error(capsys):
    assert run(["calibrate", "--streams", "0"]) == Exit.USAGE
    assert "streams" in capsys.readouterr().err

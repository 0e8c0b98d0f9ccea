"""Progress: events, their file, what they say, and the two displays."""

import io
import json
import time

import pytest
from rich.console import Console

from lqw.errors import UsageError
from lqw.pipeline.display import Display, GpuLine, clock, view
from lqw.pipeline.progress import ProgressState, ProgressWriter, Tail

START = {"event": "start", "model": "m", "pair": 2, "arm": "subject", "launch": 0, "look": 0, "starts_planned": 6}
END = {**START, "event": "end", "wall_s": 8.0, "failure": None, "starts_done": 3, "rows_done": 5, "rows_planned": 8}


def fed(*events):
    state = ProgressState()
    for at, event in enumerate(events):
        state.feed({"t": float(at), **event})
    return state


def test_writer_and_tail_carry_events_in_order_and_wait_for_whole_lines(tmp_path):
    path = tmp_path / "progress.jsonl"
    writer, tail = ProgressWriter(path), Tail(path)
    assert tail() == []
    writer({"event": "stage", "stage": "10_collect"})
    with path.open("a") as out:
        out.write('no json\n[1]\n{"event": "half')
    assert [event["event"] for event in tail()] == ["stage"]
    with path.open("a") as out:
        out.write('"}\n')
    assert tail() == [{"event": "half"}]


def test_a_progress_file_that_cannot_be_written_does_not_end_a_measurement(tmp_path):
    ProgressWriter(tmp_path / "absent" / "progress.jsonl")({"event": "note"})
    assert list(tmp_path.iterdir()) == []


def test_state_counts_and_estimates_from_the_measured_pace():
    state = fed({"event": "plan", "starts_planned": 6, "rows_planned": 8}, START, END)
    assert (state.starts_done, state.starts_planned, state.rows_done, state.rows_planned) == (3, 6, 5, 8)
    assert state.seconds_left() == pytest.approx(24.0)
    state.feed({**END, "wall_s": 18.0, "starts_done": 4})
    assert state.seconds_left() == pytest.approx(2 * (0.7 * 8 + 0.3 * 18))


def test_nothing_is_estimated_before_the_first_start_ended():
    assert fed({"event": "plan", "starts_planned": 6}, START).seconds_left() is None


def test_failures_are_kept_and_named():
    state = fed(START, {**END, "failure": "FAILED_START"})
    assert state.failures == ["m · pair 2 · subject: FAILED_START"]
    assert "FAILED_START" in state.log[-1]


@pytest.mark.parametrize(
    "event", [{}, {"event": "unheard"}, {"event": "end"}, {"event": "look", "t": None}, {"event": 3}]
)
def test_odd_events_are_harmless(event):
    state = ProgressState()
    state.feed(event)
    assert state.rows_done == 0


def test_view_says_what_is_measured_and_how_long_is_left():
    stage = {"event": "stage", "stage": "10_collect"}
    state = fed(stage, START, END, {**START, "pair": 4, "look": 1}, {"event": "step", "step": "cold@512"})
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=True, color_system=None).print(view(state, "gate 1.1.0 on demo", 65.0))
    said = out.getvalue()
    for words in (
        "gate 1.1.0 on demo",
        "measuring",
        "m · pair 4 · subject · look 2 · cold@512",
        "3/6",
        "5/8",
        "0:24 left",
    ):
        assert words in said
    assert max(len(line) for line in said.splitlines()) <= 80


def test_display_prints_one_plain_line_per_start_off_a_terminal(tmp_path):
    path, out = tmp_path / "progress.jsonl", io.StringIO()
    with Display(path, "gate", Console(file=out, width=80)):
        writer = ProgressWriter(path)
        for event in ({"event": "stage", "stage": "10_collect"}, START, END):
            writer(event)
    lines = out.getvalue().splitlines()
    assert lines[0] == "  10_collect"
    assert lines[1].split() == ["start", "3/6", "m", "·", "pair", "2", "·", "subject", "8.0", "s"]
    assert "\x1b" not in out.getvalue()


def test_display_on_a_terminal_draws_and_ends(tmp_path):
    path, out = tmp_path / "progress.jsonl", io.StringIO()
    path.write_text(json.dumps({"event": "stage", "stage": "30_noise_band"}) + "\n")
    with Display(path, "gate x", Console(file=out, width=80, force_terminal=True)) as display:
        end = time.monotonic() + 5
        while "noise band" not in out.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
    assert "noise band" in out.getvalue()
    assert not display._thread.is_alive()


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (125, "2:05"), (-3, "0:00"), (59.6, "1:00"), (3600, "60:00")]
)
def test_clock(seconds, shown):
    assert clock(seconds) == shown


def test_json_log_writes_each_event_as_one_object(tmp_path):
    path, out = tmp_path / "progress.jsonl", io.StringIO()
    with Display(path, "gate", Console(file=out), "json"):
        writer = ProgressWriter(path)
        writer({"event": "stage", "stage": "10_collect"})
        writer(END)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["stage", "end"]
    assert events[1]["rows_done"] == 5


class FakeGpu:
    devices = ("first",)

    def __init__(self, **told):
        self.told = told

    def ask(self, function, device, what):
        return self.told.get(function)


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (FakeGpu(nvmlDeviceGetTemperature=61, nvmlDeviceGetClockInfo=1740), "GPU 61 °C, 1,740 MHz"),
        (FakeGpu(nvmlDeviceGetClockInfo=1740), "GPU 1,740 MHz"),
        (FakeGpu(), ""),
    ],
)
def test_the_live_view_shows_heat_and_clock_where_a_gpu_is(monkeypatch, gpu, said):
    monkeypatch.setattr("lqw.host.gpu.open_gpu", lambda: gpu)
    line = GpuLine()()
    assert line == said
    out = io.StringIO()
    Console(file=out, width=80).print(view(fed(START), "gate 1.1.0", 1.0, line))
    assert said in out.getvalue()


def test_the_live_view_says_nothing_of_a_gpu_that_is_not_there(monkeypatch):
    def none():
        raise UsageError("no GPU is visible", remedy="correct CUDA_VISIBLE_DEVICES")

    monkeypatch.setattr("lqw.host.gpu.open_gpu", none)
    assert GpuLine()() == ""

"""Who and what is watched beside a start: strangers end the run and are measured again, throttling fails the start."""

import os
import threading

import pytest

from lqw.collect import collect, session
from lqw.collect.watch import StartWatch, watched_gpu
from lqw.errors import HostBusy
from lqw.journal import read_journal
from lqw.outcomes import Purpose, Reason
from lqw.params import load_params
from lqw.plan import build_plan
from lqw.verdict import Standing
from tests.support.fake_nvml import FakeNvml, gpu_of
from tests.support.fake_params import ENVIRONMENT, NO_THIRD, write_params
from tests.support.one_start import one_start


@pytest.fixture
def params(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return load_params(write_params(tmp_path, releases={"1.0.0": {}}) / "1.0.0.yaml")


VISITOR = os.getppid()  # whoever started the tests: lives through them, and is no process of ours


def _collect(params, run_dir, monkeypatch, gpu):
    monkeypatch.setattr(session, "watched_gpu", lambda _: gpu)
    run_dir.mkdir(exist_ok=True)
    return collect(
        params,
        build_plan(params, Purpose.GATE),
        run_dir,
        run_id="test",
        standing_of=lambda *_: Standing(),
        third=NO_THIRD,
        progress=lambda _: None,
    )


def test_a_host_without_a_gpu_skips_by_name(params):
    assert watched_gpu(params.host) is None
    with StartWatch(None) as watch:
        pass
    watch.require_alone()
    said = watch.summary()
    assert said["gpu"] == {"skipped": "host without a GPU"}
    assert "idle_watch" not in said
    assert watch.failure is None


def test_a_gpu_in_use_before_the_run_is_busy(params, monkeypatch):
    monkeypatch.setattr("lqw.collect.watch.open_gpu", lambda: gpu_of(FakeNvml([0], [{VISITOR: 1}])))
    cuda = params.host.model_copy(update={"compute": "cuda"})
    with pytest.raises(HostBusy, match=f"pid {VISITOR} "):
        watched_gpu(cuda)


def test_a_blind_driver_is_said():
    with StartWatch(gpu_of(FakeNvml([0], [None]))) as watch:
        pass
    said = watch.summary()["idle_watch"]
    assert said["looks"] == said["blind_looks"] >= 2


def test_a_start_carries_what_the_gpu_did(params, tmp_path):
    start = one_start(params, tmp_path / "run", gpu=gpu_of(FakeNvml()))
    assert start.telemetry["gpu"]["temperature_c"]["max"] == 60
    assert start.telemetry["idle_watch"]["looks"] > 0
    assert start.failure is None


def test_a_throttled_start_has_failed(params, tmp_path):
    start = one_start(params, tmp_path / "run", gpu=gpu_of(FakeNvml(reasons=[0x40])))
    assert start.failure.reason is Reason.THROTTLED
    assert start.requests  # what was measured is kept, as evidence


def test_a_stranger_ends_the_run_and_what_he_touched_is_measured_again(params, tmp_path, monkeypatch):
    nvml, run_dir = FakeNvml(), tmp_path / "run"
    gone = threading.Event()

    def visit():  # waits for the second start's record to be due, then computes for a while
        while len((run_dir / "samples.jsonl").read_bytes().splitlines()) < 3:
            if gone.wait(0.005):
                return
        nvml.processes[0][VISITOR] = 1

    run_dir.mkdir()
    (run_dir / "samples.jsonl").touch()
    thread = threading.Thread(target=visit)
    thread.start()
    try:
        with pytest.raises(HostBusy, match=f"CONTENDED.*pid {VISITOR} "):
            _collect(params, run_dir, monkeypatch, gpu_of(nvml))
    finally:
        gone.set()
        thread.join()
    before = read_journal(run_dir / "samples.jsonl").starts
    assert len(before) < 6
    nvml.processes[0].clear()
    _collect(params, run_dir, monkeypatch, gpu_of(nvml))
    after = read_journal(run_dir / "samples.jsonl").starts
    assert len(after) == 6
    assert after[: len(before)] == before
    assert after[len(before)].telemetry["resumed"] is True
    assert all(start.telemetry["idle_watch"]["looks"] > 0 for start in after), "every start of a run is watched"

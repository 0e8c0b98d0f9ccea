"""GPU readings, their fallbacks by name, strangers on the GPU, and throttling."""

import os
import subprocess
import time

import pynvml
import pytest

from lqw.errors import HostBusy, UsageError
from lqw.host.fingerprint import cpu_model, host_facts
from lqw.host.gpu import VramMeter, gpu_facts, open_gpu
from lqw.host.idle import IdleWatch, require_idle, strangers
from lqw.host.telemetry import CpuTimes, Telemetry
from lqw.outcomes import Reason
from lqw.samples import HostFacts
from tests.support.fake_nvml import FakeNvml, gpu_of

OUTER = 2**22 + 5  # no pid of this machine: what NVML tells of an outer pid namespace


@pytest.mark.parametrize(
    ("visible", "devices"),
    [(None, [0, 1, 2]), ("1", [1]), ("2,0", [2, 0]), ("GPU-1a", [1]), ("0,7,1", [0]), ("", [])],
)
def test_the_visible_devices_count(monkeypatch, visible, devices):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_of(FakeNvml([0, 0, 0], [{}, {}, {}])).devices == devices


def test_readings_are_summed_over_devices_and_unsupported_is_none():
    gpu = gpu_of(FakeNvml([5, 7], [{1: 2, 9: 1}, {1: 3}]))
    assert gpu.used_bytes() == 12
    assert gpu.processes() == {1: 5, 9: 1}
    assert gpu_of(FakeNvml([5, None], [{}, {}])).used_bytes() is None
    assert gpu_of(FakeNvml([5, 5], [{}, None])).processes() is None
    assert gpu_of(FakeNvml([5], [{1: None}])).processes() == {1: None}
    assert gpu.ask("nvmlDeviceGetSomethingNew", 0) is None


def test_vram_by_process_is_the_peak_of_the_sum_over_the_tree():
    nvml = FakeNvml([1_000], [{7: 300, 8: 50, 9: 4_000}])
    meter = VramMeter.begin(gpu_of(nvml))
    meter.sample([7, 8])
    nvml.processes[0][7] = 200
    meter.sample([7, 8])
    assert (meter.peak_bytes, meter.method) == (350, "nvml_process")


def test_vram_falls_back_to_what_the_device_gained():
    nvml = FakeNvml([1_000], [{OUTER: 700}])
    meter = VramMeter.begin(gpu_of(nvml))
    assert (meter.peak_bytes, meter.method) == (None, "unified_meminfo")
    nvml.used[0] = 1_700
    meter.sample([7])
    nvml.used[0] = 1_200
    meter.sample([7])
    assert (meter.peak_bytes, meter.method, meter.delta_bytes) == (700, "nvml_device_delta", 700)


def test_unified_memory_without_totals_still_tells_per_process():
    meter = VramMeter.begin(gpu_of(FakeNvml([None], [{7: 300}])))
    meter.sample([7])
    assert (meter.peak_bytes, meter.method, meter.delta_bytes) == (300, "nvml_process", None)
    assert meter.returned()


def test_unified_memory_that_tells_nothing_is_read_from_meminfo():
    meter = VramMeter.begin(gpu_of(FakeNvml([None], [None])))
    meter.available_before += 10 * 2**30
    meter.sample([7])
    assert meter.method == "unified_meminfo"
    assert meter.peak_bytes == pytest.approx(10 * 2**30, rel=0.3)


def test_memory_is_returned_when_the_device_is_back_at_its_baseline():
    nvml = FakeNvml([1_000], [{}])
    meter = VramMeter.begin(gpu_of(nvml))
    nvml.used[0] = 1_000 + 2 * 2**30
    assert not meter.returned()
    nvml.used[0] = 1_000 + 2**20
    assert meter.returned()


def test_facts_fill_the_host_facts(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    one = gpu_of(FakeNvml()).facts()
    assert one == {"gpu": "Fake 0", "vram_mib": 24_576, "power_limit_w": 450, "driver": "570.10", "cuda": "12.8"}
    assert gpu_of(FakeNvml([0, 0], [{}, {}])).facts()["gpu"] == "2 x Fake 0, Fake 1"
    assert gpu_of(FakeNvml([None])).facts()["vram_mib"] is None


def test_a_host_that_says_cuda_without_a_driver_is_a_usage_error(monkeypatch):
    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    open_gpu.cache_clear()
    with pytest.raises(UsageError, match="compute: cuda"):
        gpu_facts()


def test_no_visible_device_is_a_usage_error(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 0)
    open_gpu.cache_clear()
    with pytest.raises(UsageError, match="no GPU is visible"):
        open_gpu()


def test_strangers_are_those_that_are_not_ours():
    listed = {os.getpid(), os.getppid()}
    assert strangers(listed, listed) == {}
    assert strangers(listed, [os.getpid()])[os.getppid()].startswith(f"pid {os.getppid()} ")
    assert strangers(listed, [os.getpid()], former=[os.getppid()]) == {}
    assert strangers([], [os.getpid()]) == {}


def test_pids_of_an_outer_namespace_are_ours_as_far_as_we_have_processes():
    assert strangers([OUTER], [7]) == {}
    assert strangers([OUTER], []) == {0: "1 processes outside this pid namespace, 0 expected"}
    assert strangers([OUTER, OUTER + 1], [7]) == {0: "2 processes outside this pid namespace, 1 expected"}
    assert strangers([OUTER, 7], [7]) == {0: "1 processes outside this pid namespace, 1 expected"}


def test_a_gpu_in_use_is_busy():
    require_idle(gpu_of(FakeNvml()))
    with pytest.raises(HostBusy, match=f"pid {os.getpid()} "):
        require_idle(gpu_of(FakeNvml([0], [{os.getpid(): 1}])))


def test_one_who_comes_and_goes_while_we_measure_is_seen_and_named():
    nvml = FakeNvml()
    visitor = subprocess.Popen(["sleep", "60"])
    try:
        with IdleWatch(gpu_of(nvml), own=lambda: [os.getpid()]) as watch:
            assert watch.failure() is None
            nvml.processes[0][visitor.pid] = 1
            time.sleep(0.25)
            del nvml.processes[0][visitor.pid]
    finally:
        visitor.kill()
        visitor.wait()
    failure = watch.failure()
    assert failure.reason is Reason.CONTENDED
    assert f"pid {visitor.pid} sleep" in failure.detail


def test_our_own_engine_that_ended_and_is_still_listed_is_no_stranger():
    """Seen on an H200: NVML lists a killed server for 0.2 s more, when it is in nobody's tree any longer."""
    nvml = FakeNvml()
    engine = subprocess.Popen(["sleep", "60"])
    own = [engine.pid]
    try:
        with IdleWatch(gpu_of(nvml), own=lambda: own, interval_s=0.01) as watch:
            nvml.processes[0][engine.pid] = 1
            time.sleep(0.05)
            own.clear()
            time.sleep(0.05)
    finally:
        engine.kill()
        engine.wait()
    assert watch.failure() is None


def test_a_host_that_lists_no_processes_cannot_be_watched_but_is_not_contended():
    with IdleWatch(gpu_of(FakeNvml([0], [None])), own=list) as watch:
        pass
    assert watch.failure() is None
    require_idle(gpu_of(FakeNvml([0], [None])))


def test_the_watch_looks_ten_times_a_second():
    began = time.monotonic()
    with IdleWatch(gpu_of(FakeNvml()), own=list) as watch:
        time.sleep(0.5)
    assert watch.looks >= 10 * (time.monotonic() - began) * 0.8
    assert watch.failure() is None


def test_telemetry_of_a_gpu():
    nvml = FakeNvml(reasons=[0x1])
    with Telemetry(gpu_of(nvml), interval_s=0.01) as telemetry:
        time.sleep(0.05)
    gpu = telemetry.summary()["gpu"]
    assert gpu["sm_clock_mhz"] == {"min": 2_500, "median": 2_500, "max": 2_500}
    assert gpu["power_w"]["max"] == 300
    assert gpu["samples"] >= 2
    assert gpu["throttled"] == {}
    assert telemetry.failure() is None


@pytest.mark.parametrize(
    ("bits", "names", "voids"),
    [
        (0x4, ["sw_power_cap"], True),
        (0x60, ["hw_thermal_slowdown", "sw_thermal_slowdown"], True),
        (0x10, ["sync_boost"], False),
        (0x103, [], False),
    ],
)
def test_throttling_is_named_and_power_and_heat_void(bits, names, voids):
    with Telemetry(gpu_of(FakeNvml(reasons=[bits])), interval_s=0.01) as telemetry:
        pass
    assert sorted(telemetry.summary()["gpu"]["throttled"]) == names
    failure = telemetry.failure()
    assert (failure is not None) == voids
    if failure:
        assert failure.reason is Reason.THROTTLED
        assert names[0] in failure.detail


def test_without_a_gpu_telemetry_says_so_and_still_tells_of_the_cpu():
    with Telemetry(None) as telemetry:
        time.sleep(0.05)
    summary = telemetry.summary()
    assert summary["gpu"] == {"skipped": "host without a GPU"}
    assert 0 <= summary["cpu"]["busy_share"] <= 1
    assert telemetry.failure() is None


def test_cpu_shares():
    assert CpuTimes(1_100, 540, 10).since(CpuTimes(1_000, 500, 0)) == {"busy_share": 0.6, "steal_share": 0.1}


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD  EPYC 9 \n", "AMD EPYC 9"),
        ("processor : 0\nBogoMIPS : 50\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
        ("processor : 0\n", os.uname().machine),
    ],
)
def test_cpu_model(cpuinfo, model):
    assert cpu_model(cpuinfo) == model


def test_host_facts_are_facts_of_a_class_without_readings():
    first, second = host_facts("demo", "cpu"), host_facts("demo", "cpu")
    assert isinstance(first, HostFacts)
    assert first == second
    assert first.cores == len(os.sched_getaffinity(0))
    assert first.gpu is None

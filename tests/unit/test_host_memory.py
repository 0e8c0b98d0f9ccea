"""Memory peaks of a process tree."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from lqw.host.gpu import VramMeter
from lqw.host.memory import MemorySampler, read_status
from tests.support.fake_nvml import FakeNvml, gpu_of

MIB = 2**20
GROW = """
import sys
print("up", flush=True); sys.stdin.readline()
big = bytearray(64 << 20)
print("big", flush=True); sys.stdin.readline()
del big
print("small", flush=True); sys.stdin.readline()
"""


@pytest.fixture
def grower():
    command = [sys.executable, "-I", "-S", "-c", GROW]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def step(process):
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def test_status_agrees_with_psutil():
    hwm, anon, file = read_status(os.getpid())
    assert anon + file <= hwm
    assert anon + file == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)
    assert read_status(2**22 + 1) is None


def test_the_peak_stays_after_the_memory_is_given_back(grower):
    with MemorySampler(grower.pid, interval_s=0.005) as memory:
        before = memory.peaks().rss_anon_bytes
        step(grower)
        end = time.monotonic() + 5.0  # the memory stays until the next step: a loaded machine only samples it later
        while memory.peaks().rss_anon_bytes - before <= 60 * MIB and time.monotonic() < end:
            time.sleep(0.005)
        step(grower)
    peaks = memory.peaks()
    assert peaks.rss_anon_bytes - before > 60 * MIB
    assert peaks.vm_hwm_bytes >= peaks.rss_anon_bytes
    assert peaks.rss_file_bytes > MIB
    assert peaks.samples >= 2
    assert peaks.vram_bytes is None
    assert peaks.vram_method is None


def test_the_instants_of_a_tree_are_summed(grower):
    child = subprocess.Popen(["sleep", "60"])
    try:
        with MemorySampler(os.getpid()) as ours:
            pass
        with MemorySampler(grower.pid) as one:
            pass
        assert ours.peaks().rss_anon_bytes > one.peaks().rss_anon_bytes + read_status(child.pid)[1]
    finally:
        child.kill()
        child.wait()


def test_nothing_to_read_is_none_not_zero():
    with MemorySampler(2**22 + 1) as memory:
        pass
    peaks = memory.peaks()
    assert (peaks.samples, peaks.rss_anon_bytes, peaks.vm_hwm_bytes) == (0, None, None)


def test_gpu_memory_comes_from_the_meter_with_its_method(grower):
    nvml = FakeNvml(used=[1_000], processes=[{grower.pid: 700, 1: 300}])
    with MemorySampler(grower.pid, compute="cuda", vram=VramMeter.begin(gpu_of(nvml)), interval_s=0.005) as memory:
        nvml.processes[0][grower.pid] = 900
        at_least = memory.peaks().samples + 2
        while memory.peaks().samples < at_least:
            time.sleep(0.005)
        nvml.processes[0][grower.pid] = 100
    peaks = memory.peaks()
    assert (peaks.vram_bytes, peaks.vram_method) == (900, "nvml_process")

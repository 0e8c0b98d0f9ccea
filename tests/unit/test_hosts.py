"""Hosts: one name each, their class looked at before anything starts, their engines and weights where they say."""

import importlib
import platform
from pathlib import Path

import pytest

from lqw.errors import ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.params import load_params
from lqw.pipeline import doctor, doctor_release
from tests.support.fake_nvml import FakeNvml, gpu_of

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "params/releases/0.72.3.yaml"
before = importlib.import_module("lqw.collect.preflight")  # its package has a function of that name


class Lambda(FakeNvml):
    """What NVML says on the RTX 4090: 24 GiB in all, so the file's figure is changed with it."""

    def nvmlDeviceGetName(self, device):  # noqa: N802 - NVML's name
        return "NVIDIA GeForce RTX 4090"


def changed(params, **fields):
    return params.model_copy(update={"host": params.host.model_copy(update=fields)})


@pytest.fixture
def on_lambda(monkeypatch):
    monkeypatch.setattr(before, "open_gpu", lambda: gpu_of(Lambda()))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    params = load_params(RELEASE, host="lambda")
    return changed(params, class_=params.host.class_.model_copy(update={"vram_mib": 24 * 1024}))


@pytest.mark.parametrize("host", ["lambda", "gx10"])
def test_the_release_has_five_models_and_65_rows_on_both_hosts(host):
    params = load_params(RELEASE, host=host)
    assert len(params.release.models) == 5
    assert len(params.release.models) * len(params.protocol.rows) == 65
    assert params.release.subject.binary == params.host.engines["apr"].binary
    assert params.release.subject.settings == {"threads": 16}
    assert params.release.comparator.settings == {"flash_attn": "on"}


@pytest.mark.parametrize("said", ["lambda", "Lambda", "lambda-vector", "noah-lambda-vector", "noah-Lambda-Vector"])
def test_one_machine_has_one_name(said):
    assert load_params(RELEASE, host=said).host.name == "lambda"


def test_what_no_host_is_called_is_refused():
    with pytest.raises(ParamsError, match=r"--host lambda\|gx10") as caught:
        load_params(RELEASE, host="h200")
    assert caught.value.field == "hosts"


def test_what_a_release_says_of_a_program_goes_before_the_host():
    params = load_params(RELEASE, host="lambda")
    own = params.release.subject.model_copy(update={"binary": "/my/apr", "settings": {"threads": 4}})
    placed = own.placed(params.host.engines)
    assert (placed.binary, placed.settings) == ("/my/apr", {"threads": 4})
    assert own.model_copy(update={"engine": "fake"}).placed(params.host.engines).binary == "/my/apr"


def test_the_machine_that_the_file_describes_is_taken(on_lambda):
    assert before.check_host(on_lambda) == "x86_64, NVIDIA GeForce RTX 4090, nvml_process"
    (check,) = doctor_release._class(on_lambda)
    assert (check.name, check.state) == ("host class", "ok")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("machine", "aarch64"),
        ("gpu", "GB10"),
        ("vram_mib", 24_564),
        ("power_limit_w", 350),
        ("memory", "nvml_device_delta"),
    ],
)
def test_another_machine_is_refused_by_field_before_anything_starts(on_lambda, field, value):
    other = changed(on_lambda, class_=on_lambda.host.class_.model_copy(update={field: value}))
    with pytest.raises(ParamsError, match=r"params/hosts/lambda\.yaml") as caught:
        before.preflight(other, Purpose.GATE)
    assert (caught.value.field, caught.value.value) == (f"class.{field}", value)
    (check,) = doctor.checked("host class", "", lambda: doctor_release._class(other))
    assert check.state == "bad"
    assert "--host" in check.mend


@pytest.mark.parametrize(
    ("processes", "used", "method"),
    [([{}], [0], "nvml_process"), ([None], [0], "nvml_device_delta"), ([None], [None], "unified_meminfo")],
)
def test_how_memory_can_be_read(processes, used, method):
    assert gpu_of(FakeNvml(used, processes)).best_method() == method


@pytest.mark.parametrize(
    ("host", "mend"),
    [
        ("lambda", "run on the GPU host"),
        ("gx10", "name the host this is with --host, or correct its file once it was seen"),  # told by its processor
    ],
)
def test_doctor_away_from_the_host_names_each_thing_that_is_not_here(host, mend, monkeypatch):
    def none():
        raise UsageError("NVML says: not found", remedy="run on the GPU host")

    monkeypatch.setattr(before, "open_gpu", none)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    checks = {check.name: check for check in doctor_release.release(load_params(RELEASE, host=host))}
    assert all(check.state == "bad" and check.mend for check in checks.values())
    assert checks["host class"].mend == mend
    assert "subject.binary = '/opt/lqw/bin/apr': no such file" in checks["subject"].seen
    assert "install -m 755 BUILD /opt/lqw/bin/apr" in checks["subject"].mend
    assert "models.qwen3.5-9b.sha256 = 'unpinned'" in checks["qwen3.5-9b"].seen
    assert checks["qwen3.5-9b"].mend.startswith("sha256sum /opt/lqw/models/Qwen3.5-9B-Q4_K_M.gguf, compare it")


def test_a_cpu_host_has_no_class_and_needs_no_gpu():
    params = load_params(ROOT / "params/demo/1.1.0.yaml")
    (check,) = doctor_release._class(params)
    assert (check.state, check.seen) == ("skipped", f"{platform.machine()}; params/hosts/demo.yaml names no class")

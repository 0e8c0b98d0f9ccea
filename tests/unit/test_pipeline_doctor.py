"""``lqw doctor``: what each check says, and when it stands in the way."""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from lqw.cli import doctor as doctor_command
from lqw.cli.app import run
from lqw.engines.fit import Need
from lqw.errors import UsageError
from lqw.params import BesideSpec, load_params
from lqw.pipeline import doctor, doctor_release

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "params" / "demo" / "1.1.0.yaml"


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def params():
    return load_params(DEMO)


def on(params, **host):
    return params.model_copy(update={"host": params.host.model_copy(update=host)})


def test_a_disk_nearly_full_is_bad_and_one_getting_full_a_warning(monkeypatch, tmp_path):
    for free, state in ((10 * 2**30, "ok"), (2 * 2**30, "warn"), (2**28, "bad")):
        monkeypatch.setattr(shutil, "disk_usage", lambda place, free=free: Usage(0, 0, free))
        (check,) = doctor._disk(tmp_path / "runs" / "new")
        assert check.state == state
        assert bool(check.mend) == (state != "ok")


def test_little_memory_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "available_bytes", lambda: 2**29)
    (check,) = doctor._memory()
    assert (check.state, check.seen) == ("warn", "0.50 GiB available")


def test_a_held_lock_stands_in_the_way(params, tmp_path, monkeypatch):
    lock = tmp_path / "lock"
    (free,) = doctor._lock(on(params, lock=str(lock)))
    assert free.state == "ok"
    monkeypatch.setattr(doctor, "lock_holders", lambda path: [1])
    (held,) = doctor._lock(on(params, lock=str(lock)))
    assert (held.state, held.mend) == ("bad", "wait until it ends")


def test_without_a_gpu_a_cuda_host_is_bad_with_the_remedy_and_a_cpu_host_skips_it_by_name(params, monkeypatch):
    def none():
        raise UsageError("NVML says: no driver", remedy="install its driver")

    monkeypatch.setattr(doctor, "open_gpu", none)
    (bad,) = doctor.checked("GPU", "alone", lambda: doctor._gpu(on(params, compute="cuda")))
    assert (bad.state, bad.seen, bad.mend) == ("bad", "NVML says: no driver", "install its driver")
    (skipped,) = doctor._gpu(params)
    assert (skipped.state, skipped.seen) == ("skipped", "host demo computes on the CPU")


def test_a_model_fits_by_arithmetic_or_does_not(params, monkeypatch, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    model = params.release.models[0].model_copy(update={"gguf": str(tmp_path / "m.gguf")})
    monkeypatch.setattr(doctor_release, "check_model", lambda params, model: None)
    need = Need(2 * 2**30, 2**29, 0, 0)
    for told, seen in ((need, "weights 2.00 + KV 0.50 + state 0.00 + compute 0.00 = 2.50 GiB of"), (None, "no more")):
        monkeypatch.setattr(doctor_release, "need_of", lambda engine, request, told=told: told)
        for free, state in ((need.total, "ok"), (3, "bad")):
            monkeypatch.setattr(doctor_release, "room", lambda compute, free=free: (free, "memory available"))
            (check,) = doctor_release._model(params, model)
            assert (check.state, bool(check.mend)) == (state, state == "bad")
            assert seen in check.seen


def test_an_engine_that_is_not_there_is_bad_with_field_and_remedy(params):
    missing = params.release.subject.model_copy(update={"engine": "llama_server", "binary": "/absent/llama-server"})
    wrong = params.model_copy(update={"release": params.release.model_copy(update={"subject": missing})})
    check = doctor_release.release(wrong)[1]
    assert check.state == "bad"
    assert "subject.binary" in check.seen
    assert check.mend


def test_an_engine_beside_that_is_not_there_is_a_warning(params):
    beside = [BesideSpec(name="ollama", engine="ollama", binary="/absent/ollama")]
    wanting = params.model_copy(update={"release": params.release.model_copy(update={"beside": beside})})
    (check,) = [one for one in doctor_release.release(wanting) if one.name == "beside ollama"]
    assert (check.state, "no such file" in check.seen, bool(check.mend)) == ("warn", True, True)


@pytest.fixture
def quick(monkeypatch):
    """Leave out the checks that take a second: kernel and client."""
    monkeypatch.setattr(doctor, "_kernel", lambda: iter(()))
    monkeypatch.setattr(doctor, "_client", lambda: iter(()))


def test_the_command_says_each_check_and_exits_by_the_worst(quick, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: (99.0, 0, 0))
    assert run(["doctor", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "! warn     processor" in said
    assert "mend: ps aux" in said
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(0, 0, 0))
    assert run(["doctor", "--runs", str(tmp_path), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["bad"]) == ("lqw-doctor/1", 1)
    assert {check["state"] for check in told["checks"]} == {"ok", "warn", "bad", "skipped"}


def test_kernel_and_client_are_really_tried():
    (kernel,) = doctor._kernel()
    assert kernel.state == "ok"
    assert "ipykernel" in kernel.seen
    (client,) = doctor._client()
    assert "TTFT" in client.seen
    assert client.state in ("ok", "warn", "bad")  # of a busy machine, that is the answer


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("out", "lines"), [(_Terminal, 4), (io.StringIO, 1)], ids=["terminal", "pipe"])
def test_a_narrow_terminal_gets_whole_words_under_each_other_and_a_pipe_one_line(out, lines, monkeypatch):
    shown, path = out(), "/opt/lqw/models/" + "long-" * 8 + "name.gguf"
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    doctor_command._print("             mend: ", f"sha256sum {path}, compare it with its publisher's")
    said = shown.getvalue().splitlines()
    assert len(said) == lines
    assert said[0].startswith("             mend: sha256sum")
    assert all(line.startswith(" " * 13) for line in said)
    assert f"{path}," in shown.getvalue()

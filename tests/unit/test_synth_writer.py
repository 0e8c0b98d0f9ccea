"""The file: the same bytes everywhere, one cycle of words in it, whole or absent."""

import hashlib
import resource
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from lqw.errors import UsageError
from lqw.synth import MIXES, Recipe, made_up_vocabulary, planned_bytes, synthesise
from lqw.synth.shapes import Kind
from lqw.synth.tensors import data_of, parts_of
from lqw.synth.words import words_of

VOCABULARY = made_up_vocabulary()

GOLDEN = {  # a change of these bytes is a change of format: raise "lqw-synth/1" with it
    "q4_k_m": "a148807e323838c4a2042a79aacbd57520572a7ccf342f8ffe458a5028e54d54",
    "q4_k_s": "0b2fb751426f4f7fc267234f825f5700f2d39fe693ad0c8a297de908a4d5a61d",
    "q5_k_m": "7ebeaf8bdf9fe7e05a356725107ce681df0a7ff6bc9f4cf212e2d700bcd1d7ee",
    "q5_k_s": "45c92ed3725bd265a2e14bf1bb68b1d9755003f72c144f9d424093386749642e",
    "q6_k": "e6dd8570e3af6ed3fe830f75ef8986c9f5206e633a696a6b49b026e6f2f370e2",
    "q4_0": "7b0a5c1dbcd0be06f9a532d8dcb7762862ab12bf615737337d487a5518b7c86d",
    "q8_0": "742b0127487026162066fde38ba46953ac7d0e715adc4a0ef7ef2325677833d9",
    "f16": "79fc2e081e64e55978b71741aa88244f45b52f904d83f60941951cb2c7e9f14e",
}


def _tiny(**more):
    return Recipe("qwen3.5-tiny", more.pop("mix", "q4_k_m"), VOCABULARY, **more)


@pytest.mark.parametrize("mix", MIXES)
def test_the_same_bytes_on_every_machine(tmp_path, mix):
    recipe, out = _tiny(mix=mix), tmp_path / "m.gguf"
    seen = []
    written = synthesise(recipe, out, progress=lambda done, total: seen.append((done, total)))
    data = out.read_bytes()
    assert written.sha256 == hashlib.sha256(data).hexdigest() == GOLDEN[mix]
    assert written.size_bytes == len(data) == planned_bytes(recipe)
    assert seen[-1] == (len(data), len(data))
    assert sorted(seen) == seen
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]
    assert out.stat().st_mode & 0o777 == 0o644


def test_seed_and_kappa_change_the_bytes_and_thread_count_does_not(tmp_path, monkeypatch):
    def digest(recipe):
        return synthesise(recipe, tmp_path / "m.gguf", replace=True).sha256

    base = digest(_tiny())
    assert len({base, digest(_tiny(seed=1)), digest(_tiny(kappa=0.5))}) == 3
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert digest(_tiny()) == base


def _matrix(recipe, kind):
    """Return the whole embedding or output matrix as float16 numbers, from the F16 mix (all mixes share its codes)."""
    words = words_of(recipe)
    tensor, fmt = next(pair for pair in recipe.tensors() if pair[0].kind is kind)
    data = b"".join(bytes(data_of(part, recipe, words)) for part in parts_of(tensor, fmt))
    return np.frombuffer(data, "<f2").astype(np.float32).reshape(tensor.rows, tensor.cols)


def test_one_cycle_through_plain_words_and_nothing_else_follows():
    recipe = _tiny(mix="f16")
    embedding, output = _matrix(recipe, Kind.EMBEDDING), _matrix(recipe, Kind.OUTPUT)
    assert float(np.sqrt((embedding**2).mean())) == pytest.approx(1.0, rel=0.01)
    following = np.empty(len(embedding), dtype=int)
    for at in range(0, len(embedding), 1024):
        logits = embedding[at : at + 1024] @ output.T  # what the model says where its layers say nothing
        rows, best = np.arange(len(logits)), logits.argmax(axis=1)
        following[at : at + 1024], top = best, logits[rows, best]
        logits[rows, best] = -np.inf
        assert (top - logits.max(axis=1)).min() > 8
    first, seen = int(following[0]), []
    while not seen or seen[-1] != first:
        seen.append(int(following[seen[-1] if seen else first]))
    words = [VOCABULARY.tokens[i].decode() for i in seen]
    assert len(set(seen)) == len(seen) == 11_025
    assert all(w[0] == "Ġ" and w[1:].isalpha() for w in words)
    assert set(following.tolist()) == set(seen)  # ends, bytes and padding lead into the cycle


def test_shapes_do_not_say_the_same_words():
    """So that two models of one run cannot be mistaken for each other by their answers."""
    recipes = [Recipe(f"qwen3.5-{s}", "q4_k_m", VOCABULARY) for s in ("0.8b", "2b")]
    left, right = (words_of(r).acts_as[:11_494] for r in recipes)
    assert (left == right).mean() < 0.01


def test_existing_files_folders_and_missing_folders(tmp_path):
    out = tmp_path / "m.gguf"
    out.write_bytes(b"precious")
    for place, said in ((out, "exists"), (tmp_path, "is a folder"), (tmp_path / "no" / "m.gguf", "is no folder")):
        with pytest.raises(UsageError, match=said) as caught:
            synthesise(_tiny(), place)
        assert caught.value.exit_status == 2
    assert out.read_bytes() == b"precious"
    synthesise(_tiny(), out, replace=True)
    assert out.read_bytes()[:4] == b"GGUF"


def test_room_is_computed_before_a_byte_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(UsageError, match="16,542,189,824 bytes") as caught:
        synthesise(Recipe("qwen3.5-27b", "q4_k_m", VOCABULARY), tmp_path / "m.gguf")
    assert "free 15,609,298,688 bytes" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_nothing_is_left_when_writing_breaks_off(tmp_path, broken):
    def stop(done, _total):
        if done > 2_000_000:
            raise broken

    with pytest.raises(broken):
        synthesise(_tiny(), tmp_path / "m.gguf", progress=stop)
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys, typer
from lqw.cli.synth import synth
from lqw.errors import LqwError
app = typer.Typer()
app.command()(synth)
try:
    sys.exit(app(standalone_mode=False))
except LqwError as err:
    print(err, file=sys.stderr)
    sys.exit(int(err.exit_status))
"""


def _command(*arguments, **more):
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, **pipes, **more)


def test_a_disk_that_fills_up_leaves_nothing(tmp_path):
    limit = 3_000_000
    process = _command(
        tmp_path / "m.gguf", "--shape", "qwen3.5-tiny", "--vocab", "made-up",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2, said
    assert "nothing is left" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing(tmp_path, number):
    process = _command(tmp_path / "m.gguf", "--shape", "qwen3.5-0.8b", "--vocab", "made-up")
    deadline = time.monotonic() + 30
    while not any(p.stat().st_size for p in tmp_path.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_one_line_of_facts(tmp_path):
    out = tmp_path / "m.gguf"
    process = _command(out, "--shape", "qwen3.5-tiny", "--vocab", "made-up", "--mix", "q4_0", "--seed", "0")
    said, progress = process.communicate(timeout=60)
    assert process.returncode == 0, progress
    assert said.startswith(f"{out}: 6083296 bytes, sha256 {GOLDEN['q4_0']}, 56 tensors, ")
    assert said.count("\n") == progress.count("\n") == 1
    assert "invented words" in progress


def test_no_vocabulary_says_what_to_supply(tmp_path):
    process = _command(tmp_path / "m.gguf", "--shape", "qwen3.5-tiny", env={"PATH": "/usr/bin"}, cwd=".")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "ggml-vocab-qwen35.gguf" in said
    assert "made-up" in said

"""The real ollama daemon: the arms' bytes proven, its whole tree gone afterwards, a model it cannot load named.

Skipped by name where ``LQW_OLLAMA`` names no binary; docs/operators-guide.md says how one was built.
"""

import os
import re
import subprocess

import pytest

from lqw.collect.requests import Asked
from lqw.collect.steps import Asker, run_step
from lqw.engines.base import Prompt, StartRequest
from lqw.engines.control import Control
from lqw.engines.llama_server import LlamaServer
from lqw.engines.models import resolve_model
from lqw.engines.ollama import Ollama
from lqw.engines.running import RunningEngine
from lqw.engines.starting import start_engine
from lqw.errors import UsageError
from lqw.host.supervise import note, tree
from lqw.outcomes import Reason
from lqw.params import EngineSpec, StepSpec, load_params
from lqw.samples import Failure
from lqw.testing.real_engines import program, provide
from tests.support.fake_params import REPOSITORY

pytestmark = pytest.mark.engine
WORDS = "the tall ship came home through warm rain over the cold hill road"


@pytest.fixture(scope="module")
def binary():
    if "LQW_OLLAMA" not in os.environ:
        pytest.skip("no ollama here: set LQW_OLLAMA")
    return os.environ["LQW_OLLAMA"]


def _request(binary, model, tmp_path):
    spec = EngineSpec(engine="ollama", binary=binary, settings={"threads": 1})
    return StartRequest(spec, model, 1, 256, "cpu", "ollama-test", tmp_path / "logs" / "ollama.log", 120.0)


def test_a_real_model_of_the_same_bytes(binary, tmp_path):
    params = load_params(REPOSITORY / "params" / "demo" / "1.1.0.yaml")
    spec = params.release.models[0]
    model = resolve_model(spec, base_folder=params.folder, cache_folder=tmp_path, file=params.path)
    running = start_engine(Ollama(), _request(binary, model, tmp_path))
    assert isinstance(running, RunningEngine), running
    with running:
        assert running.facts.settings["blobs"] == [spec.sha256]
        members = tree(running.pid)
        assert len(members) > 1  # the daemon and its runner
        step = StepSpec(kind="decode", prompt_tokens=8, output_tokens=16, repeats=1, warmups=0)
        ((sample,),) = run_step(_Words(running, None, 0, 60.0), step)
        assert running.stop() is None
    assert sample.ttft_ns > 0
    assert sample.failure is None or sample.failure.reason in (Reason.PROMPT_LENGTH, Reason.SHORT_OUTPUT)
    assert sample.timings.predicted_n == sum(sample.chunk_tokens)
    assert all(note(pid).name == "(gone)" for pid in members)


class _Words(Asker):
    """Asks in plain words: what a prompt's ids would be is another test's matter."""

    def asked(self, step, role, repeat, stream=0):
        return Asked(step.step_id, role, repeat, stream, tuple(range(8)), step.output_tokens, 0, WORDS)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    try:
        return provide(tmp_path_factory.mktemp("engines"))[2]
    except UsageError as err:
        pytest.skip(str(err))


def test_qwen35_of_the_same_bytes_gives_the_comparators_text_or_is_unsupported(binary, qwen, tmp_path):
    """0.17.4 does not load llama.cpp's GGUF of it; 0.18.0 does, counts the same prompt and says the same."""
    with start_engine(LlamaServer(), _llama(qwen, tmp_path)) as llama:
        ids = tuple(llama.tokenize(WORDS))
        wanted = llama.answer(Prompt(ids), 12, name="words").text
    running = start_engine(Ollama(), _request(binary, qwen, tmp_path))
    if isinstance(running, Failure):
        assert running.reason is Reason.UNSUPPORTED
        assert "unknown model architecture: 'qwen35'" in running.detail
        assert _version(binary) < (0, 18)
        return
    with running, Control(running.host, running.port, timeout_s=120.0) as control:
        asked = running.request_body("decode", Prompt((), WORDS), 12, cache=False, stream=False)
        said = control.post(asked.path, asked.body)
        assert (said["response"], said["prompt_eval_count"]) == (wanted, len(ids))


def _version(binary):
    """A build without its version's linker flag calls itself 0.0.0, and then counts as old."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, re.search(r"(\d+)\.(\d+)\.\d+", said.stdout + said.stderr).groups()))


def _llama(model, tmp_path):
    spec = EngineSpec(engine="llama_server", binary=str(program("llama-server", tmp_path)), settings={"threads": 1})
    return StartRequest(spec, model, 1, 256, "cpu", "ollama-test", tmp_path / "logs" / "llama.log", 120.0)


def test_a_model_it_cannot_load_is_unsupported_in_its_own_words(binary, qwen, tmp_path):
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(qwen.read_bytes().replace(b"qwen35", b"qwen99"))
    failure = start_engine(Ollama(), _request(binary, unknown, tmp_path))
    assert failure.reason is Reason.UNSUPPORTED
    assert "unknown model architecture: 'qwen99'" in failure.detail

"""The real apr against the real llama-server through the collect stage: same prompts, same tokens, every row measured.

Skipped by name where the binaries or the tokenizer are absent (see :mod:`lqw.testing.real_engines`).
"""

from pathlib import Path

import pytest

from lqw.collect.arms import timed_start
from lqw.collect.identity import identity_start
from lqw.collect.preflight import preflight
from lqw.collect.prompts import PromptSet, PromptStore
from lqw.engines.models import resolve_model
from lqw.errors import UsageError
from lqw.metrics.values import start_values
from lqw.outcomes import Arm, Purpose, Reason
from lqw.params import load_params
from lqw.plan import StartKey, build_plan
from lqw.testing.real_engines import provide
from tests.support.one_start import site_of

pytestmark = pytest.mark.engine

RELEASE = Path(__file__).parents[2] / "params" / "examples" / "apr-cpu-tiny.yaml"
MODEL = "synthetic-qwen3.5-tiny"


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    try:
        return provide(tmp_path_factory.mktemp("engines"))
    except UsageError as err:
        pytest.skip(str(err))


@pytest.fixture
def params(engines):
    """The committed example, its files found where this test has put them."""
    apr, llama, model = engines
    read = load_params(RELEASE)
    models = [read.release.models[0].model_copy(update={"gguf": str(model)})]
    subject = read.release.subject.model_copy(update={"binary": str(apr)})
    comparator = read.release.comparator.model_copy(update={"binary": str(llama)})
    release = read.release.model_copy(update={"models": models, "subject": subject, "comparator": comparator})
    return read.model_copy(update={"release": release})


@pytest.fixture
def site(params, tmp_path):
    preflight(params, Purpose.GATE)
    return site_of(params, tmp_path, "apr-test")


def test_a_pair(params, site):
    identity = identity_start(site, MODEL, 1)
    assert identity.failure is None
    assert len(identity.answers) == 2 * len(params.prompts)
    assert all(len(answer.ids) == 16 and answer.failure is None for answer in identity.answers)
    prompts = PromptStore(site.run_dir / "prompts.json").get(MODEL)  # as a resumed run would read them
    assert prompts.texts.keys() == prompts.ids.keys()
    plan = build_plan(params, Purpose.GATE)
    texts = {}
    for arm in Arm:
        record = timed_start(site, StartKey(MODEL, 1, arm, 0), 2, {})
        assert record.failure is None
        values = start_values(record, plan.rows, min_window_s=params.protocol.min_window_s)
        assert {str(row): one.failure for row, one in values.items()} == {str(row): None for row in plan.rows}
        texts[arm] = [request.text_sha256 for request in record.requests if request.want_tokens > 1]
        paths = {facts.step: facts.path for facts in record.steps}
        assert paths["agg@1"] == "/v1/chat/completions"  # by chat on both, the others by completion
        assert paths["decode"] in ("/completion", "/v1/completions")
        decoded = next(facts.unstreamed for facts in record.steps if facts.step == "decode")
        assert decoded.all_ns > decoded.one_ns > 0  # without a stream too, on both
    assert texts[Arm.SUBJECT] == texts[Arm.COMPARATOR]  # the same words from both engines


def _qwen99(known, folder):
    """The same file, its architecture's name an unknown one of the same length."""
    path = folder / "broken.gguf"
    path.write_bytes(known.read_bytes().replace(b"qwen35", b"qwen99"))
    return path


def _gemma3(_known, folder):
    """A real model, which llama-server serves and apr does not."""
    demo = load_params(RELEASE.parents[1] / "demo" / "1.1.0.yaml")
    return resolve_model(demo.release.models[0], base_folder=demo.folder, cache_folder=folder, file=demo.path)


@pytest.mark.parametrize(("make", "said"), [(_qwen99, "qwen99"), (_gemma3, "gemma3")])
def test_a_model_apr_refuses_is_a_failed_start_with_its_words(params, site, tmp_path, make, said):
    """Exit 6, and why, in the row itself."""
    site.models[MODEL] = make(site.models[MODEL], tmp_path)
    site.prompts.put(MODEL, PromptSet({}))
    record = timed_start(site, StartKey(MODEL, 1, Arm.SUBJECT, 0), 1, {})
    assert record.failure.reason is Reason.FAILED_START
    assert record.failure.detail.startswith("apr exited with status 6 before it was ready: error: Model load failed")
    assert said in record.failure.detail
    assert record.failure.log_tail

"""The real apr against the real llama-server through the collect stage: same prompts, same tokens, every row measured.

Skipped by name where the binaries or the tokenizer are absent (see :mod:`lqw.testing.real_engines`).
"""

from pathlib import Path

import pytest

from lqw.collect.arms import timed_start
from lqw.collect.identity import identity_start
from lqw.collect.preflight import preflight
from lqw.collect.prompts import PromptSet, PromptStore
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


def test_a_model_apr_refuses_is_a_failed_start_with_its_words(params, site, tmp_path):
    """A GGUF of an architecture that it does not know."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(site.models[MODEL].read_bytes().replace(b"qwen35", b"qwen99"))
    site.models[MODEL] = broken
    site.prompts.put(MODEL, PromptSet({}))
    record = timed_start(site, StartKey(MODEL, 1, Arm.SUBJECT, 0), 1, {})
    assert record.failure.reason is Reason.FAILED_START
    assert record.failure.log_tail

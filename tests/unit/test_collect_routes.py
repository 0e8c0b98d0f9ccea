"""Steps by chat: declared, equal on both arms, sized template and all; and what is looked at after each step."""

import pytest
import yaml

from lqw.canonical import sha256_json
from lqw.collect.arms import timed_start
from lqw.collect.identity import identity_start
from lqw.collect.preflight import preflight
from lqw.correctness.timed import judge_timed
from lqw.engines.registry import get_engine
from lqw.errors import ParamsError
from lqw.metrics.values import start_values
from lqw.outcomes import Arm, Purpose, Reason
from lqw.params import load_params
from lqw.plan import StartKey, build_plan
from tests.support.fake_params import ENVIRONMENT, write_params
from tests.support.one_start import site_of

ROWS = ("ttft@512", "prefill@512", "decode", "agg@2")


@pytest.fixture(autouse=True)
def _fake(monkeypatch):
    monkeypatch.setenv(*next(iter(ENVIRONMENT.items())))


@pytest.fixture
def written(tmp_path):
    """A release of which two streams together are asked by chat."""
    file = write_params(tmp_path, releases={"1.0.0": {}}, rows=ROWS, streams=2) / "1.0.0.yaml"
    place = tmp_path / "params" / "protocols" / "fake.yaml"
    protocol = yaml.safe_load(place.read_text())
    protocol["launches"][0]["steps"][-1] |= {"route": "chat", "prompt_tokens": 40}
    place.write_text(yaml.safe_dump(protocol))
    return file


@pytest.fixture
def params(written):
    return load_params(written)


def test_a_chat_is_as_long_as_planned_on_both_arms_and_its_twin_answers_as_it_does(params, tmp_path):
    site, rows = site_of(params, tmp_path, "chat-test"), build_plan(params, Purpose.GATE).rows
    identity = identity_start(site, "tiny", 0)
    assert identity.failure is None, identity.failure
    assert {answer.shape for answer in identity.answers} == {"single", "agg@2"}
    records = []
    for number, arm in enumerate(Arm):
        record = timed_start(site, StartKey("tiny", 1, arm, 0), number + 1, {})
        assert record.failure is None, record.failure
        found = start_values(record, rows, min_window_s=0.01)
        assert {str(row): one.failure for row, one in found.items()} == dict.fromkeys(map(str, rows))
        assert {facts.step: facts.path for facts in record.steps} == {
            "cold@512": "/completion", "decode": "/completion", "agg@2": "/v1/chat/completions",
        }  # fmt: skip
        assert {facts.used_gpu for facts in record.steps} == {None}  # a processor
        records.append(record)
    chats = [[one for one in record.requests if one.step == "agg@2"] for record in records]
    assert [one.prompt_sha256 for one in chats[0]] == [one.prompt_sha256 for one in chats[1]]
    assert all(one.prompt_tokens == 40 for arm in chats for one in arm)
    twins = [check for check in judge_timed(records, rows, [identity]).checks if "untimed one by" in check.detail]
    assert any("agg@2" in str(check) for check in twins)


def test_a_route_that_one_arm_has_not_is_refused_before_anything_starts(written, monkeypatch):
    fake = type(get_engine("fake"))
    monkeypatch.setattr(fake, "routes", ("completion",))
    with pytest.raises(ParamsError, match="both arms take one route") as refused:
        preflight(load_params(written), Purpose.GATE)
    assert (refused.value.field, refused.value.value) == ("launches.0.steps.2.route", "chat")


def test_a_cached_step_has_no_chat(written):
    place = written.parents[1] / "protocols" / "fake.yaml"
    protocol = yaml.safe_load(place.read_text())
    protocol["launches"][0]["steps"].append({"kind": "cached", "prompt_tokens": 64, "repeats": 1, "route": "chat"})
    place.write_text(yaml.safe_dump(protocol))
    with pytest.raises(ParamsError, match="prefix of a longer one"):
        load_params(written)


def test_a_protocol_without_routes_keeps_the_hash_it_had(params):
    """Receipts and floors of before are of the same protocol."""
    launch = params.protocol.launches[0]
    assert "route" not in launch.steps[0].model_dump(mode="json")
    assert launch.model_dump(mode="json")["steps"][2]["route"] == "chat"
    plain = launch.steps[0].model_copy(update={"route": "chat"})
    assert sha256_json(plain.model_dump(mode="json")) != sha256_json(launch.steps[0].model_dump(mode="json"))


def test_an_arm_of_text_without_the_other_that_cuts_it_is_told_so(params, tmp_path, monkeypatch):
    """The comparator never became ready: nobody has made the prompts, and this is not the subject's fault."""
    monkeypatch.setattr("lqw.testing.fake_adapter.Fake.takes", "text")
    record = timed_start(site_of(params, tmp_path, "chat-test"), StartKey("tiny", 1, Arm.SUBJECT, 0), 1, {})
    assert record.failure.reason is Reason.MISSING_REQUESTS
    assert record.failure.detail == "nothing to ask: fake takes text, and the other arm, which cuts it, never started"

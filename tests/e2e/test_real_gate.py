"""The whole gate on the real llama.cpp and the real model, in miniature: floor, healthy release, one-token prefill."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.command import lqw

ROOT = Path(__file__).parents[2]
ROWS = ["ttft@64", "prefill@64", "decode", "rss_peak"]

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(420)]


def _lqw(world, *arguments):
    return lqw(world, *arguments, timeout_s=400, PYTHONOPTIMIZE="1")  # which must not matter anywhere in the chain


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Return a folder with the demo's params, a shorter protocol, and the adopted floor of 1.0.0.

    One thread an engine: two that wait for each other on two cores make of any other work on the machine a noise in
    which a fourfold TTFT is not yet RED.
    """
    place = tmp_path_factory.mktemp("real")
    shutil.copytree(ROOT / "params", place / "params")
    protocol_file = place / "params/protocols/demo.yaml"
    protocol = yaml.safe_load(protocol_file.read_text())
    steps = [
        {"kind": "cold", "prompt_tokens": 64, "repeats": 3, "warmups": 1},
        {"kind": "decode", "prompt_tokens": 16, "output_tokens": 18, "repeats": 1, "warmups": 0},
    ]
    protocol |= {"rows": ROWS, "launches": [{"slots": 1, "steps": steps}]}
    protocol["identity"]["output_tokens"] = 8
    protocol_file.write_text(yaml.safe_dump(protocol))
    for release_file in (place / "params/demo").glob("*.yaml"):
        release = yaml.safe_load(release_file.read_text())
        for arm in ("subject", "comparator"):
            release[arm]["settings"]["threads"] = 1
        release_file.write_text(yaml.safe_dump(release))
    status, said = _lqw(place, "baseline", "adopt", "params/demo/1.0.0.yaml", "--store", "store", "--run", "runs/floor")
    assert status == 0, said
    assert "rows: planned 4, measured 4, gating 0, void 0, failed 0" in said
    return place


def _gate(world, release):
    run = world / "runs" / release
    status, said = _lqw(world, "gate", f"params/demo/{release}.yaml", "--store", "store", "--run", run)
    return status, said, json.loads((run / "receipt.json").read_text())["judgement"], run


def test_one_token_prefill_goes_red_on_the_rows_it_slows(world):
    status, said, judgement, run = _gate(world, "1.2.0-one-token-prefill")
    assert status == 1, said
    red = {row["row"].partition("/")[2] for row in judgement["rows"] if row["verdict"] == "RED"}
    assert red == {"ttft@64", "prefill@64"}
    for row in judgement["rows"]:
        if row["verdict"] == "RED":
            assert row["row"].partition("/")[2] in said
    assert "RED" in (run / "report.html").read_text()
    assert _lqw(world, "verify", run / "receipt.json")[0] == 1


def test_an_equal_release_passes_and_a_sample_changed_by_one_percent_is_invalid(world):
    status, said, judgement, run = _gate(world, "1.1.0")
    assert status == 0, said
    assert judgement["counts"]["gating"] == len(ROWS)
    assert _lqw(world, "verify", run / "receipt.json")[0] == 0
    receipt = json.loads((run / "receipt.json").read_text())
    request = next(r for start in receipt["starts"] for r in start["requests"] if r["role"] == "timed")
    request["ttft_ns"] = int(request["ttft_ns"] * 1.01)
    edited = world / "edited.json"
    edited.write_text(json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    assert _lqw(world, "verify", edited)[0] == 4


def test_nothing_of_the_engines_is_left(world):
    left = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and str(world).encode() in _command_line(entry)
    ]
    assert left == []


def _command_line(entry):
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""

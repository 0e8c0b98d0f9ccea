"""`lqw gate params/examples/apr-cpu-tiny.yaml`, whole: the real apr against the real llama-server, from floor to page.

Skipped by name where the binaries or the tokenizer are absent (see :mod:`lqw.testing.real_engines`).
"""

import json
import shutil
from pathlib import Path

import pytest

from lqw.errors import UsageError
from lqw.testing.real_engines import provide
from tests.support.command import lqw

ROOT = Path(__file__).parents[2]
MODEL = "synthetic-qwen3.5-tiny"

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(900)]


def _lqw(place, *arguments):
    return lqw(place, *arguments, timeout_s=800)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder as ``make engines`` leaves a checkout; its store holds the tokens of the floor's run and no floor.

    So the gate decides at its first look, whatever else this machine does.
    """
    place = tmp_path_factory.mktemp("apr-gate")
    try:
        provide(place / "runs" / "engines")
    except UsageError as err:
        pytest.skip(str(err))
    shutil.copytree(ROOT / "params", place / "params")
    floor = ("params/examples/apr-cpu-tiny-floor.yaml", "--store", "floors", "--run", "runs/floor")
    status, said = _lqw(place, "baseline", "adopt", *floor)
    assert status in (0, 3), said  # 3: too loud for a floor, as a shared machine may be
    assert "measured 6, gating 0, void 0, failed 0" in said
    status, said = _lqw(place, "reference", "adopt", "runs/floor", "--store", "store")
    assert status == 0, said
    return place


def test_the_whole_gate_measures_every_row_and_says_how_prefill_compares_with_decode(world):
    status, said = _lqw(world, "gate", "params/examples/apr-cpu-tiny.yaml", "--store", "store", "--run", "runs/gate")
    assert status == 3, said
    assert "no floor in this epoch" in said
    receipt = json.loads((world / "runs/gate/receipt.json").read_text())
    rows = {row["row"]: (row["verdict"], row["reason"]) for row in receipt["judgement"]["rows"]}
    assert len(rows) == 6
    assert set(rows.values()) == {("MISSING_FLOOR", None)}  # the same tokens as the floor's run, nothing void
    (found,) = [one for one in receipt["judgement"]["guards"] if one["guard"] == "one_token_prefill"]
    # On a processor apr prefills one token at a time. By its dear stream decoding is half as fast as that: without, as fast.
    assert found["effect"] == "flag"  # the host only reports it
    assert "tok/s without a stream); one token per step looks like this" in found["text"]
    assert found["subject"] == f"{MODEL}/prefill@512"
    assert 0.3 < found["numbers"]["factor"] < 2
    assert found["text"].startswith("prefill@512: prefill ")
    assert found["text"] in (world / "runs/gate/report.html").read_text()
    assert _lqw(world, "verify", "runs/gate/receipt.json")[0] == 3


def test_nothing_of_the_engines_is_left(world):
    left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if str(world).encode() in _read(path)]
    assert left == []


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""

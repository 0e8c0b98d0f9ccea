"""``lqw gate`` with a third arm: what went RED is measured beside the release that set its floor."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from lqw.canonical import sha256_file
from lqw.journal import read_journal
from lqw.outcomes import BatchArm
from lqw.receipt import verify_receipt
from lqw.testing.fake_adapter import PACE
from tests.support import command
from tests.support.fake_params import ENVIRONMENT, SPEED, write_params

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]  # nine chains of the fake engine; the parts are tested in tests/unit/test_verdict_confirm.py

BUILDS = {"1.0.0": {}, "1.1.0": {"prefill_tok_s": 1500.0}, "1.2.0": {}}
"""1.1.0 is a slow engine; 1.2.0 is the old one built again, for a machine that has moved."""


def lqw(world, *arguments, pace=1.0):
    return command.lqw(world, *arguments, timeout_s=900, **ENVIRONMENT, **{PACE: str(pace)})


def _build(world, release):
    """A file that stands for a build; every release has bytes of its own."""
    path = world / "builds" / release
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/false\n# engine {release}\n")
    path.chmod(0o755)
    return {"engine": "fake", "binary": f"builds/{release}", "sha256": sha256_file(path)}


def _name_earlier(world, releases):
    (world / "params/earlier").mkdir(exist_ok=True)
    spec = {"schema": "lqw-earlier/1", "releases": releases}
    (world / "params/earlier/fake.yaml").write_text(yaml.safe_dump(spec))


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    world = tmp_path_factory.mktemp("world")
    folder = write_params(world, releases=BUILDS, looks=(3,), floor_pairs=6)
    for release, settings in BUILDS.items():
        spec = yaml.safe_load((folder / f"{release}.yaml").read_text())
        spec["subject"] = {**_build(world, release), "settings": {**SPEED, **settings}}
        (folder / f"{release}.yaml").write_text(yaml.safe_dump(spec))
    status, said = lqw(world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--run", "runs/floor")
    assert status == 0, said
    return world


@pytest.fixture
def world(floor, tmp_path):
    for name in ("params", "receipts", "builds"):
        shutil.copytree(floor / name, tmp_path / name)
    return tmp_path


def _old(world):
    return {"1.0.0": {**_build(world, "1.0.0"), "settings": SPEED}}


def _rows(path):
    return {row["row"]: row for row in json.loads(path.read_text())["judgement"]["rows"]}


def _killed_in_the_batch(world, starts):
    """Start a gate of 1.1.0 and kill it with its kernel once the batch has *starts* starts."""
    gate = subprocess.Popen(
        [*command.LQW, "gate", "params/fake/1.1.0.yaml", "--run", "runs/r"],
        cwd=world,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    journal, end = world / "runs/r/samples.jsonl", time.monotonic() + 600
    while time.monotonic() < end and gate.poll() is None:
        if journal.is_file() and journal.read_bytes().count(b'"kind":"batch_start"') >= starts:
            break
        time.sleep(0.02)
    gate.send_signal(signal.SIGKILL)
    said = gate.communicate()[0]
    assert gate.returncode == -signal.SIGKILL, said
    return read_journal(journal)


def test_a_slow_engine_is_confirmed_also_when_killed_in_the_batch_and_is_not_measured_again(world):
    _name_earlier(world, _old(world))
    before = _killed_in_the_batch(world, starts=4)
    # somebody who does not like the batch and starts a new run is refused before anything is started
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "runs/again")
    assert (status, "confirmation batch" in said, before.header.run_id in said) == (2, True, True), said
    assert not (world / "runs/again").exists()
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--resume", "runs/r")
    assert status == 1, said
    assert "CONFIRMED in 7 tuples" in said
    assert "UNCONFIRMED" not in said
    journal = read_journal(world / "runs/r/samples.jsonl")
    assert journal.starts == before.starts
    assert journal.batch.starts[: len(before.batch.starts)] == before.batch.starts
    assert journal.batch.declared == before.batch.declared
    assert [one.arm for one in journal.batch.starts].count(BatchArm.EARLIER) == 7
    assert len(journal.batch.starts) == 21
    row = _rows(world / "receipts/fake/1.1.0.json")["tiny/prefill@512"]
    assert (row["verdict"], row["confirmed"], row["confirmation"]["release"]) == ("RED", True, "1.0.0")
    assert row["confirmation"]["earlier_ratio"] == pytest.approx(1.0, abs=0.3)
    assert row["confirmation"]["difference"] == pytest.approx(0.4, abs=0.15)
    assert verify_receipt(world / "receipts/fake/1.1.0.json").problems == ()
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "runs/again")
    assert (status, "until it is green" in said) == (2, True), said
    assert not (world / "runs/again").exists()


def test_a_machine_that_moved_is_shift_once_the_old_build_is_named(world):
    """First without the old build: RED-UNCONFIRMED says what to supply; then the same run goes on with it."""
    before = (world / "receipts/fake/baseline.json").read_bytes()
    status, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--run", "runs/r", pace=0.4)
    assert status == 1, said
    assert "RED-UNCONFIRMED: no third arm was measured; name the binary" in said
    assert "name the engine of 1.0.0 (binary and sha256) in params/earlier/fake.yaml" in said
    kept = read_journal(world / "runs/r/samples.jsonl")
    _name_earlier(world, _old(world))
    status, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--resume", "runs/r", pace=0.4)
    assert status == 3, said
    assert "SHIFT" in said
    assert "NOT CONFIRMED" in said
    assert read_journal(world / "runs/r/samples.jsonl").starts == kept.starts
    second = world / "receipts/fake/1.2.0.attempt2.json"
    assert {row["verdict"] for row in _rows(second).values()} == {"SHIFT"}
    assert verify_receipt(second).problems == ()
    assert (world / "receipts/fake/baseline.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said_of_it"),
    [
        ({"binary": "builds/absent"}, "no such file"),
        ({"sha256": "0" * 64}, "pinned is 0000"),
        ({"sha256": None}, "needs its sha256"),
        ({"settings": {**SPEED, "ubatch": 1}}, "is not what set the floor"),
    ],
)
def test_an_old_build_that_is_not_the_one_is_refused_before_anything_starts(world, change, said_of_it):
    spec = {**_old(world)["1.0.0"], **change}
    _name_earlier(world, {"1.0.0": {name: value for name, value in spec.items() if value is not None}})
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "runs/r")
    assert (status, said_of_it in said, "remedy:" in said) == (2, True, True), said
    assert "earlier/fake.yaml" in said
    assert not (world / "runs").exists()

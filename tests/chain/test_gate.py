"""``lqw gate`` from end to end with the fake engine: every exit status, and what a run leaves in the store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lqw.journal import read_journal
from tests.support.command import lqw
from tests.support.fake_params import ENVIRONMENT


def _bytes(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_adopt_leaves_receipt_floor_tokens_and_report(floor):
    assert {p.name for p in (floor / "receipts" / "fake").iterdir()} == {
        "1.0.0.json",
        "baseline.json",
        "reference.json",
    }
    assert {"report.html", "summary.md", "junit.xml", "receipt.json"} <= {
        p.name for p in (floor / "runs/floor").iterdir()
    }
    (identity,) = read_journal(floor / "runs/floor/samples.jsonl").identities
    assert [twin.step for twin in identity.twins] == ["decode", "agg@2", "agg@2"], "what is timed is asked untimed too"
    status, said = lqw(floor, "baseline", "show", "fake", "--store", "receipts", **ENVIRONMENT)
    assert (status, "tiny/ttft@512" in said) == (0, True)


def test_a_one_token_prefill_is_red_by_name_and_by_hand_and_is_not_repeated(world):
    before = _bytes(world / "receipts/fake")
    status, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--run", "runs/r", **ENVIRONMENT)
    assert status == 1, said
    assert "ttft@512 of tiny takes" in said
    assert "prefill@512 of tiny is" in said
    after = _bytes(world / "receipts/fake")
    assert {name: after[name] for name in before} == before  # RED moves nothing
    assert set(after) - set(before) == {"1.2.0.json"}
    by_hand = subprocess.run(
        [
            *(sys.executable, "-m", "papermill", "notebooks/40_verdict.ipynb", str(world / "out.ipynb")),
            *("-p", "run_dir", str(world / "runs/r"), "--no-progress-bar"),
        ],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **ENVIRONMENT, "PYTHONOPTIMIZE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert by_hand.returncode != 0
    assert "RatchetRed" in by_hand.stderr
    again, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--run", "runs/again", **ENVIRONMENT)
    assert (again, "not measured again until it is green" in said) == (2, True)


def test_an_engine_that_does_not_start_is_three_named_failed_rows(world):
    status, said = lqw(world, "gate", "params/fake/1.3.0.yaml", "--run", "runs/r", **ENVIRONMENT)
    assert status == 3, said
    assert "FAILED_START" in said
    assert "measured 0" in said
    assert "INCOMPLETE" not in (world / "runs/r/report.html").read_text()


def test_one_token_over_and_over_at_two_streams_alone_voids_the_rows_and_blocks(world):
    status, said = lqw(world, "gate", "params/fake/1.5.0.yaml", "--run", "runs/r", **ENVIRONMENT)
    assert (status, "VOID_" in said) == (3, True), said
    checks = json.loads((world / "runs/r/correctness.json").read_text())["correctness"]["checks"]
    bad = {(check["kind"], check["shape"], check["reason"]) for check in checks if check["state"] == "void"}
    assert ("constant_run", "agg@2", "VOID_GARBAGE") in bad
    assert {shape for _, shape, _ in bad} == {"agg@2"}, "a single stream answers rightly, timed or not"
    assert any("agg@2 repeat 0 stream" in check["detail"] and "times in a row" in check["detail"] for check in checks)
    assert read_journal(world / "runs/r/samples.jsonl").starts, "the numbers are kept"
    row = json.loads((world / "receipts/fake/baseline.json").read_text())["epochs"][0]["rows"]["tiny/ttft@512"]
    assert (row["floor"]["release"], row["last"], row["history"]) == ("1.0.0", None, []), "void rows move nothing"


@pytest.mark.parametrize(
    ("file", "old", "new", "field"),
    [
        ("fake/1.1.0.yaml", "release: 1.1.0", "release: 1.1.0\nunknown: 1", "unknown"),
        ("fake/1.1.0.yaml", "seed: 1", "seed: one", "seed"),
        ("fake/1.1.0.yaml", "seed: 1", "seed: 2020-99-99", "month must be"),
        ("fake/1.1.0.yaml", "seed: 1", f"seed: {'9' * 5_000}", "digits"),
        ("fake/1.1.0.yaml", "model.gguf", "a" * 5_000, "gguf"),
        ("fake/1.1.0.yaml", "engine: fake", "engine: fake\n  env: {'A=B': x}", "env"),
        ("protocols/fake.yaml", "total_deadline_s: 120.0", "total_deadline_s: 1.0e+300", "total_deadline_s"),
        ("fake/1.1.0.yaml", "engine: fake", "engine: nope", "engine"),
        ("fake/1.1.0.yaml", "model.gguf", "absent.gguf", "gguf"),
        ("protocols/fake.yaml", "floor_pairs: 6", "floor_pairs: 0", "floor_pairs"),
    ],
)
def test_bad_parameters_end_in_2_name_the_field_and_leave_nothing(world, file, old, new, field):
    path = world / "params" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    before = _bytes(world)
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", **ENVIRONMENT)
    assert (status, field in said, "remedy:" in said, "Traceback" in said) == (2, True, True, False), said
    assert _bytes(world) == before


def test_a_module_that_adds_no_engine_ends_in_2(world):
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", LQW_ENGINE_MODULES="nope.nope")
    assert (status, "LQW_ENGINE_MODULES" in said, "remedy:" in said) == (2, True, True), said


def test_a_file_that_is_no_gguf_and_an_unwritable_run_folder_end_in_2(world):
    (world / "file").write_text("")
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "file/run", **ENVIRONMENT)
    assert (status, "--run" in said) == (2, True), said
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--store", "file/store", **ENVIRONMENT)
    assert (status, "--store" in said) == (2, True), said
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--store", "/proc/store", **ENVIRONMENT)
    assert (status, "--store" in said) == (2, True), said  # where even root may make no file
    (world / "params/fake/model.gguf").write_bytes(b"PK" * 32)
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", **ENVIRONMENT)
    assert (status, "gguf" in said.lower()) == (2, True), said


def test_a_second_gate_on_the_machine_ends_in_75_and_measures_nothing(world, tmp_path):
    lock = tmp_path / "gpu.lock"
    host = world / "params/hosts/fake.yaml"
    host.write_text(host.read_text() + f"lock: {lock}\n")
    takes = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", takes, lock], stdout=subprocess.PIPE)
    holder.stdout.readline()
    try:
        status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "runs/second", **ENVIRONMENT)
    finally:
        holder.kill()
        holder.communicate()
    assert (status, f"lock {lock} is held by" in said) == (75, True), said
    assert not (world / "runs/second/samples.jsonl").exists()

"""``lqw gate`` from end to end with the fake engine: every exit status, every way to die, and what is left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lqw.journal import read_journal
from tests.support.fake_params import ENVIRONMENT, write_params

LQW = [sys.executable, "-c", "from lqw.cli.app import main; main()"]
RELEASES = {
    "1.0.0": {},
    "1.1.0": {},
    "1.2.0": {"ubatch": 1},
    "1.3.0": {"fault": "exit_at_once"},
    "1.5.0": {"fault": "garbage_parallel"},
}


def lqw(world, *arguments, **more):
    done = subprocess.run(
        [*LQW, *map(str, arguments)],
        cwd=world,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    """A params folder and a store in which 1.0.0 has set the floor."""
    world = tmp_path_factory.mktemp("world")
    write_params(world, releases=RELEASES, streams=2)
    status, said = lqw(world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--run", "runs/floor")
    assert status == 0, said
    return world


@pytest.fixture
def world(floor, tmp_path):
    """A copy of it for one test."""
    shutil.copytree(floor / "params", tmp_path / "params")
    shutil.copytree(floor / "receipts", tmp_path / "receipts")
    return tmp_path


def _bytes(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _engines(run_id):
    """Pids of everything that carries a run's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("LQW_RUN_ID", "")
        except (psutil.Error, OSError):
            continue
        if mark == run_id and process.status() != psutil.STATUS_ZOMBIE:
            found.append((process.pid, process.cmdline()))
    return found


def test_adopt_leaves_receipt_floor_tokens_and_report(floor):
    assert {p.name for p in (floor / "receipts" / "fake").iterdir()} == {
        "1.0.0.json",
        "baseline.json",
        "reference.json",
    }
    assert {"report.html", "summary.md", "junit.xml", "receipt.json"} <= {
        p.name for p in (floor / "runs/floor").iterdir()
    }
    status, said = lqw(floor, "baseline", "show", "fake", "--store", "receipts")
    assert (status, "tiny/ttft@512" in said) == (0, True)


def test_a_one_token_prefill_is_red_by_name_and_by_hand_and_is_not_repeated(world):
    before = _bytes(world / "receipts/fake")
    status, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--run", "runs/r")
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
    again, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--run", "runs/again")
    assert (again, "not measured again until it is green" in said) == (2, True)


def test_an_engine_that_does_not_start_is_three_named_failed_rows(world):
    status, said = lqw(world, "gate", "params/fake/1.3.0.yaml", "--run", "runs/r")
    assert status == 3, said
    assert "FAILED_START" in said
    assert "measured 0" in said
    assert "INCOMPLETE" not in (world / "runs/r/report.html").read_text()


def test_one_token_over_and_over_at_two_streams_alone_voids_the_rows_and_blocks(world):
    status, said = lqw(world, "gate", "params/fake/1.5.0.yaml", "--run", "runs/r")
    assert (status, "VOID_GARBAGE" in said) == (3, True), said
    checks = json.loads((world / "runs/r/correctness.json").read_text())["correctness"]["checks"]
    bad = {(check["kind"], check["shape"]) for check in checks if check["state"] == "void"}
    assert bad == {("constant_run", "agg@2")}, "a single stream answers rightly, timed or not"
    assert any("agg@2 repeat 0 stream" in check["detail"] and "times in a row" in check["detail"] for check in checks)
    assert read_journal(world / "runs/r/samples.jsonl").starts, "the numbers are kept"
    row = json.loads((world / "receipts/fake/baseline.json").read_text())["epochs"][0]["rows"]["tiny/ttft@512"]
    assert (row["floor"]["release"], row["last"], row["history"]) == ("1.0.0", None, []), "void rows move nothing"


@pytest.mark.parametrize(
    ("file", "old", "new", "field"),
    [
        ("fake/1.1.0.yaml", "release: 1.1.0", "release: 1.1.0\nunknown: 1", "unknown"),
        ("fake/1.1.0.yaml", "seed: 1", "seed: one", "seed"),
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
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml")
    assert (status, field in said, "remedy:" in said) == (2, True, True), said
    assert _bytes(world) == before


def test_a_file_that_is_no_gguf_and_an_unwritable_run_folder_end_in_2(world):
    (world / "file").write_text("")
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--run", "file/run")
    assert (status, "--run" in said) == (2, True), said
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--store", "file/store")
    assert (status, "--store" in said) == (2, True), said
    (world / "params/fake/model.gguf").write_bytes(b"PK" * 32)
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml")
    assert (status, "gguf" in said.lower()) == (2, True), said


class Started:
    """A gate in a process of its own, stopped in the middle of its measurement."""

    def __init__(self, world, starts=2):
        self.run = world / "runs/r"
        self.process = subprocess.Popen(
            [*LQW, "gate", "params/fake/1.1.0.yaml", "--run", "runs/r"],
            cwd=world,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        journal, end = self.run / "samples.jsonl", time.monotonic() + 40
        while time.monotonic() < end and self.process.poll() is None:
            if journal.is_file() and journal.read_bytes().count(b'"kind":"start"') >= starts:
                break
            time.sleep(0.02)
        self.run_id = json.loads((self.run / "run.json").read_text())["run_id"]
        self.living = _engines(self.run_id)

    def kernel(self):
        return next(pid for pid, command in self.living if "lqw.pipeline.kernel" in command)


def _wait_gone(run_id, within_s=8.0):
    end = time.monotonic() + within_s
    while time.monotonic() < end and _engines(run_id):
        time.sleep(0.05)
    return _engines(run_id)


def test_ctrl_c_is_130_incomplete_and_leaves_no_process(world):
    gate = Started(world)
    assert gate.living != []
    gate.process.send_signal(signal.SIGINT)
    said, _ = gate.process.communicate(timeout=30)
    assert gate.process.returncode == 130, said
    assert _wait_gone(gate.run_id) == []
    assert "INCOMPLETE" in (gate.run / "report.html").read_text()
    assert not (gate.run / "receipt.json").exists()


def test_a_killed_kernel_is_70_incomplete_and_leaves_no_process(world):
    gate = Started(world)
    os.kill(gate.kernel(), signal.SIGKILL)
    said, _ = gate.process.communicate(timeout=30)
    assert gate.process.returncode == 70, said
    assert _wait_gone(gate.run_id) == []
    assert "INCOMPLETE" in (gate.run / "report.html").read_text()


def test_kill_9_of_the_gate_leaves_no_process_and_the_run_resumes_to_its_pass(world):
    gate = Started(world)
    gate.process.kill()
    gate.process.communicate()
    assert _wait_gone(gate.run_id) == []
    kept = read_journal(gate.run / "samples.jsonl").starts
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--resume", "runs/r")
    assert status == 0, said
    assert "rows: planned 3, measured 3, gating 3, void 0, failed 0" in said
    assert _engines(gate.run_id) == []
    row = json.loads((world / "receipts/fake/baseline.json").read_text())["epochs"][0]["rows"]["tiny/ttft@512"]
    assert (row["floor"]["release"], row["last"]["release"]) == ("1.0.0", "1.1.0"), "PASS moves last, not the floor"
    journal = read_journal(gate.run / "samples.jsonl")
    assert journal.starts[: len(kept)] == kept
    assert len({(s.pair, s.arm) for s in journal.starts}) == len(journal.starts) == 6
    assert len(json.loads((gate.run / "receipt.json").read_text())["run"]["resumed"]) == 1
    other, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--resume", "runs/r")
    assert (other, "other parameters" in said) == (2, True), said

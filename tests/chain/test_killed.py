"""``lqw gate`` interrupted, its kernel killed, itself killed: the named end, nothing left running, nothing lost."""

import json
import os
import shutil
import signal
import subprocess
import time

import psutil

from lqw.journal import read_journal
from tests.support.command import LQW, lqw
from tests.support.fake_params import ENVIRONMENT


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
    before = (world / "receipts/fake/baseline.json").read_bytes()
    status, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--resume", "runs/r", **ENVIRONMENT)
    assert status == 0, said
    assert "rows: planned 3, measured 3, gating 3, void 0, failed 0" in said
    assert _engines(gate.run_id) == []
    row = json.loads((world / "receipts/fake/baseline.json").read_text())["epochs"][0]["rows"]["tiny/ttft@512"]
    assert (row["floor"]["release"], row["last"]["release"]) == ("1.0.0", "1.1.0"), "PASS moves last, not the floor"
    journal = read_journal(gate.run / "samples.jsonl")
    assert journal.starts[: len(kept)] == kept
    assert len({(s.pair, s.arm) for s in journal.starts}) == len(journal.starts) == 6
    assert len(json.loads((gate.run / "receipt.json").read_text())["run"]["resumed"]) == 1
    store = world / "receipts/fake"
    stored = {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()}
    again, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--resume", "runs/r", **ENVIRONMENT)
    assert (again, "this run had ended" in said) == (0, True), said
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()} == stored, "one run counts once"
    (store / "baseline.json").write_bytes(before)  # as if killed after the receipt was stored
    again, said = lqw(world, "gate", "params/fake/1.1.0.yaml", "--resume", "runs/r", **ENVIRONMENT)
    assert (again, "moved" in said) == (0, True), said
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()} == stored
    other, said = lqw(world, "gate", "params/fake/1.2.0.yaml", "--resume", "runs/r", **ENVIRONMENT)
    assert (other, "other parameters" in said) == (2, True), said


def test_a_floor_whose_tokens_were_not_stored_yet_gets_them_by_resuming(world, floor):
    shutil.copytree(floor / "runs/floor", world / "runs/floor")
    info = world / "runs/floor/run.json"
    info.write_text(info.read_text().replace(str(floor), str(world)))
    stored = (world / "receipts/fake/reference.json").read_bytes()
    (world / "receipts/fake/reference.json").unlink()
    status, said = lqw(world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--resume", "runs/floor", **ENVIRONMENT)
    assert (status, "token reference: tiny" in said) == (0, True), said
    assert (world / "receipts/fake/reference.json").read_bytes() == stored
    assert not (world / "receipts/fake/1.0.0.attempt2.json").exists()

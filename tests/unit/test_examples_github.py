"""The workflows under examples/github: linted, and their steps run on a scratch repository with real tags."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.scratch import ENVIRONMENT, REPOSITORY, Scratch

EXAMPLES = REPOSITORY / "examples" / "github"
WORKFLOWS = sorted(EXAMPLES.glob("*.yml"))
ACTIONLINT = shutil.which("actionlint") or shutil.which("actionlint", path=str(Path.home() / "go" / "bin"))


def steps_of(name):
    """Return step name → script of a workflow."""
    body = yaml.safe_load((EXAMPLES / name).read_text())
    return {step["name"]: step["run"] for job in body["jobs"].values() for step in job["steps"] if "run" in step}


@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed; .ci/run installs it where there is Go")
def test_actionlint_finds_nothing():
    command = [ACTIONLINT, "-config-file", str(EXAMPLES / "actionlint.yaml"), *map(str, WORKFLOWS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_swallows_an_exit_code_and_nothing_is_pasted_into_a_script(path):
    text = path.read_text()
    assert "continue-on-error" not in text
    assert not re.search(r"\|\|\s*(true|:)(\s|$)", text)
    body = yaml.safe_load(text)
    assert body["permissions"] == {"contents": "read"}
    for job in body["jobs"].values():
        assert job["timeout-minutes"]
        runs = [step["run"] for step in job["steps"] if "run" in step]
        assert not any("${{" in run for run in runs), "an expression inside a script is an injection"
        assert not any(re.search(r"^\s*lqw [^|]*\|(?!\|)", run, re.MULTILINE) for run in runs), "a pipe eats the exit"
        checkouts = [step for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
        assert all(step["with"]["fetch-depth"] == 0 for step in checkouts)
    assert "pull_request_target" not in text


@pytest.fixture(scope="module")
def passed(tmp_path_factory):
    """Return a repository with a measured 1.1.0, pushed to a bare remote."""
    folder = tmp_path_factory.mktemp("github")
    return Scratch(folder / "repository").begin().adopt().passing()


@pytest.fixture
def scratch(passed, tmp_path):
    copy = passed.copy(tmp_path / "repository")
    copy.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    copy.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    copy.git("push", "-q", "origin", "main", "v1.0.0")
    return copy


def run(scratch, workflow, step, **env):
    """Run a step as the runner would: bash -e, with lqw on the path. Return exit status and output."""
    tools = scratch.root.parent / "tools"
    tools.mkdir(exist_ok=True)
    lqw = tools / "lqw"
    lqw.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c 'from lqw.cli.app import main; main()' \"$@\"\n")
    lqw.chmod(lqw.stat().st_mode | stat.S_IXUSR)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps_of(workflow)[step]],
        cwd=scratch.root, env={**ENVIRONMENT, "PATH": path, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr


TAG = {"TAG": "v1.1.0", "POLICY": "origin/main"}


def test_the_tag_gate_makes_and_pushes_the_tag_of_a_measured_release(scratch):
    status, said = run(scratch, "tag-gate.yml", "Verdict", **TAG)
    assert status == 0, said
    assert "::notice title=lqw v1.1.0%3A PASS" in said
    assert (scratch.root / "lqw-junit.xml").is_file()
    status, said = run(scratch, "tag-gate.yml", "Tag", **TAG)
    assert status == 0, said
    assert "refs/tags/v1.1.0" in scratch.git("ls-remote", "origin")


def test_the_tag_gate_stops_at_a_red_release(scratch):
    scratch.release("1.2.0")
    scratch.measure("1.2.0", effects={"decode": 0.4})
    scratch.commit("red")
    env = {**TAG, "TAG": "v1.2.0"}
    status, said = run(scratch, "tag-gate.yml", "Verdict", **env)
    assert (status, "::error title=RED receipt on lambda" in said) == (1, True), said


def test_a_pull_request_may_add_receipts_even_a_red_one(scratch):
    scratch.release("1.2.0")
    scratch.measure("1.2.0", effects={"decode": 0.4})
    scratch.commit("red")
    base = {"BASE": "origin/main"}
    status, said = run(scratch, "receipts.yml", "Append-only, and no floor moved but by what earned it", **base)
    assert status == 0, said
    status, said = run(scratch, "receipts.yml", "New receipts verify", **base)
    assert status == 0, said
    assert "new receipts: 1" in said
    assert "RED" in (scratch.root / "lqw-receipts.md").read_text()


def test_a_pull_request_may_neither_rewrite_a_receipt_nor_lower_a_floor(scratch):
    place = scratch.root / "receipts/lambda/1.0.0.json"
    place.write_bytes(place.read_bytes().replace(b"FLOOR", b"PASS "))
    (scratch.root / "receipts/lambda/1.2.0.json").write_bytes(b"{}")
    scratch.commit("small corrections")
    base = {"BASE": "origin/main"}
    status, said = run(scratch, "receipts.yml", "Append-only, and no floor moved but by what earned it", **base)
    assert (status, "rewritten in commit" in said) == (4, True), said
    assert run(scratch, "receipts.yml", "New receipts verify", **base)[0] == 4


def test_every_workflow_is_described():
    text = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in WORKFLOWS if f"`{path.name}`" not in text] == []
    assert len(WORKFLOWS) == 3

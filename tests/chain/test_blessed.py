"""A release that names a blessed model, from the gate to the tag: no parity receipts, no tag."""

import json
import shutil

import pytest
import yaml

from lqw.canonical import sha256_file
from lqw.receipt import verify_receipt
from tests.support import command
from tests.support.fake_params import ENVIRONMENT, REPOSITORY
from tests.support.scratch import ENVIRONMENT as GIT
from tests.support.scratch import Scratch

FIXTURES = REPOSITORY / "tests/fixtures/parity"
pytestmark = (
    pytest.mark.slow
)  # two whole gates; blocks and passes by recorded runs are in tests/red/test_release_tag.py
PLACES = {"m1": "receipts/parity/fake/tiny.m1.json", "serving": "receipts/parity/fake/tiny.serving.json"}


def lqw(root, *arguments):
    return command.lqw(root, *arguments, **GIT, **ENVIRONMENT)


@pytest.fixture
def scratch(world):
    """The world as a repository, with a release of its own binary and commit that names a blessed model."""
    made = Scratch(world)
    made.git("init", "-q", "-b", "main")
    made.write(".gitignore", "runs/\nbuilds/\n")
    made.write("src/main.rs", "fn main() {}\n")
    commit = made.commit("the engine, its floor, its parameters")
    build = made.write("builds/2.0.0", f"#!/bin/false\n# commit {commit}\n")
    build.chmod(0o755)
    release = yaml.safe_load((world / "params/fake/1.1.0.yaml").read_text())
    release.update(release="2.0.0", blessed="tiny")
    release["subject"].update(binary="builds/2.0.0", sha256=sha256_file(build), commit=commit)
    made.write("params/fake/2.0.0.yaml", release)
    receipts = {"fake": PLACES}
    made.write("params/parity/blessed.yaml", {
        "schema": "apr-parity-blessed/v1", "model": "tiny", "file": "tiny.gguf", "hosts": ["fake"], "receipts": receipts,
    })  # fmt: skip
    shutil.copy(REPOSITORY / "params/parity/thresholds.yaml", world / "params/parity/thresholds.yaml")
    allowed = {"fake": "a fake engine signs nothing"}
    made.write("params/signing.yaml", {"schema": "lqw-signing/1", "unsigned_allowed": allowed})
    made.commit("parameters of 2.0.0")
    return made


def _take(scratch, *, binary=None):
    """Write both parity receipts, as if taken of the binary under test, or of another."""
    release = yaml.safe_load((scratch.root / "params/fake/2.0.0.yaml").read_text())
    subject, gguf = release["subject"], release["models"][0]["sha256"]
    binary = binary or subject["sha256"]
    record = json.loads((FIXTURES / "lambda.m1.json").read_text())
    record["cell"].update(model="tiny", file="tiny.gguf")
    record["provenance"].update(binary_sha256=binary, model_sha256=gguf)
    record["raw"]["model"] = "/models/tiny.gguf"
    record.update(host="fake", apr_version=f"1.0 ({subject['commit'][:9]})")
    witness = json.loads((FIXTURES / "lambda.serving.json").read_text())
    witness.update(host="fake", binary_sha256=binary, commit=subject["commit"])
    witness["model"].update(path="/models/tiny.gguf", sha256=gguf)
    for kind, document in (("m1", record), ("serving", witness)):
        scratch.write(PLACES[kind], json.dumps(document))


def test_from_the_gate_to_the_tag(scratch):
    gate = ("gate", "params/fake/2.0.0.yaml")
    status, said = lqw(scratch.root, *gate, "--run", "runs/a")
    assert status == 3, said
    assert "parity" in said, said
    scratch.commit("measured without parity")
    assert lqw(scratch.root, "tag", "v2.0.0")[0] == 3

    _take(scratch)
    status, said = lqw(scratch.root, *gate, "--run", "runs/b")
    assert status == 0, said
    assert set(json.loads((scratch.root / "runs/b/receipt.json").read_text())["parity"]) == set(PLACES.values())
    scratch.commit("measured with both")
    status, said = lqw(scratch.root, "verify", "--tag", "v2.0.0")
    assert status == 0, said

    _take(scratch, binary="0" * 64)
    scratch.commit("parity taken again, of another binary")
    status, said = lqw(scratch.root, "tag", "v2.0.0")
    assert (status, "STALE" in said) == (3, True), said
    assert scratch.git("tag") == ""

    _take(scratch)
    scratch.commit("and of this one")
    status, said = lqw(scratch.root, "tag", "v2.0.0")
    assert status == 0, said
    assert scratch.git("tag") == "v2.0.0"
    latest = scratch.root / "receipts/fake/2.0.0.attempt2.json"
    assert verify_receipt(latest).receipt_sha256 in scratch.git("tag", "-l", "--format=%(contents)", "v2.0.0")

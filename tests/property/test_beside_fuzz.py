"""A fuzzer of the files beside a receipt, through the whole tag gate: no crash, no hang, no wrong PASS."""

from dataclasses import replace

import pytest

from lqw.errors import Exit
from tests.support import beside, fuzz
from tests.support.beside_files import closed, opened, wrong


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return beside.scenes(tmp_path_factory.mktemp("scenes"))


def test_the_fuzzer_knows_a_wrong_pass_and_a_hang_when_it_sees_one(found, monkeypatch):
    scene = found[0]
    path = "receipts/lambda/records/0001-rebase.json"
    old = next(scene.data[blob] for blob, one in scene.files.items() if one == path)
    new = old.replace(b'"author":"Ada"', b'"author":"Eve"')
    assert "['author']" in wrong(scene.base, scene.base, path, old, new)
    assert wrong(scene.base, scene.base, path, old, old) == ""
    other = replace(scene.base, hosts=(replace(scene.base.hosts[0], give_up=None),))
    assert wrong(scene.base, other, path, old, new) == "another PASS"
    assert "(file)" in wrong(scene.base, scene.base, path, old, b"{")
    monkeypatch.setattr(beside, "LIMIT_S", 0.05)
    monkeypatch.setattr(beside, "verify_tag", lambda *_, **_more: [0 for _ in iter(int, 1)])
    with pytest.raises(AssertionError, match="Hang"):
        beside.fuzzed(found, 1, 1)


def test_what_is_exchanged_is_what_the_gate_reads(found):
    """A floor of another value in the only version of the baseline there ever was: seen by what earned it."""
    scene = found[1]
    blob = next(blob for blob, path in scene.files.items() if path.endswith("/baseline.json"))
    value = opened("baseline.json", scene.data[blob])
    for row in value["epochs"][0]["rows"].values():
        row["floor"]["value"] -= 0.1
    assert scene.judge({blob: closed("baseline.json", value)}).exit_status is Exit.INVALID
    assert scene.judge({}).findings == ()


def test_five_hundred_mutants(found):
    said = beside.fuzzed(found, seed=8, number=500)
    assert sum(said.values()) == 500
    assert {"INVALID", "PASS", "refused"} <= set(said)
    assert said["PASS"] < 150  # names, notes, other releases


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_mutants():
    said = beside.fuzzed_by_many(10_000, seed=1_000)
    assert sum(said.values()) == 10_000
    assert said["PASS"] < 3_000


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_leaf_is_caught_by_what_the_page_says(found):
    said = list(beside.every_leaf(found))
    assert len(said) > 900
    assert beside.TABLE.read_text() == beside.table(said), "run python -m tests.support.beside"


def test_hangs_are_no_exceptions_that_lqw_may_swallow():
    assert not issubclass(fuzz.Hang, Exception)

"""A second confirmation batch of one program: seen at the tag, whatever became of the claim that forbade it."""

import pytest

from lqw.errors import Exit
from lqw.release.git import Repository
from lqw.release.tag import verify_tag
from tests.support.scratch import Scratch

DAY = "2026-06-01"
GAIN = {"ttft@512": 0.4}
OLD = {"earlier_binary": "1.0.0"}
SHARED = {"effects": GAIN, "third": {"effects": GAIN, "earlier_effects": GAIN, **OLD}}  # the machine got faster: SHIFT
BELIEVED = {"effects": GAIN, "third": {"effects": GAIN, **OLD}}
CLAIM = '{"run_id":"%s","binary_sha256":"%s"}'


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("scratch") / "floor").begin().adopt()


@pytest.fixture
def scratch(floor, tmp_path):
    copy = floor.copy(tmp_path / "repository")
    copy.release("1.1.0")
    return copy


def judged(scratch, name="v1.1.0"):
    return verify_tag(Repository(scratch.root), name, day=DAY)


def second(verdict):
    """Return what was found of a second batch, which must be enough for INVALID."""
    found = [one.text for one in verdict.findings if one.check == "batch"]
    assert not found or verdict.exit_status is Exit.INVALID
    return found


def test_two_runs_with_a_batch_each_are_named_though_nobody_laid_a_claim(scratch):
    scratch.measure("1.1.0", **SHARED, run_id="first")
    scratch.measure("1.1.0", **BELIEVED, run_id="other")
    scratch.commit("measured until it was believed")
    (text,) = second(judged(scratch))
    assert "a second confirmation batch of the program" in text
    assert "1.1.0.json is of run first" in text
    assert "1.1.0.attempt2.json is of run other" in text


def test_another_version_of_the_same_program_buys_no_second_batch(scratch):
    scratch.measure("1.1.0", **SHARED, run_id="first")
    scratch.release("1.2.0", binary="1.1.0", code=False)
    scratch.measure("1.2.0", binary="1.1.0", **BELIEVED, run_id="other")
    scratch.commit("the same bytes under another name")
    (text,) = second(judged(scratch, "v1.2.0"))
    assert "1.1.0.json is of run first" in text


def test_a_run_that_goes_on_and_other_programs_have_one_batch_each(scratch):
    scratch.measure("1.1.0", **BELIEVED, run_id="first")
    scratch.commit("receipt of 1.1.0")
    assert judged(scratch).findings == ()
    scratch.release("1.2.0")
    slower = {"effects": {"ttft@512": 0.15}, "third": {"effects": {"ttft@512": 0.15}, "earlier_binary": "1.1.0"}}
    scratch.measure("1.2.0", **slower, run_id="second")
    scratch.measure("1.2.0", effects=GAIN, run_id="third")
    scratch.commit("one of 1.2.0, in which 1.1.0 may be named, and an attempt without a batch")
    assert second(judged(scratch, "v1.1.0")) == second(judged(scratch, "v1.2.0")) == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_claim_that_was_ever_committed_names_its_run(scratch, deleted):
    scratch.measure("1.1.0", **BELIEVED, run_id="other")
    binary = scratch.root.joinpath("params/1.1.0.yaml").read_text().split("sha256: ")[1].split()[0]
    place = scratch.write(f"receipts/lambda/batches/{binary}.json", CLAIM % ("other", binary))
    scratch.commit("receipt and its own claim")
    assert judged(scratch).findings == ()
    place.write_text(CLAIM % ("first", binary))
    scratch.commit("a claim of another run")
    if deleted:
        place.unlink()
        scratch.commit("no claim")
    (text,) = second(judged(scratch))
    assert f"batches/{binary}.json is of run first" in text


def test_what_names_the_program_and_cannot_be_read_is_named(scratch):
    scratch.measure("1.1.0", **BELIEVED, run_id="first")
    binary = scratch.root.joinpath("params/1.1.0.yaml").read_text().split("sha256: ")[1].split()[0]
    scratch.write(f"receipts/lambda/batches/{binary}.json", f'{{"of":"{binary}"}}')
    scratch.commit("no claim")
    (text,) = second(judged(scratch))
    assert "neither receipt nor claim" in text


def test_a_claim_that_says_another_program_than_its_name_is_named(scratch):
    scratch.measure("1.1.0", **BELIEVED, run_id="other")
    binary = scratch.root.joinpath("params/1.1.0.yaml").read_text().split("sha256: ")[1].split()[0]
    scratch.write(f"receipts/lambda/batches/{binary}.json", CLAIM % ("first", "0" * 64))
    scratch.commit("the first run's claim, turned away from its program")
    (text,) = second(judged(scratch))
    assert "by the name of another program" in text

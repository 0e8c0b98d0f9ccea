"""The store's history in git: only ever added to, its floors moved by nothing but what earned it."""

from pathlib import Path

import pytest

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import Exit, UsageError
from lqw.outcomes import Purpose
from lqw.release.git import Repository
from lqw.release.history import verify_history
from tests.support.scratch import Scratch

BASELINE = "receipts/lambda/baseline.json"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a floor, a pass, and a red one, each committed as it came."""
    scratch = Scratch(tmp_path_factory.mktemp("scratch") / "honest").begin().adopt()
    for version, effects in (("1.1.0", {}), ("1.2.0", {"decode": 0.4})):
        scratch.release(version)
        scratch.measure(version, effects=effects)
        scratch.commit(f"receipt of {version}")
    return scratch


@pytest.fixture
def scratch(honest, tmp_path):
    return honest.copy(tmp_path / "repository")


def judge(scratch, **options):
    return verify_history(Repository(scratch.root), **options)


def named(scratch, commit, *words, **options):
    """Check that a finding names this commit and these words."""
    verdict = judge(scratch, **options)
    assert verdict.exit_status is Exit.INVALID
    texts = [one.text for one in verdict.findings if commit[:12] in one.text]
    assert any(all(word in text for word in words) for text in texts), verdict.findings
    return verdict


def test_an_honest_history_passes(honest):
    verdict = judge(honest)
    assert (verdict.exit_status, verdict.findings) == (Exit.PASS, ())
    assert verdict.files == 7  # three receipts, baseline, reference, two of parity
    assert verdict.commits >= 4


def test_an_empty_one_is_never_a_pass(tmp_path):
    verdict = judge(Scratch(tmp_path / "empty").begin())
    assert (verdict.exit_status, verdict.findings) == (Exit.UNDECIDED, ())


@pytest.mark.parametrize("name", ["1.0.0.json", "1.2.0.json"])
def test_a_deleted_receipt_is_named_with_its_commit(scratch, name):
    (scratch.root / "receipts/lambda" / name).unlink()
    named(scratch, scratch.commit("tidy up"), name, "deleted")


def test_a_receipt_that_is_deleted_and_brought_back_is_still_named(scratch):
    place = scratch.root / "receipts/lambda/1.2.0.json"
    data = place.read_bytes()
    place.unlink()
    commit = scratch.commit("away")
    place.write_bytes(data)
    scratch.commit("and back")
    named(scratch, commit, "1.2.0.json", "deleted")


def test_a_rewritten_receipt_is_named(scratch):
    place = scratch.root / "receipts/lambda/1.2.0.json"
    place.write_bytes((scratch.root / "receipts/lambda/1.1.0.json").read_bytes())
    named(scratch, scratch.commit("green now"), "1.2.0.json", "rewritten")


def test_a_floor_that_is_lowered_by_hand_is_named(scratch):
    place = scratch.root / BASELINE
    body = loads_strict(place.read_bytes())
    next(iter(body["epochs"][0]["rows"].values()))["floor"]["value"] -= 0.2
    place.write_bytes(canonical_bytes(body))
    named(scratch, scratch.commit("a little room"), BASELINE, "moved without")


def test_a_baseline_that_a_red_run_moved_is_named(scratch):
    scratch.release("1.3.0")
    held = (scratch.root / BASELINE).read_bytes()
    scratch.measure("1.3.0")
    moved = loads_strict((scratch.root / BASELINE).read_bytes())
    (scratch.root / "receipts/lambda/1.3.0.json").unlink()
    (scratch.root / BASELINE).write_bytes(held)
    scratch.measure("1.3.0", effects={"decode": 0.4})
    for row in moved["epochs"][0]["rows"].values():
        row["last"]["value"] = row["history"][-1]["value"] = -0.9
    (scratch.root / BASELINE).write_bytes(canonical_bytes(moved))
    named(scratch, scratch.commit("red, and remembered"), BASELINE)


def test_an_improved_release_raises_its_floor_by_a_fresh_batch(scratch):
    scratch.release("1.3.0")
    scratch.measure("1.3.0", effects={"decode": 1.2, "ttft@512": 0.8})
    scratch.commit("improved")
    scratch.measure("1.3.0", purpose=Purpose.ADOPT, effects={"decode": 1.2, "ttft@512": 0.8})
    scratch.commit("a fresh batch of it")
    verdict = judge(scratch)
    assert verdict.findings == ()
    body = loads_strict((scratch.root / BASELINE).read_bytes())
    assert {row["floor_source"] for row in body["epochs"][0]["rows"].values()} == {"batch"}


def test_the_claim_of_a_confirmation_batch_stays(scratch):
    place = scratch.write(f"receipts/lambda/batches/{'a' * 64}.json", "{}")
    scratch.commit("claimed")
    place.unlink()
    named(scratch, scratch.commit("never happened"), "batches/aaa", "deleted")


def test_other_tokens_need_a_record(scratch):
    place = scratch.root / "receipts/lambda/reference.json"
    body = loads_strict(place.read_bytes())
    body["release"] = "9.9.9"
    place.write_bytes(canonical_bytes(body))
    named(scratch, scratch.commit("new answers"), "reference.json", "moved without an adopt run")


@pytest.mark.parametrize("missing", ["", "0.72.3-9b-live-floor.json"])
def test_several_floors_in_one_commit_follow_each_other(tmp_path, missing):
    """Four adopt runs and three passes of a real GPU, committed at once: each answer still needs the run that gave it."""
    scratch = Scratch(tmp_path / "at-once").begin()
    for path in (Path(__file__).parents[2] / "receipts/h200").glob("*.json"):
        if path.name != missing:
            scratch.write(f"receipts/h200/{path.name}", path.read_text())
    commit = scratch.commit("what was measured this week")
    if missing:
        named(scratch, commit, "reference.json", "moved without an adopt run")
    else:
        assert judge(scratch).findings == ()


def test_a_signature_may_come_and_never_go(scratch):
    place = scratch.write("receipts/lambda/1.1.0.json.intoto.jsonl", "one\n")
    scratch.commit("signed")
    place.write_text("one\ntwo\n")
    scratch.commit("signed again")
    assert judge(scratch).findings == ()
    place.write_text("two\n")
    named(scratch, scratch.commit("not by the first"), "intoto.jsonl", "never taken away")


def test_what_a_merge_drops_is_seen(scratch):
    scratch.git("checkout", "-q", "-b", "side", "HEAD~1")
    scratch.measure("1.2.0", binary="1.2.0", effects={"decode": 0.4}, seed=99)
    red = (scratch.root / "receipts/lambda/1.2.0.json").rename(scratch.root / "receipts/lambda/1.2.0.attempt9.json")
    assert red.exists()
    scratch.commit("another red")
    scratch.git("checkout", "-q", "main")
    scratch.git("merge", "-q", "-s", "ours", "-m", "merged", "side")
    named(scratch, scratch.head, "1.2.0.attempt9.json", "deleted")


def test_an_honest_merge_passes(scratch):
    scratch.git("checkout", "-q", "-b", "side")
    scratch.release("1.3.0")
    scratch.measure("1.3.0")
    scratch.commit("receipt of 1.3.0")
    scratch.git("checkout", "-q", "main")
    scratch.write("README", "beside it\n")
    scratch.commit("other work")
    scratch.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    assert judge(scratch).findings == ()


def test_since_looks_at_what_a_pull_request_adds(scratch):
    (scratch.root / "receipts/lambda/1.0.0.json").unlink()
    old = scratch.commit("an old sin")
    scratch.release("1.3.0")
    scratch.measure("1.3.0")
    scratch.commit("receipt of 1.3.0")
    assert judge(scratch, since=old).findings == ()
    named(scratch, old, "1.0.0.json", "deleted")
    with pytest.raises(UsageError, match="no such commit"):
        judge(scratch, since="nowhere")


def test_a_shallow_clone_says_so(honest, tmp_path):
    clone = Scratch(tmp_path / "shallow")
    honest.git("clone", "-q", "--depth", "2", honest.root.as_uri(), str(clone.root))
    with pytest.raises(UsageError, match=r"shallow clone.*\n.*unshallow"):
        judge(clone)

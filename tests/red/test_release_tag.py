"""A tag in a scratch repository: blocked for every reason it must be, and allowed with the right receipt."""

import math

import pytest

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit, ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.ratchet import RebaseRecord, baseline_to_json, parse_baseline, point_of, rebase
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.signing import sign_file
from lqw.release.git import Repository
from lqw.release.tag import verify_tag
from tests.support.scratch import Scratch
from tests.support.signing import Person, allowed, files_of

DAY = "2026-06-01"
REASON = (
    "The new kernel trades a little time to the first token for a far smaller working set, which the team has measured "
    "on three machines and accepts; the numbers stand in the evidence, and the old floor returns when the term ends."
)


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    """Return a repository with a floor of 1.0.0, tagged."""
    return Scratch(tmp_path_factory.mktemp("scratch") / "floor").begin().adopt()


@pytest.fixture(scope="module")
def passed(floor, tmp_path_factory):
    """Return a repository in which 1.1.0 was measured, passed, and was committed."""
    return floor.copy(tmp_path_factory.mktemp("scratch") / "passed").passing()


@pytest.fixture
def scratch(floor, tmp_path):
    return floor.copy(tmp_path / "repository")


@pytest.fixture
def measured(passed, tmp_path):
    return passed.copy(tmp_path / "repository")


def judge(scratch, tag="v1.1.0", **options):
    return verify_tag(Repository(scratch.root), tag, **{"day": DAY, **options})


def blocked(scratch, status, check, words, **options):
    """Check that the tag is blocked: exit status, by which check, in which words."""
    verdict = judge(scratch, **options)
    assert verdict.exit_status is status, verdict.findings
    found = [one for one in verdict.findings if one.check == check and words in one.text]
    assert found, verdict.findings
    return verdict


def test_the_right_receipt_allows_it(passed):
    verdict = judge(passed)
    assert (verdict.exit_status, verdict.findings) == (Exit.PASS, ())
    assert verdict.sentence.startswith("PASS: v1.1.0 may be tagged")
    (host,) = verdict.hosts
    assert host.verified.counts.measured == 2
    assert host.give_up.rows[0][1] <= host.give_up.total


def test_the_first_release_of_a_host_is_its_floor(floor):
    assert judge(floor, "v1.0.0").exit_status is Exit.PASS


def test_a_gain_is_believed_only_beside_the_build_that_set_the_floor(scratch, tmp_path):
    other = scratch.copy(tmp_path / "other")
    gain = {"ttft@512": 0.4}
    for here, old in ((scratch, "1.0.0"), (other, "a slower build")):
        here.release("1.1.0")
        here.measure("1.1.0", effects=gain, third={"effects": gain, "earlier_binary": old})
        here.commit("a gain, confirmed")
    assert judge(scratch).exit_status is Exit.PASS
    blocked(other, Exit.INVALID, "receipt", "batch.earlier.1.0.0.binary_sha256")


def test_without_a_receipt(scratch):
    scratch.release("1.1.0")
    blocked(scratch, Exit.UNDECIDED, "receipt", "receipts/lambda/1.1.0.json is not committed")


def test_a_receipt_that_is_not_committed_does_not_count(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0")
    blocked(scratch, Exit.UNDECIDED, "receipt", "is not committed")


def test_without_a_release_file(scratch):
    blocked(scratch, Exit.UNDECIDED, "params", "is of release 2.0.0", tag="v2.0.0")


def test_with_a_red_one(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", effects={"ttft@512": 3.0})
    scratch.commit("a red receipt")
    blocked(scratch, Exit.RED, "receipt", "ttft@512")


def test_with_an_undecided_one(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", pairs=2)
    scratch.commit("too few pairs")
    blocked(scratch, Exit.UNDECIDED, "receipt", "pairs")


def test_with_a_floor_batch_only(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", purpose=Purpose.ADOPT)
    scratch.commit("a floor batch")
    blocked(scratch, Exit.UNDECIDED, "receipt", "nothing was judged")


def test_with_one_of_another_commit(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", commit="deadbeef0123")
    scratch.commit("a receipt of another commit")
    blocked(scratch, Exit.INVALID, "identity", "declares commit")


def test_with_one_of_another_binary(scratch):
    scratch.release("1.1.0")
    path = scratch.root / "params/1.1.0.yaml"
    text = path.read_text()
    scratch.measure("1.1.0")
    path.write_text(text.replace("seed: 7", "seed: 8"))
    scratch.commit("the parameters were changed after the run")
    verdict = blocked(scratch, Exit.INVALID, "params", "params/1.1.0.yaml is ")
    assert any("says something else than the file" in one.text for one in verdict.findings)


def test_without_a_declared_binary_and_commit_nobody_can_say_what_was_measured(scratch):
    scratch.release("1.1.0")
    path = scratch.root / "params/1.1.0.yaml"
    lines = [line for line in path.read_text().splitlines() if "sha256: " not in line or "  sha256: e55" in line]
    path.write_text("\n".join(line for line in lines if "commit: " not in line) + "\n")
    scratch.commit("no identity")
    scratch.measure("1.1.0", commit="9c34b9a91")
    scratch.commit("a receipt")
    verdict = blocked(scratch, Exit.UNDECIDED, "identity", "declares no sha256")
    assert any("declares no commit" in one.text for one in verdict.findings)


@pytest.mark.parametrize("sealed", [False, True])
def test_with_an_edited_one(measured, sealed):
    path = measured.root / "receipts/lambda/1.1.0.json"
    document = loads_strict(path.read_bytes())
    request = document["starts"][2]["requests"][1]
    request["ttft_ns"] = round(request["ttft_ns"] * 0.9)
    path.write_bytes(seal(document) if sealed else canonical_bytes(document))
    measured.commit("made it look better")
    verdict = blocked(measured, Exit.INVALID, "receipt", "recorded")
    assert any(one.check == "lost" and "another content" in one.text for one in verdict.findings)


def test_the_tag_itself_may_stand_on_an_older_commit_than_the_receipt_and_is_then_blocked(measured):
    measured.git("tag", "-a", "v1.1.0", "-m", "too early", "HEAD~1")
    verdict = blocked(measured, Exit.INVALID, "lost", "is not in the one that is tagged")
    assert verdict.exists


def test_a_later_attempt_on_another_branch_is_not_forgotten(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", pairs=2)
    scratch.commit("first attempt")
    scratch.git("checkout", "-q", "-b", "lab")
    scratch.measure("1.1.0", effects={"decode": 0.3})
    scratch.commit("a red second attempt")
    scratch.git("checkout", "-q", "main")
    blocked(scratch, Exit.INVALID, "lost", "receipts/lambda/1.1.0.attempt2.json")
    scratch.git("update-ref", "refs/remotes/origin/lab", "lab")
    scratch.git("branch", "-q", "-D", "lab")  # known from a remote alone
    blocked(scratch, Exit.INVALID, "lost", "receipts/lambda/1.1.0.attempt2.json")


def test_a_deleted_receipt_of_any_version_is_named_with_its_commit(measured):
    (measured.root / "receipts/lambda/1.0.0.json").unlink()
    commit = measured.commit("tidy up")
    blocked(measured, Exit.INVALID, "lost", f"1.0.0.json: deleted in commit {commit[:12]}")


def test_a_subject_that_was_red_under_another_version_stays_red(scratch):
    scratch.release("1.0.9", binary="same")
    red = scratch.measure("1.0.9", binary="same", effects={"decode": 0.3})
    scratch.commit("red")
    hidden = red.read_bytes()
    red.unlink()
    scratch.release("1.1.0", binary="same")
    scratch.measure("1.1.0", binary="same")
    red.write_bytes(hidden)
    scratch.commit("the same binary, measured until green")
    verdict = blocked(scratch, Exit.INVALID, "receipt", "1.0.9.json: this very subject was RED")
    assert [one.check for one in verdict.findings] == ["append-only", "receipt"]  # it had been taken away, too


def test_code_that_was_not_measured(measured):
    measured.write("src/main.rs", "fn main() { quicker() }\n")
    measured.commit("one more little thing")
    blocked(measured, Exit.UNDECIDED, "code", "src/main.rs")


def test_a_baseline_that_was_not_committed_with_its_receipt(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0", baseline=False)
    scratch.commit("the receipt alone")
    blocked(scratch, Exit.UNDECIDED, "chain", "does not know this receipt")


def test_the_receipt_that_it_follows_must_be_in_the_store(scratch):
    scratch.release("1.1.0")
    before = scratch.measure("1.1.0")
    kept = before.read_bytes()
    before.unlink()
    scratch.commit("the baseline moved, and what moved it stayed on the host")
    scratch.release("1.2.0")
    scratch.measure("1.2.0")
    scratch.commit("receipt of 1.2.0")
    words = f"follows the receipt {sha256_bytes(kept)[:12]}, which receipts/lambda does not hold"
    blocked(scratch, Exit.INVALID, "chain", words, tag="v1.2.0")
    before.write_bytes(kept)
    scratch.commit("and is brought in")
    verdict = blocked(scratch, Exit.INVALID, "baseline", "moved without a receipt that earned it", tag="v1.2.0")
    assert [one.check for one in verdict.findings] == ["baseline"]  # what moved a floor is committed with it


def test_a_floor_that_was_moved_by_hand_before_the_run(scratch):
    """The version is committed, the receipt judged by it is of one piece: only what earned the floor is missing."""
    scratch.release("1.1.0")
    place = scratch.root / "receipts/lambda/baseline.json"
    body = loads_strict(place.read_bytes())
    for row, entry in body["epochs"][0]["rows"].items():
        entry["floor"]["value"] -= 0.64 if "ttft" in row else 0.0
    place.write_bytes(canonical_bytes(body))
    scratch.commit("a lower floor")
    scratch.measure("1.1.0", effects={"ttft@512": 1.9})
    scratch.commit("receipt of 1.1.0, judged by it")
    verdict = blocked(scratch, Exit.INVALID, "baseline", "moved without a receipt that earned it or a record")
    assert [one.check for one in verdict.findings] == ["baseline"]


def test_it_must_follow_the_receipt_that_the_baseline_names(scratch):
    scratch.release("1.1.0")
    path = scratch.measure("1.1.0")
    document = loads_strict(path.read_bytes())
    wrong = "0" * 64
    for reference in document["standing"]["references"].values():
        reference["floor"]["receipt_sha256"] = wrong
    document["previous"] = wrong
    path.write_bytes(seal(document))
    assert verify_receipt(path.read_bytes()).exit_status is Exit.PASS  # as a file alone it is of one piece
    scratch.commit("a receipt of another line")
    blocked(scratch, Exit.INVALID, "chain", "not what the store held: standing.references")


def test_floors_that_the_store_never_held(scratch):
    scratch.release("1.1.0")
    place = scratch.root / "receipts/lambda/baseline.json"
    held = place.read_bytes()
    body = loads_strict(held)
    for entry in body["epochs"][0]["rows"].values():
        entry["floor"]["value"] -= 0.5
    place.write_bytes(canonical_bytes(body))
    scratch.measure("1.1.0", effects={"ttft@512": 1.5})
    place.write_bytes(held)
    scratch.commit("judged by floors made for it")
    blocked(scratch, Exit.INVALID, "chain", "no committed version of receipts/lambda/baseline.json")


def test_parity_is_part_of_it(scratch):
    measured = scratch.release("1.1.0")
    scratch.measure("1.1.0")
    scratch.parity("lambda", "0" * 64, measured)
    scratch.commit("parity of another binary")
    blocked(scratch, Exit.UNDECIDED, "parity", "STALE")
    scratch.parity("lambda", "0" * 64, measured, serving="serving.garbage_slot")
    scratch.commit("and garbage")
    assert judge(scratch).exit_status is not Exit.PASS


def test_every_host_needs_its_own_receipt(tmp_path):
    scratch = Scratch(tmp_path / "two", hosts=("lambda", "gx10")).begin()
    scratch.release("1.0.0")
    scratch.measure("1.0.0", purpose=Purpose.ADOPT)
    scratch.commit("lambda alone")
    verdict = blocked(scratch, Exit.UNDECIDED, "receipt", "receipts/gx10/1.0.0.json", tag="v1.0.0")
    assert [one.host for one in verdict.findings if one.check == "receipt"] == ["gx10"]


def rebased(scratch, expires):
    """Lower a floor by a record, as the store applies it, and commit; return the record's path."""
    scratch.release("1.0.9")
    evidence = scratch.measure("1.0.9", effects={"ttft@512": 3.0})
    verified = verify_receipt(evidence)
    place = scratch.root / "receipts/lambda/baseline.json"
    baseline = parse_baseline(place.read_bytes())
    (epoch,) = baseline.epochs
    row = next(one for one in verified.judgement.rows if one.row.metric == "ttft")
    point = point_of(row, release="1.0.9", receipt_sha256=verified.receipt_sha256)
    body = {
        "schema": "lqw-rebase/1", "host": "lambda", "epoch_sha256": epoch.key.sha256, "row": str(row.row),
        "old_floor": math.exp(epoch.rows[row.row].floor.value), "new_floor": math.exp(point.value), "reason": REASON,
        "evidence_receipt_sha256": verified.receipt_sha256, "author": "Ada", "approver": "Grace",
        "created": "2025-12-20", "expires": expires, "permanent": expires is None,
    }  # fmt: skip
    data = canonical_bytes(body)
    record = RebaseRecord.model_validate_json(data)
    moved = rebase(baseline, record, point, name="r", record_sha256=sha256_bytes(data))
    place.write_bytes(canonical_bytes(baseline_to_json(moved)))
    path = scratch.write("receipts/lambda/records/0001-rebase.json", data)
    scratch.commit("a floor is lowered")
    scratch.release("1.1.0")
    scratch.measure("1.1.0", effects={"ttft@512": 2.9})
    scratch.commit("receipt of 1.1.0")
    return path


def test_a_record_allows_it_until_it_expires(scratch):
    path = rebased(scratch, "2026-05-01")
    assert judge(scratch, day="2026-04-30").exit_status is Exit.PASS
    blocked(scratch, Exit.UNDECIDED, "record", "expired on 2026-05-01", day="2026-05-01")
    path.unlink()
    scratch.commit("the record is gone")
    blocked(scratch, Exit.INVALID, "record", "no such record is in the store", day="2026-04-30")


def test_a_record_approved_by_its_author_is_invalid(scratch):
    path = rebased(scratch, None)
    body = loads_strict(path.read_bytes())
    body["approver"] = "ADA"
    path.write_bytes(canonical_bytes(body))
    scratch.commit("approved by myself")
    blocked(scratch, Exit.INVALID, "record", "two people")


def test_who_may_sign_is_read_from_the_policy_commit(measured):
    captain = Person("Ada", hosts=["lambda"])
    for name, data in files_of(captain).items():
        measured.write(f"params/{name}", data)
    policy = measured.commit("signatures are needed now")
    blocked(measured, Exit.INVALID, "signature", "captain")
    for version in ("1.0.0", "1.1.0"):  # what set the floor, too
        path = measured.root / f"receipts/lambda/{version}.json"
        sign_file(path, captain.key, allowed(captain), signed_utc="2026-02-01T00:00:00Z")
    measured.commit("signed")
    assert judge(measured).exit_status is Exit.PASS
    mallory = Person("Mallory", hosts=["lambda"])
    (measured.root / "params/signers/0.yaml").write_bytes(mallory.yaml)
    measured.commit("I may sign now")
    assert judge(measured).exit_status is Exit.INVALID
    assert judge(measured, policy=policy).exit_status is Exit.PASS


def test_links_and_ways_out_of_the_repository_are_refused(measured, tmp_path):
    outside = tmp_path / "outside.json"
    place = measured.root / "receipts/lambda/1.1.0.json"
    outside.write_bytes(place.read_bytes())
    place.unlink()
    place.symlink_to(outside)
    measured.commit("a link")
    blocked(measured, Exit.INVALID, "receipt", "a symbolic link")
    host = measured.root / "params/hosts/lambda.yaml"
    host.write_text(host.read_text() + "receipts: ../../elsewhere\n")
    measured.commit("a way out")
    with pytest.raises(ParamsError, match="not a folder inside the repository") as caught:
        judge(measured)
    assert (caught.value.file, caught.value.field) == ("params/hosts/lambda.yaml", "receipts")


def test_a_shallow_clone_says_so(passed, tmp_path):
    clone = Scratch(tmp_path / "shallow")
    passed.git("clone", "-q", "--depth", "1", passed.root.as_uri(), str(clone.root))
    with pytest.raises(UsageError, match="shallow clone"):
        judge(clone)


def test_replaced_objects_do_not_deceive(measured):
    honest = measured.head
    measured.git("checkout", "-q", "--orphan", "other")
    measured.git("commit", "-q", "-m", "another history")
    measured.git("replace", honest, measured.head)
    assert Repository(measured.root).parents(honest) != []

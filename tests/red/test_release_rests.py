"""What a tag rests on besides its own receipt: the receipts that set its floors are judged again, and signed too."""

import pytest

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit
from lqw.outcomes import Purpose
from lqw.ratchet import adopt, baseline_to_json
from lqw.receipt import epoch_of, params_of
from lqw.receipt.build import seal
from lqw.receipt.schema import Receipt
from lqw.receipt.signing import sign_file
from lqw.release.git import Repository
from lqw.release.tag import verify_tag
from lqw.verdict import judgement_from_json
from tests.support.scratch import Scratch
from tests.support.signing import Person, allowed, files_of

DAY = "2026-06-01"
SLOW = {"ttft@512": 3.0}
SIGNED = "2026-02-01T00:00:00Z"


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    return Scratch(tmp_path_factory.mktemp("scratch") / "floor").begin().adopt()


@pytest.fixture
def scratch(floor, tmp_path):
    return floor.copy(tmp_path / "repository")


def judged(scratch, name, **more):
    return verify_tag(Repository(scratch.root), name, day=DAY, **more)


def said(verdict, check):
    return " | ".join(str(one) for one in verdict.findings if one.check == check)


def sign(scratch, captain, *versions):
    for version in versions:
        path = scratch.root / f"receipts/lambda/{version}.json"
        sign_file(path, captain.key, allowed(captain), signed_utc=SIGNED)


@pytest.fixture
def signing(scratch):
    """A host that needs signatures, with its floor signed and tagged."""
    captain = Person("Ada", hosts=["lambda"])
    for name, data in files_of(captain).items():
        scratch.write(f"params/{name}", data)
    sign(scratch, captain, "1.0.0")
    scratch.commit("signatures are needed now")
    scratch.git("tag", "-a", "v1.0.1", "-m", "whoever may sign, by what is released")
    return scratch, captain


def new_epoch(scratch):
    """Measure otherwise, so that the floors that were do not count."""
    path = scratch.root / "params/protocols/small.yaml"
    path.write_text(path.read_text().replace("prompt_tokens: 16", "prompt_tokens: 24"))


def test_a_floor_that_nobody_signed_does_not_carry_a_signed_release(signing):
    scratch, captain = signing
    new_epoch(scratch)
    scratch.release("1.1.0")
    scratch.measure("1.1.0", purpose=Purpose.ADOPT, effects=SLOW)
    scratch.commit("a slow floor of a fresh epoch, which nobody signed")
    scratch.release("1.2.0")
    scratch.measure("1.2.0", effects=SLOW)
    sign(scratch, captain, "1.2.0")
    scratch.commit("signed, and as slow")
    verdict = judged(scratch, "v1.2.0")
    assert verdict.exit_status is Exit.INVALID
    assert "receipts/lambda/1.1.0.json" in said(verdict, "signature")
    sign(scratch, captain, "1.1.0")
    scratch.commit("and the captain stands for the floor too")
    assert judged(scratch, "v1.2.0").findings == ()


def lowered(document):
    """Write into a receipt what its samples do not give: a first token that comes late."""
    for row in document["judgement"]["rows"]:
        row["d"] = [value - (0.5 if "ttft" in row["row"] else 0.0) for value in row["d"]]
    return document


def forged_floor(scratch, version="1.0.0"):
    """Measure a floor, forge what it says of itself, and make the baseline of that, as the store would have."""
    scratch.release(version)
    path = scratch.measure(version, purpose=Purpose.ADOPT)
    data = seal(lowered(loads_strict(path.read_bytes())))
    path.write_bytes(data)
    receipt = Receipt.model_validate_json(data)
    key = epoch_of(receipt.header, params_of(receipt.header), receipt.starts)
    judgement = judgement_from_json(receipt.judgement)
    moved = adopt(None, judgement, key, host="lambda", receipt_sha256=sha256_bytes(data)).baseline
    (scratch.root / "receipts/lambda/baseline.json").write_bytes(canonical_bytes(baseline_to_json(moved)))
    scratch.commit(f"a floor of {version} that was never measured")


def test_a_floor_whose_receipt_says_more_than_its_samples_carries_no_release(tmp_path):
    scratch = Scratch(tmp_path / "forged").begin()
    forged_floor(scratch)
    scratch.release("1.1.0")
    scratch.measure("1.1.0", effects={"ttft@512": 1.6})
    scratch.commit("slow, and above the forged floor")
    verdict = judged(scratch, "v1.1.0")
    assert verdict.exit_status is Exit.INVALID
    assert "receipts/lambda/1.0.0.json" in said(verdict, "earlier")


def test_a_reference_whose_receipt_is_nowhere_leaves_it_undecided(scratch):
    scratch.release("1.1.0")
    scratch.measure("1.1.0")
    scratch.git("rm", "-q", "--cached", "receipts/lambda/1.0.0.json")
    scratch.git("commit", "-q", "--amend", "-m", "the floor's receipt was never committed")
    scratch.git("add", "params", "receipts/lambda/1.1.0.json", "receipts/lambda/baseline.json")
    scratch.git("commit", "-q", "-m", "receipt of 1.1.0")
    verdict = judged(scratch, "v1.1.0")
    assert "of 1.0.0 is not there" in said(verdict, "earlier")


def test_sessions_before_the_last_need_a_signature_too(signing):
    scratch, captain = signing
    for version in ("1.1.0", "1.2.0", "1.3.0"):
        scratch.release(version)
        scratch.measure(version)
        scratch.commit(f"receipt of {version}")
    sign(scratch, captain, "1.2.0", "1.3.0")
    scratch.commit("signed, all but one whose scatter was used")
    verdict = judged(scratch, "v1.3.0")
    assert "1.1.0.json" in said(verdict, "signature")
    sign(scratch, captain, "1.1.0")
    scratch.commit("all")
    assert judged(scratch, "v1.3.0").findings == ()


@pytest.mark.parametrize("field", ["header", "judgement"])
def test_an_earlier_receipt_that_holds_anything_is_named_and_never_a_traceback(scratch, field):
    scratch.release("1.0.5")
    path = scratch.measure("1.0.5", effects=SLOW, baseline=False)
    document = loads_strict(path.read_bytes())
    if field == "header":
        document["header"]["params"]["host"] = 1
        document["header"]["host"]["name"] = "\x1b[31m"
    else:
        document["judgement"]["rows"][0]["d"] = [1e308, -1e308]
        document["judgement"]["outcome"], document["judgement"]["exit_status"] = "PASS", 0
    path.write_bytes(seal(document))
    scratch.commit("garbage of an earlier release")
    scratch.release("1.1.0")
    scratch.measure("1.1.0")
    scratch.commit("receipt of 1.1.0")
    verdict = judged(scratch, "v1.1.0")
    assert verdict.exit_status in {Exit.PASS, Exit.INVALID}

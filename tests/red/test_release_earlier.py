"""A release is held to the one before: who may sign, and which hosts are measured."""

import pytest

from lqw.canonical import canonical_bytes, sha256_bytes
from lqw.cli.app import run
from lqw.errors import Exit
from lqw.outcomes import Purpose
from lqw.receipt.signing import sign_file
from lqw.release.git import Repository
from lqw.release.tag import verify_tag
from tests.support.scratch import Scratch
from tests.support.signing import Person, allowed, files_of

DAY = "2026-06-01"
SIGNED = "2026-02-01T00:00:00Z"
REASON = (
    "The machine has gone back to where it was lent from, and nobody who runs the engine has another one of its kind; "
    "what it measured stays on file, and the two that are left cover both of the classes of hardware that we support."
)


def judged(scratch, name, **more):
    return verify_tag(Repository(scratch.root), name, day=DAY, **more)


def said(verdict, check):
    return " | ".join(str(one) for one in verdict.findings if one.check == check)


def allow(scratch, *people, unsigned=()):
    scratch.git("rm", "-rq", "--ignore-unmatch", "params/signers")
    for name, data in files_of(*people, unsigned=unsigned).items():
        scratch.write(f"params/{name}", data)


def signed(scratch, version, *people, host="lambda"):
    for person in people:
        path = scratch.root / f"receipts/{host}/{version}.json"
        sign_file(path, person.key, allowed(person), signed_utc=SIGNED)


def released(scratch, version, *people, tag=True, purpose=Purpose.GATE):
    scratch.release(version)
    scratch.measure(version, purpose=purpose)
    signed(scratch, version, *people)
    scratch.commit(f"receipt of {version}")
    if tag:
        scratch.git("tag", "-a", f"v{version}", "-m", "x")


ADA = Person("Ada", hosts=["lambda"])
MALLORY = Person("Mallory", hosts=["lambda"])


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Return a repository in which Ada signs: a floor and a release, both tagged."""
    scratch = Scratch(tmp_path_factory.mktemp("scratch") / "one").begin()
    allow(scratch, ADA)
    scratch.commit("Ada may sign")
    released(scratch, "1.0.0", ADA, purpose=Purpose.ADOPT)
    released(scratch, "1.1.0", ADA)
    return scratch


@pytest.fixture
def scratch(one, tmp_path):
    return one.copy(tmp_path / "repository")


def test_it_passes_and_says_whose_word_that_was(one):
    verdict = judged(one, "v1.1.0")
    assert (verdict.exit_status, verdict.findings) == (Exit.PASS, ())
    assert verdict.signers.startswith("params/ of v1.0.0 (")


def test_nobody_allows_himself_in_the_release_by_which_he_signs(scratch):
    allow(scratch, ADA, MALLORY)
    scratch.commit("I may sign now")
    released(scratch, "1.2.0", MALLORY, tag=False)
    verdict = judged(scratch, "v1.2.0")
    assert verdict.exit_status is Exit.INVALID
    assert "signed by nobody in params/signers" in said(verdict, "signature")
    assert verdict.signers.startswith("params/ of v1.1.0 (")
    signed(scratch, "1.2.0", ADA)
    scratch.commit("Ada stands for it too")
    assert judged(scratch, "v1.2.0").findings == ()
    scratch.git("tag", "-a", "v1.2.0", "-m", "x")
    released(scratch, "1.3.0", MALLORY, tag=False)
    assert judged(scratch, "v1.3.0").findings == ()  # from the next release on


def test_neither_a_tag_of_the_same_commit_nor_of_no_release_settles_who_may_sign(scratch):
    allow(scratch, ADA, MALLORY)
    scratch.commit("I may sign now")
    scratch.git("tag", "-a", "v1.1.9", "-m", "of no release")
    scratch.git("tag", "-a", "1.1.8", "-m", "not a release's name")
    released(scratch, "1.2.0", MALLORY)
    scratch.git("tag", "-a", "v1.0.5", "-m", "on the commit that is judged")
    assert judged(scratch, "v1.2.0").exit_status is Exit.INVALID


@pytest.mark.parametrize("how", ["role", "longer", "unsigned", "removed"])
def test_a_change_of_policy_takes_away_at_once_and_gives_later(scratch, how):
    before = Person("Ada", hosts=["lambda"], until="2026-01-15")
    before.key = ADA.key
    if how == "longer":  # her key had ended, and she lets it live on
        allow(scratch, before)
        released(scratch, "1.1.5", tag=False)
        scratch.git("tag", "-a", "v1.1.5", "-m", "x")
        allow(scratch, ADA)
    elif how == "unsigned":
        allow(scratch, unsigned=["lambda"])
    elif how == "removed":
        allow(scratch, MALLORY)
    else:
        other = Person("Ada", "approver", hosts=["lambda"])
        other.key = ADA.key
        allow(scratch, other)
    scratch.commit("another policy")
    released(scratch, "1.2.0", *([] if how == "unsigned" else [ADA]), tag=False)
    verdict = judged(scratch, "v1.2.0")
    assert (verdict.exit_status, bool(said(verdict, "signature"))) == (Exit.INVALID, True)


def test_without_an_earlier_release_the_commit_before_the_receipt_says_who(tmp_path):
    scratch = Scratch(tmp_path / "new").begin()
    allow(scratch, ADA)
    scratch.commit("Ada may sign")
    allow(scratch, ADA, MALLORY)
    released(scratch, "1.0.0", MALLORY, tag=False, purpose=Purpose.ADOPT)
    verdict = judged(scratch, "v1.0.0")
    assert verdict.exit_status is Exit.PASS  # two commits, of which somebody may have reviewed the first: so it is told
    assert any("there is no earlier release to hold it to" in text for text in verdict.not_checked)
    assert "the commit before the first receipt" in verdict.signers


def test_without_an_earlier_release_nobody_allows_himself_in_the_receipts_own_commit(tmp_path):
    scratch = Scratch(tmp_path / "new").begin()
    allow(scratch, ADA)
    scratch.release("1.0.0")
    scratch.measure("1.0.0", purpose=Purpose.ADOPT)
    allow(scratch, ADA, MALLORY)
    signed(scratch, "1.0.0", MALLORY)
    scratch.commit("key and receipt at once")
    assert judged(scratch, "v1.0.0").exit_status is Exit.INVALID


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a repository of two hosts with a floor on each, tagged."""
    scratch = Scratch(tmp_path_factory.mktemp("scratch") / "two", hosts=("lambda", "gx10")).begin()
    allow(scratch, unsigned=["lambda", "gx10", "other"])
    return scratch.adopt()


@pytest.fixture
def two(both, tmp_path):
    return both.copy(tmp_path / "repository")


def without_gx10(scratch, version="1.1.0"):
    scratch.hosts = ["lambda"]
    scratch.release(version)
    scratch.measure(version)
    scratch.commit(f"receipt of {version}, of one host")


@pytest.mark.parametrize("tagged", [True, False])
def test_a_host_that_is_left_out_is_named(two, tagged):
    if not tagged:
        two.git("tag", "-d", "v1.0.0")
    without_gx10(two)
    verdict = judged(two, "v1.1.0")
    assert verdict.exit_status is Exit.INVALID
    text = said(verdict, "hosts")
    for words in ("params/1.1.0.yaml: hosts: lacks gx10", "1.0.0", "lqw baseline retire-host gx10 --release 1.1.0"):
        assert words in text


@pytest.mark.parametrize("tagged", [True, False])
def test_a_host_under_another_name_is_left_out(two, tagged):
    if not tagged:
        two.git("tag", "-d", "v1.0.0")
    two.hosts = ["other"]
    two.write("params/hosts/other.yaml", (two.root / "params/hosts/gx10.yaml").read_text().replace("gx10", "other"))
    two.git("rm", "-q", "params/hosts/gx10.yaml", "params/hosts/lambda.yaml")
    two.release("1.1.0")
    two.measure("1.1.0", host="other", purpose=Purpose.ADOPT, effects={"ttft@512": 3.0})
    two.commit("the same machine, with no floor")
    text = said(judged(two, "v1.1.0"), "hosts")
    assert ("lacks lambda" in text, "lacks gx10" in text) == (True, True)


def test_two_people_may_retire_a_host_by_a_record(two, tmp_path, capsys):
    (tmp_path / "why.txt").write_text(REASON)
    without_gx10(two)
    store = ["--store", str(two.root / "receipts")]
    why = ["--reason", str(tmp_path / "why.txt"), "--author", "Ada", "--approver", "Grace"]
    evidence = ["--evidence", str(two.root / "receipts/gx10/1.0.0.json")]
    command = ["baseline", "retire-host", "gx10", "--release", "1.1.0", *evidence, *why, *store]
    assert run(command) == Exit.PASS
    assert "0001-retire-host.json" in capsys.readouterr().out
    record = two.root / "receipts/gx10/records/0001-retire-host.json"
    assert run(["baseline", "apply", str(record)]) == Exit.USAGE
    two.commit("gx10 is retired")
    assert judged(two, "v1.1.0").findings == ()
    two.git("tag", "-a", "v1.1.0", "-m", "x")
    two.release("1.2.0")
    two.measure("1.2.0")
    two.commit("the next one has no such host to miss")
    assert judged(two, "v1.2.0").findings == ()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("release", "1.0.9", "no record in receipts/gx10/records retires it"),
        ("approver", "ADA", "two people"),
        ("evidence_receipt_sha256", "0" * 64, "names as evidence"),
        ("host", "lambda", "is of host lambda"),
    ],
)
def test_a_record_that_is_not_about_this_retires_nothing(two, field, value, words):
    without_gx10(two)
    path = two.root / "receipts/gx10/1.0.0.json"
    body = {
        "schema": "lqw-retire-host/1", "host": "gx10", "release": "1.1.0", "reason": REASON, "author": "Ada",
        "approver": "Grace", "created": "2026-02-01", "evidence_receipt_sha256": sha256_bytes(path.read_bytes()),
    }  # fmt: skip
    two.write("receipts/gx10/records/0001-retire-host.json", canonical_bytes({**body, field: value}))
    two.commit("a record")
    assert words in said(judged(two, "v1.1.0"), "hosts")


def test_a_record_that_nobody_signed_retires_nothing_where_signatures_are_needed(two):
    allow(two, Person("Ada", hosts=["gx10"]), unsigned=["lambda"])
    without_gx10(two)
    path = two.root / "receipts/gx10/1.0.0.json"
    body = {
        "schema": "lqw-retire-host/1", "host": "gx10", "release": "1.1.0", "reason": REASON, "author": "Ada",
        "approver": "Grace", "created": "2026-02-01", "evidence_receipt_sha256": sha256_bytes(path.read_bytes()),
    }  # fmt: skip
    two.write("receipts/gx10/records/0001-retire-host.json", canonical_bytes(body))
    two.commit("a record")
    assert "signature for host gx10" in said(judged(two, "v1.1.0"), "hosts")

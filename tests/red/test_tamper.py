"""Every leaf of a receipt, changed: with a stale digest always INVALID; with the digest made anew, never a better verdict.

A leaf is named by its path with list positions as ``*``. Each kind of leaf is changed in every way; what nothing can be
derived from stands in ``tests.support.tamper.ALLOWED``, and the test holds that table exact in both directions.
"""

import copy
import json

import pytest

from lqw.canonical import canonical_bytes
from lqw.errors import Exit
from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from tests.support import tamper
from tests.support.tamper import ALLOWED, OPTIONAL, changed, kinds_of_leaf, leaves


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    return tamper.receipts(tmp_path_factory.mktemp("store"))


def test_every_kind_of_leaf_is_caught_by_the_digest_alone(receipts):
    good, _ = receipts
    for number, (name, paths) in enumerate(kinds_of_leaf(good).items()):
        if name == "digest":
            continue
        how = ("value", "type", "removed", "duplicated")[number % 4]
        edited = changed(good, paths[0], how) or changed(good, paths[0], "value")
        verified = verify_receipt(canonical_bytes(edited))
        assert verified.exit_status == Exit.INVALID, name
        assert {"digest", "schema"} & {problem.check for problem in verified.problems}, name


def test_no_leaf_buys_a_better_verdict_when_the_digest_is_made_anew(receipts):
    """Each kind of leaf, changed in each way, on a RED receipt: INVALID, or still RED where nothing follows from it."""
    said = list(tamper.tampered(receipts[1]))
    assert {verified.exit_status for _, _, verified in said} == {Exit.INVALID, Exit.RED}
    unseen = {(name, how) for name, how, verified in said if verified.exit_status != Exit.INVALID}
    values, gone = ({name for name, how in unseen if how == wanted} for wanted in ("value", "removed"))
    assert values - ALLOWED == set(), "edits that recomputation should have caught"
    assert ALLOWED - values == set(), "entries of the table that are caught after all: take them out"
    assert gone <= ALLOWED | OPTIONAL, "removals that should have been caught"
    assert gone >= OPTIONAL, "entries of the table that are caught after all: take them out"
    assert {name for name, how in unseen if how in ("type", "duplicated")} <= ALLOWED
    assert tamper.TABLE.read_text() == tamper.table(said), "run python -m tests.support.tamper"


@pytest.mark.slow
def test_no_leaf_of_a_batch_buys_a_better_verdict(tmp_path):
    """A RED that the third arm has confirmed: INVALID, or still RED where nothing follows from the leaf."""
    document, find = tamper.batch_receipt(tmp_path)
    said = [one for part in ("batch.", "confirmation") for one in tamper.tampered(document, having=part, find=find)]
    assert len(said) > 200
    assert {verified.exit_status for _, _, verified in said} == {Exit.INVALID, Exit.RED}
    unseen = {name for name, how, verified in said if how == "value" and verified.exit_status != Exit.INVALID}
    assert unseen == tamper.BATCH_ALLOWED


def test_every_single_number_of_the_samples_is_bound(receipts):
    """All stamps, not one of each kind: a change of 1 % is caught by recomputation even when the digest is made anew."""
    good, _ = receipts
    for path in leaves(good):
        if path[-1] == "ttft_ns" or (len(path) > 5 and path[-2] in ("gaps_ns", "ids")):
            if path[0] == "starts" and role_of(good, path) != "timed":
                continue
            verified = verify_receipt(seal(changed(good, path, "value")))
            assert verified.exit_status == Exit.INVALID, path


def role_of(document, path):
    return document["starts"][path[1]]["requests"][path[3]]["role"]


def test_one_percent_is_caught_twice(receipts):
    good, _ = receipts
    path = next(p for p in leaves(good) if p[-1] == "ttft_ns" and role_of(good, p) == "timed")
    edited = changed(good, path, "value")
    stale, anew = verify_receipt(canonical_bytes(edited)), verify_receipt(seal(edited))
    assert {problem.check for problem in stale.problems} >= {"digest", "recompute"}
    assert {problem.check for problem in anew.problems} >= {"recompute"}
    row = next(problem for problem in anew.problems if problem.field.startswith("judgement.rows"))
    assert row.recorded != row.recomputed


def test_duplicate_keys_are_refused_wherever_they_stand(receipts):
    good, _ = receipts
    text = canonical_bytes(good).decode()
    for key in ("digest", "seed", "ttft_ns", "outcome", "exit_status", "sha256", "references"):
        at = text.index(f'"{key}":')
        verified = verify_receipt((text[:at] + f'"{key}":0,' + text[at:]).encode())
        assert verified.exit_status == Exit.INVALID
        assert "duplicate key" in str(verified.problems[0])


def swap_arms(document):
    for start in document["starts"]:
        start["arm"] = {"subject": "comparator", "comparator": "subject"}[start["arm"]]


def drop_last_pair(document):
    document["starts"] = [start for start in document["starts"] if start["pair"] != 3]


def repeat_pair(document):
    document["starts"] += [{**start, "position": start["position"] + 1000} for start in document["starts"][-2:]]


def block_the_order(document):
    ordered = sorted(document["starts"], key=lambda start: start["arm"])
    for position, start in enumerate(ordered, start=1):
        start["position"] = position


def call_it_a_floor(document):
    document["header"]["purpose"] = document["header"]["plan"]["purpose"] = "adopt"


def raise_the_margin(document):
    document["header"]["params"]["host"]["margin"]["fraction"] = 0.9


def lower_the_floor(document):
    for references in document["standing"]["references"].values():
        references["floor"]["value"] -= 2.0


def another_host(document):
    document["header"]["host"]["name"] = "elsewhere"


def another_machine(document):
    document["header"]["host"]["cores"] = 128


def another_binary(document):
    for start in document["starts"]:
        if start["arm"] == "subject":
            start["engine"]["binary_sha256"] = "0" * 64


def no_rows(document):
    document["header"]["params"]["protocol"]["rows"] = []


def forget_an_attempt(document):
    document["run"]["attempt"] = 2


def say_otherwise(document):
    judgement = document["judgement"]
    passed = judgement["outcome"] == "PASS"
    judgement["outcome"], judgement["exit_status"] = ("RED", 1) if passed else ("PASS", 0)


ATTACKS = [
    swap_arms, drop_last_pair, repeat_pair, block_the_order, call_it_a_floor, raise_the_margin, lower_the_floor,
    another_host, another_machine, another_binary, no_rows, forget_an_attempt, say_otherwise,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_with_a_digest_made_anew(receipts, attack):
    for document in receipts:
        edited = copy.deepcopy(document)
        attack(edited)
        verified = verify_receipt(seal(edited))
        assert verified.exit_status == Exit.INVALID, verified.outcome
        assert verified.problems


def test_a_pass_cannot_be_made_of_nothing(receipts):
    good, _ = receipts
    empty = {**good, "starts": [], "identities": []}
    verified = verify_receipt(seal(empty))
    assert verified.exit_status == Exit.INVALID
    assert verified.counts.measured == 0


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"schema":"lqw-receipt/1"}', b"[" * 100_000, b'{"a":NaN}',
        b'{"a":1e400}', b'{"starts":' + b"[" * 70 + b"]" * 70 + b"}", json.dumps({"digest": "x" * 200_000}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_receipt_is_invalid_and_never_an_exception(data):
    verified = verify_receipt(data)
    assert (verified.outcome, verified.exit_status) == (Outcome.INVALID, Exit.INVALID)
    assert verified.problems
    assert str(verified.counts) == "rows: planned 0, measured 0, gating 0, void 0, failed 0"


def test_a_receipt_written_otherwise_is_not_that_file(receipts):
    """Whitespace, key order: the same JSON, another file. Its sha256 would be another receipt's."""
    good, _ = receipts
    for data in (json.dumps(good, indent=1).encode(), canonical_bytes(good) + b"\n"):
        verified = verify_receipt(data)
        assert verified.exit_status == Exit.INVALID
        assert [problem.check for problem in verified.problems] == ["canonical"]

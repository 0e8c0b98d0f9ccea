"""Receipts of every schema that can be read, each from a fixture; an older one is lifted, an unknown one refused."""

from pathlib import Path

import pytest

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit, IntegrityError
from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.schema import SCHEMA
from lqw.receipt.versions import UPGRADES, lifted, readable

FIXTURES = Path(__file__).parents[1] / "fixtures" / "receipts"
OLD = "lqw-receipt/0"


def from_zero(document):
    """Lift a version that never was, of this test alone: no parity, ``tokens`` for the reference, one attempt."""
    document["reference"] = document.pop("tokens")
    document["run"] = {"attempt": 1, "earlier": [], "resumed": [], "replayed": False, **document["run"]}
    return {**document, "schema": SCHEMA}


@pytest.fixture
def zero(monkeypatch):
    monkeypatch.setitem(UPGRADES, OLD, from_zero)
    return (FIXTURES / "lqw-receipt-0.json").read_bytes()


def test_each_version_that_can_be_read_has_a_receipt_here_and_it_keeps_its_verdict(zero):
    for schema in readable():
        verified = verify_receipt(FIXTURES / f"{schema.replace('/', '-')}.json")
        assert (verified.outcome, verified.problems) == (Outcome.RED, ()), schema


def test_a_lifted_receipt_says_so_and_keeps_its_name(zero):
    verified = verify_receipt(zero)
    assert verified.receipt_sha256 == sha256_bytes(zero)
    assert any(OLD in text for text in verified.not_checked)
    now = verify_receipt(FIXTURES / "lqw-receipt-1.json")
    assert verified.judgement == now.judgement
    assert not any("read as this lqw" in text for text in now.not_checked)


def test_an_edit_of_an_older_receipt_is_caught_as_any_other(zero):
    document = loads_strict(zero)
    assert verify_receipt(canonical_bytes({**document, "run": {}})).exit_status == Exit.INVALID
    document["judgement"]["outcome"] = "PASS"
    (problem, *_) = verify_receipt(seal(document)).problems
    assert (problem.field, problem.recorded, problem.recomputed) == ("judgement.outcome", "PASS", "RED")
    del document["tokens"]
    (problem, *_) = verify_receipt(seal(document)).problems
    assert problem.field == "schema"
    assert "not what that version holds" in problem.recorded


def test_without_its_step_a_version_is_refused_by_name():
    for schema in (OLD, "lqw-receipt/2", 1, None, ["lqw-receipt/1"]):
        document = {**loads_strict((FIXTURES / "lqw-receipt-1.json").read_bytes()), "schema": schema}
        verified = verify_receipt(seal(document))
        assert verified.exit_status == Exit.INVALID
        assert str(verified.problems[-1]).startswith("schema: recorded")
        assert "this lqw reads lqw-receipt/1" in verified.problems[-1].recorded


def test_steps_that_lead_in_a_circle_end(monkeypatch):
    monkeypatch.setitem(UPGRADES, "a", lambda document: {**document, "schema": "b"})
    monkeypatch.setitem(UPGRADES, "b", lambda document: {**document, "schema": "a"})
    with pytest.raises(IntegrityError, match="this lqw reads"):
        lifted({"schema": "a"})

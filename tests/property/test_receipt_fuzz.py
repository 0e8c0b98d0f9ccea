"""A fuzzer of our own against the verifier: no crash, no hang, no wrong verdict. ``make test-slow`` runs a hundred thousand."""

from dataclasses import replace

import pytest

from lqw.errors import Exit
from lqw.receipt import verify_receipt
from tests.support import fuzz


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return fuzz.bases(tmp_path_factory.mktemp("store"))


def test_the_fuzzer_knows_a_wrong_verdict_and_a_hang_when_it_sees_one(found, monkeypatch):
    good, bad = found
    assert (good.exit_status, bad.exit_status) == (Exit.PASS, Exit.RED)
    assert "was <Exit.RED" in fuzz.wrong(verify_receipt(good.data), bad, good.data)
    other = replace(verify_receipt(good.data), judgement=verify_receipt(bad.data).judgement)
    assert "another judgement" in fuzz.wrong(other, good, b"")
    assert fuzz.wrong(verify_receipt(good.data), good, b"") == ""
    monkeypatch.setattr(fuzz, "verify_receipt", lambda _: [0 for _ in iter(int, 1)])
    monkeypatch.setattr(fuzz, "LIMIT_S", 0.05)
    with pytest.raises(AssertionError, match="seed 1, mutant 0: Hang"):
        fuzz.fuzzed(found, 1, 1)


def test_two_thousand_mutants(found):
    said = fuzz.fuzzed(found, seed=8, number=2_000)
    assert sum(said.values()) == 2_000
    assert set(said) == {"INVALID", "PASS", "RED"}  # some edits touch what no verdict follows from
    assert said["INVALID"] > 1_600


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_hundred_thousand_mutants():
    said = fuzz.fuzzed_by_many(100_000, seed=1_000)
    assert sum(said.values()) == 100_000
    assert said["INVALID"] > 80_000

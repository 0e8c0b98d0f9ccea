"""The receipts committed in this repository still verify, with the verdicts they were committed for."""

from pathlib import Path

import pytest

from lqw.errors import Exit
from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt
from lqw.release.many import stored_receipts, verify_many
from lqw.release.page import page_of_receipts
from lqw.testing.cases import from_receipts

REPOSITORY = Path(__file__).parents[2]
RECEIPTS = REPOSITORY / "receipts"
KNOWN = {
    "h200/0.72.3-floor.json": Outcome.FLOOR,
    "h200/0.72.3.json": Outcome.PASS,
    "h200/0.72.3-per-token.json": Outcome.RED,
    "h200/0.72.3-thirteen-floor.json": Outcome.FLOOR,
    "h200/0.72.3-thirteen.json": Outcome.PASS,
    "h200/0.72.3-9b-live-floor.json": Outcome.FLOOR,
    "h200/0.72.3-9b-live.json": Outcome.PASS,
    "h200/0.72.3-9b-per-token.json": Outcome.RED,
    "h200/0.72.3-9b-thirteen-floor.json": Outcome.FLOOR,
}


@pytest.mark.parametrize("name", KNOWN)
def test_it_verifies(name):
    assert verify_receipt(RECEIPTS / name).outcome is KNOWN[name]


def test_none_is_forgotten():
    beside = {"baseline.json", "reference.json"}
    found = {str(path.relative_to(RECEIPTS)) for path in RECEIPTS.glob("*/*.json") if path.name not in beside}
    assert found == set(KNOWN)


def test_the_store_is_what_it_was_though_it_keeps_a_red(tmp_path):
    """A RED that verifies stays for ever and is no fault of the store; an edited one is."""
    done = verify_many(
        [path for path in stored_receipts(REPOSITORY) if "runs" not in path.parts], REPOSITORY / "params", processes=1
    )
    assert page_of_receipts(done).exit_status == Exit.RED
    page = page_of_receipts(done, stored=True)
    assert (page.exit_status, page.findings) == (Exit.PASS, ())
    assert page.sentence == "PASS: all 9 receipts of the store are what they were: 4 FLOOR, 3 PASS, 2 RED"
    edited = tmp_path / "edited.json"
    edited.write_bytes((RECEIPTS / "h200/0.72.3.json").read_bytes().replace(b'"seed":', b'"seed":1'))
    page = page_of_receipts([*done, *verify_many([edited], REPOSITORY / "params")], stored=True)
    assert page.exit_status == Exit.INVALID
    assert all("edited.json" in finding.text for finding in page.findings)


@pytest.mark.parametrize(
    ("name", "slowed"),
    [
        ("h200/0.72.3-per-token.json", {"ttft@850", "ttft@4096", "prefill@850", "prefill@4096"}),
        ("h200/0.72.3-9b-per-token.json", {"ttft@256", "ttft@1024", "prefill@256", "prefill@1024"}),
    ],
)
def test_the_one_token_prefill_is_red_on_the_rows_it_slowed_and_on_no_other(name, slowed):
    verdicts = verify_receipt(RECEIPTS / name).judgement.rows
    assert {str(row.row).split("/")[1] for row in verdicts if row.verdict == "RED"} == slowed


def test_the_selftest_case_of_the_real_apr_is_what_its_receipts_hold(tmp_path):
    """Byte for byte: who edits the recorded case, or the receipt it was taken from, is told."""
    made = from_receipts(RECEIPTS / "h200", tmp_path)
    committed = REPOSITORY / "tests/fixtures/selftest" / made[0]
    names = sorted(path.name for path in committed.iterdir())
    assert names == ["baseline.json", "expected.json", "reference.json", "samples.jsonl"]
    assert {name: (tmp_path / made[0] / name).read_bytes() == (committed / name).read_bytes() for name in names} == (
        dict.fromkeys(names, True)
    )

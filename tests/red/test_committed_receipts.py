"""The receipts committed in this repository still verify, with the verdicts they were committed for."""

from pathlib import Path

import pytest

from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt

RECEIPTS = Path(__file__).parents[2] / "receipts"
KNOWN = {
    "h200/0.72.3-floor.json": Outcome.FLOOR,
    "h200/0.72.3.json": Outcome.PASS,
    "h200/0.72.3-per-token.json": Outcome.RED,
}


@pytest.mark.parametrize("name", KNOWN)
def test_it_verifies(name):
    assert verify_receipt(RECEIPTS / name).outcome is KNOWN[name]


def test_none_is_forgotten():
    beside = {"baseline.json", "reference.json"}
    found = {str(path.relative_to(RECEIPTS)) for path in RECEIPTS.glob("*/*.json") if path.name not in beside}
    assert found == set(KNOWN)


def test_the_one_token_prefill_is_red_on_the_rows_it_slowed_and_on_no_other():
    verdicts = verify_receipt(RECEIPTS / "h200/0.72.3-per-token.json").judgement.rows
    red = {str(row.row).split("/")[1] for row in verdicts if row.verdict == "RED"}
    assert red == {"ttft@850", "ttft@4096", "prefill@850", "prefill@4096"}

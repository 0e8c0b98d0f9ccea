"""The pages under docs/examples are what ``lqw report`` makes of the committed receipts today, not an older look."""

import difflib
import re

import pytest

from tests.report.examples import EXAMPLES, make, page_of, receipts

OF_THE_MOMENT = re.compile(r"(?<=this is lqw )\S+ source [0-9a-f]{12}")  # what renders it: every commit changes that


def test_every_receipt_has_its_page_and_no_page_is_without():
    assert sorted(EXAMPLES.glob("*.html")) == sorted(map(page_of, receipts()))
    assert receipts()


@pytest.mark.parametrize("receipt", receipts(), ids=lambda one: one.stem)
def test_an_example_page_is_todays(receipt):
    made, kept = (OF_THE_MOMENT.sub("", text) for text in (make(receipt), page_of(receipt).read_text()))
    changed = [line[:200] for line in difflib.ndiff(kept.splitlines(), made.splitlines()) if line[0] in "+-"]
    assert made == kept, f"{changed[:6]} … remake it: python -m tests.report.examples"

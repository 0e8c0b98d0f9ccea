"""The table of rows × engines, from committed receipts, agrees with what docs/measured/h200.md says."""

from pathlib import Path

import pytest

from lqw.errors import UsageError
from lqw.report.columns import columns_md

ROOT = Path(__file__).parents[2]
RECEIPTS = ROOT / "receipts" / "h200"


def test_the_numbers_are_those_of_the_page():
    made = columns_md([RECEIPTS / "0.72.3-floor.json", RECEIPTS / "0.72.3-per-token.json"])
    lines = {line.split(" | ")[0].removeprefix("| "): line.strip("| ").split(" | ") for line in made.splitlines()}
    assert lines["synthetic-qwen3.5-0.8b"][1:5] == ["comparator", "0.72.3-floor", "ratio", "SD of pairs"]
    assert lines["ttft@850"][3:5] == ["1.57×", "2.9 %"]
    assert lines["ttft@850"][6] == "62.0×"
    assert lines["decode"][3] == "0.11×"
    page = (ROOT / "docs/measured/h200.md").read_text()
    assert "| ttft@850 | 68.0 ms | 108.1 ms | 1.57× | 2.9 % |" in page
    assert "FAILED" in lines["ttft_cached@4096"]


def test_what_does_not_verify_gives_no_numbers(tmp_path):
    edited = tmp_path / "edited.json"
    edited.write_bytes((RECEIPTS / "0.72.3.json").read_bytes().replace(b'"seed":', b'"seed":1'))
    with pytest.raises(UsageError, match=r"edited\.json"):
        columns_md([edited])
    with pytest.raises(UsageError, match="no receipt"):
        columns_md([])

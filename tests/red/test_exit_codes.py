"""``lqw gate`` on five committed cases gives 0, 1, 2, 3 and 4; the journals are recorded from real runs."""

from pathlib import Path

import pytest

from tests.support.command import lqw

CASES = Path(__file__).parents[1] / "fixtures" / "selftest"


@pytest.mark.parametrize(
    ("status", "release", "case", "said"),
    [
        (0, "1.1.0", "healthy", "PASS"),
        (1, "1.2.0-one-token-prefill", "one-token-prefill", "prefill@512"),
        (2, "9.9.9-misspelt", "healthy", "remedy:"),
        (3, "1.3.0-other-tokens", "different-tokens", "VOID_CORRECTNESS"),
        (4, "1.1.0", "tampered", "INVALID"),
    ],
)
def test_each_case_ends_as_the_table_says(status, release, case, said, tmp_path):
    ended, told = lqw(
        tmp_path, "gate", CASES / f"params/demo/{release}.yaml",
        "--journal", CASES / case / "samples.jsonl", "--run", tmp_path / "run", "--quiet",
    )  # fmt: skip
    assert ended == status, told
    assert said in told
    assert (tmp_path / "run").exists() == (status != 2)

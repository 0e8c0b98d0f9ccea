"""``lqw gate`` on five committed cases gives 0, 1, 2, 3 and 4; the journals are recorded from real runs."""

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "fixtures" / "selftest"
LQW = [sys.executable, "-c", "from lqw.cli.app import main; main()"]


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
    done = subprocess.run(
        [
            *LQW, "gate", str(CASES / f"params/demo/{release}.yaml"),
            "--journal", str(CASES / case / "samples.jsonl"), "--run", str(tmp_path / "run"), "--quiet",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert (tmp_path / "run").exists() == (status != 2)

"""``python -m tests.report.examples``: make the pages under docs/examples anew, each from its committed receipt."""

import sys
import tempfile
from pathlib import Path

from lqw.report import render

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def receipts():
    """Return the receipts of real runs that have a page."""
    return sorted((ROOT / "receipts" / "h200").glob("[0-9]*.json"))


def page_of(receipt):
    """Return where the page of a receipt is kept."""
    return EXAMPLES / f"{receipt.parent.name}-{receipt.stem}.html"


def make(receipt):
    """Return the page that ``lqw report`` makes of a receipt, its text."""
    with tempfile.TemporaryDirectory() as folder:
        return render(receipt, Path(folder)).read_text()


def main():
    """Make every page anew, and print where it lies."""
    for receipt in receipts():
        page_of(receipt).write_text(make(receipt))
        sys.stdout.write(f"{page_of(receipt).relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()

"""The report of a run: ``report.html``, ``summary.md`` and ``junit.xml`` from a receipt and its executed notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.canonical import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["render"]


def render(run_dir: Path, out: Path | None = None, broken: Sequence[str] = ()) -> Path:
    """Write the three files of a run's report and return the path of ``report.html``.

    Parameters
    ----------
    run_dir : Path
        A run folder, or a receipt file. Without a readable receipt the page is INCOMPLETE, NOT A VERDICT.
    out : Path, optional
        Folder to write into; the run folder (or the receipt's) by default.
    broken : sequence of str
        Why the chain broke, if it did. Any makes the page INCOMPLETE whatever the receipt says.

    Raises
    ------
    OSError
        If *out* cannot be written. Bad content never raises.
    """
    from lqw.report.gather import gather_receipt, gather_run  # noqa: PLC0415 - papermill needs a page's words, not these
    from lqw.report.html import page_html  # noqa: PLC0415 - nbconvert takes 0.7 s to load
    from lqw.report.junit import junit_xml  # noqa: PLC0415
    from lqw.report.markdown import summary_md  # noqa: PLC0415

    whole = run_dir.is_dir()
    facts = gather_run(run_dir, broken=broken) if whole else gather_receipt(run_dir, broken=broken)
    folder = out or (run_dir if whole else run_dir.parent)
    page = folder / "report.html"
    write_atomic(page, page_html(facts).encode())
    write_atomic(folder / "summary.md", summary_md(facts).encode())
    write_atomic(folder / "junit.xml", junit_xml(facts).encode())
    return page

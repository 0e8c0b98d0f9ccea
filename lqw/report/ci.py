"""What CI shows of a verification: a comment for a pull request, JUnit, and GitHub's annotations and step summary."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from lqw.outcomes import RowVerdict
from lqw.release.findings import Weight
from lqw.report import tables, words
from lqw.report.junit import case, document
from lqw.report.markdown import escape, span, table
from lqw.report.words import BLOCKING, KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.release.findings import Finding
    from lqw.release.floors import GiveUp
    from lqw.release.page import Page, Section
    from lqw.report.tables import Line

__all__ = ["MARKER", "comment_md", "github_commands", "page_junit"]

MARKER = "<!-- lqw-verify -->"
"""First line of a comment, by which a workflow finds its own earlier one."""
_SHOWN = "\N{REPLACEMENT CHARACTER}"
MOST_FINDINGS = 10
MOST_ROWS = 12  # lines of all tables together, shared among the receipts
MOST_SECTIONS = 6


def comment_md(page: Page, *, link: str = "") -> str:
    """Return a comment of at most about 60 lines: verdict, counts, worst rows, what was given up, link.

    Parameters
    ----------
    page : Page
    link : str, optional
        Where the whole is to be read; shown as it is, so it must be ours.
    """
    kind = Kind(str(page.outcome))
    out = [MARKER, f"## {KINDS[kind].symbol} {page.outcome} {escape(page.title)}", "", escape(page.sentence)[:600], ""]
    out += [f"- {escape(str(one))[:400]}" for one in page.findings[:MOST_FINDINGS]]
    if len(page.findings) > MOST_FINDINGS:
        out.append(f"- and {len(page.findings) - MOST_FINDINGS} more findings")
    shown = page.sections[:MOST_SECTIONS]
    room = max(4, MOST_ROWS // max(1, len(shown)))
    for section in shown:
        out += ["", f"**{escape(section.title)}** {span(section.counts)}", "", *_rows(section, room)]
        if section.give_up is not None:
            out += ["", escape(_given_up(section.give_up))]
    if len(page.sections) > len(shown):
        out += ["", f"and {len(page.sections) - len(shown)} more receipts"]
    facts = ", ".join(f"{name} {span(value)}" for name, value in page.facts)
    out += ["", facts] if facts else []
    if page.not_checked:
        out += ["", f"Not checked: {escape('; '.join(page.not_checked))[:600]}"]
    out += ["", f"[the run that says so]({link})"] if link else []
    return "".join(one if one.isprintable() or one == "\n" else _SHOWN for one in "\n".join(out)) + "\n"


def _lines(section: Section) -> list[Line]:
    """Return the rows as text, the worst first."""
    judged = section.verified.judgement if section.verified else None
    rows = () if judged is None else judged.rows
    worst = sorted(rows, key=lambda row: (row.verdict not in BLOCKING, row.against_floor or 9.0))
    return [tables.line_of(row) for row in worst]


def _rows(section: Section, room: int) -> list[str]:
    lines = _lines(section)
    return table(lines, room + 4) if lines else ["no row was judged"]


def _given_up(fallen: GiveUp) -> str:
    worst = ", ".join(f"{row} {words.change(ratio)}" for row, ratio in fallen.rows[:3])
    return f"Since the first release: {words.change(fallen.total)} over all rows; most of all {worst}."


def page_junit(page: Page) -> str:
    """Return JUnit XML: a suite per receipt with one case per row, and one suite with a case per finding."""
    root = ET.Element("testsuites", name=f"lqw verify {page.title}: {page.outcome}")
    for section in page.sections:
        suite = ET.SubElement(root, "testsuite", name=section.title)
        for line in _lines(section):
            said = (
                f"{line.verdict}: ratio {line.ratio}, floor {line.floor} ({line.fall}), band {line.band}. {line.note}"
            )
            error = line.verdict in (str(RowVerdict.FAILED), str(RowVerdict.MISSING))
            trouble = line.verdict if line.blocking else ""
            case(suite, line.id, trouble=trouble, kind="error" if error else "failure", message=said)
    whole = ET.SubElement(root, "testsuite", name="verification")
    for one in page.findings:
        kind = "failure" if one.weight is Weight.RED else "error"
        case(whole, f"{one.check} {one.host}".strip(), trouble=str(one.weight), kind=kind, message=one.text)
    blocked = "" if int(page.exit_status) == 0 else str(page.outcome)
    case(whole, "verdict", trouble=blocked, kind="failure", message=page.sentence)
    return document(root)


def github_commands(page: Page) -> Iterator[str]:
    """Yield GitHub workflow commands: an error per finding, and one line with the verdict, whatever it is."""
    for one in page.findings:
        yield _command("error", str(one.weight), one)
    level = "notice" if int(page.exit_status) == 0 else "error"
    yield f"::{level} title={_property(f'lqw {page.title}: {page.outcome}')}::{_data(page.sentence)}"


def _command(level: str, word: str, one: Finding) -> str:
    title = f"{word} {one.check}{f' on {one.host}' if one.host else ''}"
    return f"::{level} title={_property(title)}::{_data(one.text)}"


def _data(text: str) -> str:
    """Escape as the runner unescapes; every control character else is shown, so that no line can start a command."""
    safe = "".join(letter if letter.isprintable() else _SHOWN for letter in text[:1_000])
    return safe.replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

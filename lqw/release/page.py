"""What a verification says, in one shape for terminal, JSON, Markdown, JUnit and annotations alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.errors import Exit
from lqw.outcomes import Outcome
from lqw.release.findings import Finding, Weight

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from lqw.receipt import Verification
    from lqw.release.floors import GiveUp
    from lqw.release.history import HistoryVerdict
    from lqw.release.tag import TagVerdict

__all__ = [
    "Page",
    "Section",
    "page_of_history",
    "page_of_receipts",
    "page_of_tag",
    "page_to_json",
    "text_lines",
]

MOST = 12
_ORDER = (Exit.INVALID, Exit.RED, Exit.UNDECIDED, Exit.PASS)
_OUTCOME = {
    Exit.PASS: Outcome.PASS,
    Exit.RED: Outcome.RED,
    Exit.UNDECIDED: Outcome.UNDECIDED,
    Exit.INVALID: Outcome.INVALID,
}


@dataclass(frozen=True, slots=True)
class Section:
    """One receipt: where it is, what it is worth, what speaks against it, what was given up since the first release."""

    title: str
    path: str
    verified: Verification | None
    findings: tuple[Finding, ...] = ()
    give_up: GiveUp | None = None

    @property
    def counts(self) -> str:
        """Return the counts line, which is always there."""
        if self.verified is None:
            return "rows: planned 0, measured 0, gating 0, void 0, failed 0"
        return str(self.verified.counts)


@dataclass(frozen=True, slots=True)
class Page:
    """The whole.

    Attributes
    ----------
    title : str
        What was looked at.
    exit_status : Exit
    sentence : str
    sections : tuple of Section
    findings : tuple of Finding
        All, those of the sections included, the heaviest first.
    facts : tuple of (name, value)
    not_checked : tuple of str
    """

    title: str
    exit_status: Exit
    sentence: str
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Return the word for the exit status."""
        return _OUTCOME[self.exit_status]


def page_of_tag(verdict: TagVerdict) -> Page:
    """Return what a tag's verdict says."""
    sections = tuple(
        Section(f"{verdict.version} on {one.host}", one.path, one.verified, one.findings, one.give_up)
        for one in verdict.hosts
    )
    facts = (
        ("commit", verdict.commit),
        ("tag", "is there" if verdict.exists else "is not there yet"),
        ("release file", verdict.params or "none"),
        ("who may sign", verdict.signers or "nobody was asked"),
        ("day", verdict.day),
    )
    return Page(
        verdict.tag, verdict.exit_status, verdict.sentence, sections, verdict.findings, facts, verdict.not_checked
    )


def page_of_receipts(done: Sequence[tuple[Path, Verification]], *, stored: bool = False) -> Page:
    """Return what several receipts say; the worst decides, and none at all is never a pass.

    With *stored* they are a store's, which keeps every attempt for ever: what decides is whether each is what it was. A
    RED that verifies is as it should be, and only INVALID counts against the store.
    """
    statuses = {one.exit_status for _, one in done}
    status = _status_of(statuses, stored=stored)
    sections = tuple(
        Section(f"{one.release or path.name} on {one.host or '?'}", str(path), one, tuple(_against(str(path), one)))
        for path, one in done
    )
    findings = tuple(
        finding
        for section in sections
        for finding in section.findings
        if not stored or finding.weight is Weight.INVALID
    )
    said = Counter(str(one.outcome) for _, one in done)
    listed = ", ".join(f"{count} {word}" for word, count in sorted(said.items()))
    sentence = f"{_OUTCOME[status]}: {len(done)} receipts judged again: {listed}"
    if stored and status is Exit.PASS:
        sentence = f"PASS: all {len(done)} receipts of the store are what they were: {listed}"
    elif len(done) == 1 and done[0][1].judgement is not None and not done[0][1].problems:
        sentence = done[0][1].judgement.sentence
    notes = tuple(dict.fromkeys(text for _, one in done for text in one.not_checked))
    return Page(f"{len(done)} receipts", status, sentence, sections, findings, (), notes)


def _status_of(statuses: Collection[Exit], *, stored: bool = False) -> Exit:
    """Return the exit status of several receipts: the worst, and of a store's INVALID or PASS; none is UNDECIDED."""
    if stored and statuses and Exit.INVALID not in statuses:
        return Exit.PASS
    return next((one for one in _ORDER if one in statuses), Exit.UNDECIDED)


def _against(path: str, one: Verification) -> Iterator[Finding]:
    for problem in one.problems:
        yield Finding(Weight.INVALID, "receipt", f"{path}: {problem}", one.host)
    if not one.problems and one.exit_status is not Exit.PASS:
        said = one.judgement.sentence if one.judgement else str(one.outcome)
        yield Finding(Weight(str(one.outcome)), "receipt", f"{path}: {said}", one.host)


def page_of_history(verdict: HistoryVerdict) -> Page:
    """Return what a history's verdict says."""
    facts = (("commit", verdict.commit), ("commits looked at", str(verdict.commits)), ("files", str(verdict.files)))
    return Page(
        "history of receipts", verdict.exit_status, verdict.sentence, (), verdict.findings, facts, verdict.not_checked
    )


def text_lines(page: Page) -> Iterator[str]:
    """Yield the page as lines for a terminal, not yet made harmless."""
    yield f"{page.title}: {page.outcome} (exit {int(page.exit_status)})"
    yield f"  {page.sentence}"
    for name, value in page.facts:
        yield f"  {name}: {value}"
    for section in page.sections:
        said = "no receipt" if section.verified is None else str(section.verified.outcome)
        yield f"  {section.title}: {said}; {section.counts}"
        if section.give_up is not None:
            yield f"    given up since the first release: {_change(section.give_up.total)} over all rows"
        for text in section.verified.signed_by if section.verified else ():
            yield f"    signed by {text}"
    for finding in page.findings[:MOST]:
        yield f"  {finding}"
    if len(page.findings) > MOST:
        yield f"  and {len(page.findings) - MOST} more findings (--json lists all)"
    for text in page.not_checked:
        yield f"  not checked: {text}"


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def page_to_json(page: Page) -> dict[str, Any]:
    """Return the form of ``--json``."""
    from lqw.verdict import judgement_to_json  # noqa: PLC0415 - a text needs none of it

    def finding(one: Finding) -> dict[str, str]:
        return {"weight": str(one.weight), "check": one.check, "host": one.host, "text": one.text}

    return {
        "schema": "lqw-verified/1",
        "title": page.title,
        "outcome": str(page.outcome),
        "exit_status": int(page.exit_status),
        "sentence": page.sentence,
        "facts": dict(page.facts),
        "findings": [finding(one) for one in page.findings],
        "receipts": [
            {
                "title": one.title,
                "path": one.path,
                "counts": one.verified.counts.model_dump() if one.verified else None,
                "receipt_sha256": one.verified.receipt_sha256 if one.verified else None,
                "signed_by": list(one.verified.signed_by) if one.verified else [],
                "give_up": None
                if one.give_up is None
                else {"total": one.give_up.total, "rows": dict(one.give_up.rows)},
                "judgement": judgement_to_json(one.verified.judgement)
                if one.verified and one.verified.judgement
                else None,
            }
            for one in page.sections
        ],
        "not_checked": list(page.not_checked),
    }

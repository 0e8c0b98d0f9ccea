"""What every renderer says, in the same words and order: headline, sentence, counts, reasons, rows, margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.report import reproduce, tables, words
from lqw.report.words import KINDS, Kind

if TYPE_CHECKING:
    from lqw.report.facts import Facts
    from lqw.report.tables import Line

__all__ = ["again", "counts", "headline", "lines", "margin", "reasons", "sentence"]


def headline(facts: Facts) -> tuple[str, str]:
    """Return the verdict's word with its punctuation, and what it tells the captain to do."""
    kind, release = facts.kind, facts.release
    if kind is Kind.INCOMPLETE:
        return "INCOMPLETE,", f"NOT A VERDICT on {release}"
    if kind is Kind.PASS:
        return "PASS:", f"{release} may be tagged"
    if kind is Kind.FLOOR:
        return "FLOOR:", f"{release} is measured, nothing was judged"
    if kind is Kind.UNDECIDED:
        return "UNDECIDED:", f"do not tag {release} yet"
    return f"{kind}:", f"do not tag {release}"


def sentence(facts: Facts) -> str:
    """Return the one sentence of the banner."""
    if facts.kind is Kind.INCOMPLETE:
        stage = next((stage for stage in facts.stages if stage.state in ("broke", "stopped")), None)
        why = facts.problems[0] if facts.problems else "there is no receipt"
        where = f"It ended in {stage.name}" if stage else "It ended before the verdict"
        return f"{KINDS[facts.kind].meaning} {where}: {why}"
    if facts.judgement is None:
        return KINDS[facts.kind].meaning
    said = facts.judgement.sentence.removeprefix(f"{facts.judgement.outcome}: ")
    return said[:1].upper() + said[1:] if said.split(" ", 1)[0].isalpha() else said  # a row's name keeps its case


def counts(facts: Facts) -> str:
    """Return the counts line, which is always printed; unjudged rows count as failed."""
    if facts.judgement is not None and facts.kind is not Kind.INCOMPLETE:
        return str(facts.judgement.counts)
    planned = len(facts.planned)
    return f"rows: planned {planned}, measured 0, gating 0, void 0, failed {planned}"


def reasons(facts: Facts) -> list[str]:
    """Return everything that blocks, each named, and what does not verify."""
    if facts.judgement is None or facts.kind is Kind.INCOMPLETE:
        return list(facts.problems)
    return [*facts.judgement.reasons, *facts.problems]


def lines(facts: Facts) -> list[Line]:
    """Return every planned row as text, in the plan's order; without a verdict none is judged."""
    if facts.judgement is None or facts.kind is Kind.INCOMPLETE:
        return [tables.planned_line(row) for row in facts.planned]
    return [tables.line_of(row) for row in facts.rows]


def margin(facts: Facts) -> tuple[str, float]:
    """Return the margin class in words, with its declared reason, and its fraction."""
    host = facts.params.get("host")
    spec = host.get("margin", {}) if isinstance(host, dict) else {}
    policy = facts.plan.get("policy", {})
    letter = spec.get("letter") or policy.get("margin_class") or "A"
    fraction = float(spec.get("fraction") or policy.get("margin") or 0.10)
    text = f"Margin class {letter}: a PASS excludes, row by row, a loss of {words.percent(fraction)} against the floor."
    if reason := spec.get("reason"):
        text += f" Why this class: {reason}"
    return text, fraction


def again(facts: Facts) -> list[tuple[str, str]]:
    """Return what to type to measure and to judge again."""
    return reproduce.commands(facts)

"""What every renderer says, in the same words and order: headline, sentence, counts, reasons, rows, margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.metrics.digits import percent
from lqw.report import reproduce, tables, words
from lqw.report.words import KINDS, Kind

if TYPE_CHECKING:
    from lqw.report.facts import Facts
    from lqw.report.tables import Line
    from lqw.verdict.results import RowResult

__all__ = [
    "again",
    "blocking_groups",
    "chain",
    "counts",
    "group_name",
    "headline",
    "lines",
    "margin",
    "other_reasons",
    "reasons",
    "sentence",
    "third_arm",
]


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
        where = f"It ended in {stage.name}" if stage else "It ended before the verdict"
        why = facts.problems[0] if facts.problems else stage.broke[-1].strip() if stage and stage.broke else ""
        return f"{KINDS[facts.kind].meaning} {where}{f': {why}' if why else '.'}"
    if facts.judgement is None or (facts.kind is Kind.INVALID and facts.problems):
        first = f" {facts.problems[0]}" if facts.problems else ""
        return f"{KINDS[facts.kind].meaning}{first}"
    said = facts.judgement.sentence.removeprefix(f"{facts.judgement.outcome}: ")
    return said[:1].upper() + said[1:] if said.split(" ", 1)[0].isalpha() else said  # a row's name keeps its case


def counts(facts: Facts) -> str:
    """Return the counts line, which is always printed; unjudged rows count as failed."""
    if facts.judgement is not None and facts.kind is not Kind.INCOMPLETE:
        return str(facts.judgement.counts)
    planned = len(facts.planned)
    return f"rows: planned {planned}, measured 0, gating 0, void 0, failed {planned}"


def blocking_groups(facts: Facts) -> list[list[RowResult]]:
    """Return the rows that block, the worst first; rows of a model that share one reason stand together."""
    groups: dict[tuple[str, ...], list[RowResult]] = {}
    for row in facts.blocking:
        why = (row.row.model, str(row.reason.reason), row.reason.detail) if row.reason else (str(row.row),)
        groups.setdefault((str(row.verdict), *why), []).append(row)
    return list(groups.values())


def group_name(rows: list[RowResult], facts: Facts) -> str:
    """Name rows that share one reason: by id, or all of a model at once."""
    if len(rows) == 1:
        return str(rows[0].row)
    model = rows[0].row.model
    whole = len(rows) == sum(row.model == model for row in facts.planned)
    return f"all {len(rows)} rows of {model}" if whole else f"{', '.join(row.row.short for row in rows)} of {model}"


def other_reasons(facts: Facts) -> list[str]:
    """Return what blocks besides rows, and what does not verify; a row's own reason stands with the row."""
    if facts.judgement is None or facts.kind is Kind.INCOMPLETE:
        return list(facts.problems)
    named = [name for row in facts.blocking for name in (str(row.row), f"{row.row.short} of {row.row.model}")]
    found = [reason for reason in facts.judgement.reasons if not any(name in reason for name in named)]
    return list(dict.fromkeys([*found, *facts.problems]))


def reasons(facts: Facts) -> list[str]:
    """Return everything that blocks, each named: rows first, then the rest."""
    if facts.judgement is None or facts.kind is Kind.INCOMPLETE:
        return list(facts.problems)
    told = []
    for rows in blocking_groups(facts):
        row, name = rows[0], group_name(rows, facts)
        clause = f"{row.reason.reason}: {row.reason.detail}" if row.reason else row.text
        told.append(f"{words.SYMBOLS[row.verdict]} {str(row.verdict).replace('_', ' ')} {name}: {clause}")
    return [*told, *other_reasons(facts)]


def chain(facts: Facts) -> list[str]:
    """Return how far each notebook of a broken chain came, with the last line of its error; nothing otherwise."""
    if facts.kind is not Kind.INCOMPLETE:
        return []
    return [
        f"{stage.name}: {stage.state}"
        + (f", {stage.executed} of {stage.cells} code cells" if stage.cells else "")
        + (f": {stage.broke[-1].strip()}" if stage.broke and stage.state == "broke" else "")
        for stage in facts.stages
    ]


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
    text = f"Margin class {letter}: a PASS excludes, row by row, a loss of {percent(fraction)} against the floor."
    if reason := spec.get("reason"):
        text += f" Why this class: {reason}"
    return text, fraction


def third_arm(facts: Facts) -> str:
    """Say in one sentence what the confirmation batch came to; empty where nothing asked for one."""
    judged = facts.judgement
    if judged is None or facts.kind is Kind.INCOMPLETE:
        return ""
    found = [one for _, one in tables.confirmed_of(judged)]
    if not found:
        return ""
    states, releases = [one.state for one in found], sorted({one.release for one in found})
    tally = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
    return f"Third arm: candidate, {', '.join(releases)} and comparator measured side by side once more: {tally}."


def again(facts: Facts) -> list[tuple[str, str]]:
    """Return what to type to measure and to judge again."""
    return reproduce.commands(facts)

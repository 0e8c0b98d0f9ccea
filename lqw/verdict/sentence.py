"""The verdict in words: what blocks, most severe first, and one sentence that a release captain can act on."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lqw.metrics.digits import percent
from lqw.outcomes import Outcome, Purpose, RowVerdict
from lqw.verdict.rows import BLOCKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lqw.plan import Plan
    from lqw.verdict.results import Counts, GuardFinding, RowResult, SuiteResult

__all__ = ["Findings", "reasons_of", "sentence_of"]

NAMED = 3  # how many things the sentence names; the rest are counted
_SEVERITY = (
    RowVerdict.SHIFT,
    RowVerdict.VOID,
    RowVerdict.FAILED,
    RowVerdict.MISSING,
    RowVerdict.MISSING_FLOOR,
    RowVerdict.SUSPECT,
    RowVerdict.INCONCLUSIVE,
)


_NAMES = {RowVerdict.RED: "RED-UNCONFIRMED", RowVerdict.SUSPECT: "TOO GOOD, UNCONFIRMED"}
UNCONFIRMED = (
    "RED-UNCONFIRMED: no third arm was measured; name the binary of the floor-setting release (path and sha256) "
    "to tell a slower engine from a changed machine; it blocks either way"
)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was found, before words."""

    problems: Sequence[str]
    rows: Sequence[RowResult]
    suites: Sequence[SuiteResult]
    guards: Sequence[GuardFinding]
    dropped: Sequence[str]

    @property
    def first(self) -> list[str]:
        """Return what outranks rows that are merely undecided: broken evidence, RED, guards, dropped rows."""
        invalid = [guard.text for guard in self.guards if guard.effect == "invalid" and guard.guard != "integrity"]
        null = [guard.text for guard in self._blocking("null_control")]
        one_token = [f"{guard.text} ({guard.subject})" for guard in self.guards if guard.effect == "red"]
        red = [_named(row) for row in self.rows if row.verdict is RowVerdict.RED]
        suites = [_suite(suite) for suite in self.suites if suite.red and not suite.is_shift]
        shifts = [f"SHIFT: {_suite(suite)}" for suite in self.suites if suite.is_shift]
        epoch = [guard.text for guard in self.guards if guard.guard == "epoch"]
        loud = [
            f"too loud for a floor: {g.text}; quiet the machine and measure again" for g in self._blocking("dispersion")
        ]
        shown = {str(row.row) for row in self.rows if row.verdict is RowVerdict.SUSPECT}  # they say it themselves
        moved = [guard.text for guard in self._blocking("comparator_history") if guard.subject not in shown]
        gone = [f"{row} has a floor but is no longer measured: it needs a retire record" for row in self.dropped]
        parity = [f"parity of {guard.subject}: {guard.text}" for guard in self._blocking("parity")]
        return [
            *self.problems,
            *invalid,
            *null,
            *one_token,
            *red,
            *suites,
            *shifts,
            *epoch,
            *parity,
            *loud,
            *moved,
            *gone,
        ]

    def _blocking(self, name: str) -> list[GuardFinding]:
        return [guard for guard in self.guards if guard.guard == name and guard.effect == "undecided"]

    @property
    def undecided(self) -> list[RowResult]:
        """Return the rows that block without being RED, most severe first."""
        rows = [row for row in self.rows if row.verdict in BLOCKING and row.verdict is not RowVerdict.RED]
        return sorted(rows, key=lambda row: _SEVERITY.index(row.verdict))


def reasons_of(findings: Findings) -> tuple[str, ...]:
    """Return everything that blocks, each row by its name, most severe first."""
    rows = [f"{row.verdict} {_named(row)}" for row in findings.undecided]
    return (*findings.first, *_unconfirmed(findings), *rows)


def _unconfirmed(findings: Findings) -> list[str]:
    """Say what a confirmation lacks: the binary of an earlier release, or why it was not measured."""
    asked = [
        (row.verdict, row.confirmation)
        for row in findings.rows
        if not row.confirmed
        and (row.verdict is RowVerdict.RED or (row.verdict is RowVerdict.SUSPECT and row.confirmation is not None))
    ]
    asked += [
        (RowVerdict.RED, suite.confirmation)
        for suite in findings.suites
        if suite.red and (suite.confirmation is None or suite.confirmation.state == "NOT MEASURED")
    ]
    said = [
        UNCONFIRMED if found is None else f"{_NAMES[verdict]}: {found.text}; it blocks either way"
        for verdict, found in asked
    ]
    return list(dict.fromkeys(said))


def _named(row: RowResult) -> str:
    return f"{row.row.short} of {row.row.model} {row.text}" if row.gating else f"{row.row}: {row.text}"


def _suite(suite: SuiteResult) -> str:
    level, limit = math.exp(suite.mean_delta), math.exp(suite.threshold)
    third = suite.confirmation
    said = f"; {third.text}" if third is not None and third.state != "NOT MEASURED" else ""
    return (
        f"the {suite.rows} {suite.family} rows together are at {level:.3f}× their floors (RED below {limit:.3f}){said}"
    )


def sentence_of(plan: Plan, outcome: Outcome, findings: Findings, counts: Counts) -> str:
    """Return the verdict as one sentence."""
    if outcome is Outcome.PASS:
        return f"PASS: {_passed(plan, counts, findings.rows)}."
    if outcome is Outcome.FLOOR:
        pairs = plan.policy.floor_pairs
        return f"FLOOR: all {counts.measured} rows of {plan.release} measured with {pairs} pairs each, nothing gated."
    told = [*findings.first, *_grouped(findings.undecided, plan.policy.margin)]
    if counts.measured == 0 and outcome is Outcome.UNDECIDED:
        told.insert(0, f"nothing valid was measured, and zero rows never {_verb(plan)}")
    more = len(told) - NAMED
    return f"{outcome}: {'; '.join(told[:NAMED])}{f'; and {more} more' if more > 0 else ''}."


def _verb(plan: Plan) -> str:
    return "make a floor" if plan.purpose is Purpose.ADOPT else "pass"


def _grouped(rows: Sequence[RowResult], margin: float) -> list[str]:
    """Say once what several rows share: ``5 rows VOID (a, b, c and 2 more): …``."""
    groups: dict[tuple[RowVerdict, str], list[RowResult]] = defaultdict(list)
    for row in rows:
        groups[row.verdict, "" if row.verdict in _SUMMED else row.text].append(row)
    out = []
    for (verdict, text), members in groups.items():
        if len(members) == 1:
            out.append(f"{verdict}: {_named(members[0])}")
            continue
        names = ", ".join(str(row.row) for row in members[:NAMED])
        more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
        said = _SUMMED[verdict](members, margin) if verdict in _SUMMED else _brief(text)
        out.append(f"{len(members)} rows {verdict} ({names}{more}): {said}")
    return out


def _brief(text: str) -> str:
    """Say where tokens part, and leave to the reasons which they were: a banner is read in three seconds."""
    where, parts, _ = text.partition(" differs: ")
    return f"{where} differs" if parts else text


def _open(rows: Sequence[RowResult], margin: float) -> str:
    """Say of many inconclusive rows what none of them can exclude, and what would decide them."""
    worst = min(rows, key=lambda row: row.lower_ratio or 0.0)
    loss = percent(1 - (worst.lower_ratio or 0.0))
    text = f"losses of up to {loss} ({worst.row}) cannot be excluded, margin {percent(margin)}"
    needs = [row.pairs_needed for row in rows if row.pairs_needed is not None]
    if needs:
        text += f"; about {max(needs)} pairs would decide {'all' if len(needs) == len(rows) else len(needs)} of them"
    hopeless = len(rows) - len(needs)
    return text + (f"; more pairs alone will not decide {hopeless}" if hopeless else "")


def _shifted(rows: Sequence[RowResult], _margin: float) -> str:
    releases = ", ".join(sorted({row.confirm_with or "" for row in rows}))
    return f"NOT CONFIRMED, {releases} measured side by side has moved as well: the machine, not the engine alone"


_SUMMED: dict[RowVerdict, Callable[[Sequence[RowResult], float], str]] = {
    RowVerdict.INCONCLUSIVE: _open,
    RowVerdict.SHIFT: _shifted,
}
"""Verdicts whose rows all have words of their own, summed up where there are several."""


def _passed(plan: Plan, counts: Counts, rows: Sequence[RowResult]) -> str:
    gating = [row for row in rows if row.gating and row.lower_ratio is not None]
    weakest = min(gating, key=lambda row: row.lower_ratio or 0.0)
    improved = [row.row.short for row in rows if row.verdict is RowVerdict.IMPROVED]
    text = f"{counts.gating} of {counts.planned} rows of {plan.release} hold their floors"
    text += f"; the largest loss that cannot be excluded is {percent(max(1 - (weakest.lower_ratio or 0.0), 0.0))} "
    text += f"({weakest.row}), margin class {plan.policy.margin_class} allows {percent(plan.policy.margin)}"
    return text + (f"; improved: {', '.join(improved)}" if improved else "")

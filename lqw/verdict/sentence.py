"""The verdict in words: what blocks, most severe first, and one sentence that a release captain can act on."""

from __future__ import annotations

import math

from lqw.outcomes import Outcome, Purpose, RowVerdict
from lqw.verdict.rows import BLOCKING
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lqw.verdict.results import Counts, GuardFinding, RowResult, SuiteResult
    from lqw.plan import Plan
    from collections.abc import Sequence

__all__ = ["reasons_of", "sentence_of"]

NAMED = 3  # reasons that the sentence names; the rest are counted
UNCONFIRMED = (
    "RED-UNCONFIRMED: no third arm was measured; name the binary of the floor-setting release (path and sha256) "
    "to tell a slower engine from a changed machine. It blocks either way"
)

_SEVERITY = {
    RowVerdict.RED: 0,
    RowVerdict.SHIFT: 1,
    RowVerdict.VOID: 2,
    RowVerdict.FAILED: 3,
    RowVerdict.MISSING: 4,
    RowVerdict.MISSING_FLOOR: 5,
    RowVerdict.SUSPECT: 6,
    RowVerdict.INCONCLUSIVE: 7,
}


def reasons_of(
    rows: Sequence[RowResult],
    suites: Sequence[SuiteResult],
    guards: Sequence[GuardFinding],
    dropped: Sequence[str],
) -> tuple[str, ...]:
    """Return everything that blocks, each with its name, most severe first."""
    invalid = [guard.text for guard in guards if guard.effect == "invalid"]
    one_token = [guard.text + f" ({guard.subject})" for guard in guards if guard.effect == "red"]
    blocking = sorted((row for row in rows if row.verdict in BLOCKING), key=lambda row: _SEVERITY[row.verdict])
    red = [_row(row) for row in blocking if row.verdict is RowVerdict.RED]
    rest = [f"{row.verdict} {_row(row)}" for row in blocking if row.verdict is not RowVerdict.RED]
    broad = [
        f"the {suite.family} rows together are at {math.exp(suite.mean_delta):.3f}× their floors "
        f"(RED below {math.exp(suite.threshold):.3f}, {suite.rows} rows)"
        for suite in suites
        if suite.red
    ]
    stopped = [guard.text for guard in guards if guard.effect == "undecided"]
    gone = [f"{row} has a floor but is no longer measured: it needs a retire record" for row in dropped]
    confirm = [UNCONFIRMED] if (red and not all(r.confirmed for r in rows if r.verdict is RowVerdict.RED)) else []
    return (*invalid, *one_token, *red, *broad, *confirm, *stopped, *gone, *rest)


def _row(row: RowResult) -> str:
    return f"{row.row.short} of {row.row.model} {row.text}" if row.band else f"{row.row}: {row.text}"


def sentence_of(plan: Plan, outcome: Outcome, reasons: Sequence[str], counts: Counts, rows: Sequence[RowResult]) -> str:
    """Return the verdict as one sentence."""
    if outcome is Outcome.PASS:
        return f"PASS: {_passed(plan, counts, rows)}."
    if outcome is Outcome.FLOOR:
        pairs = plan.policy.floor_pairs
        return (
            f"FLOOR: all {counts.measured} rows of {plan.release} measured with {pairs} pairs each; nothing was gated."
        )
    if not reasons:
        wanted = "adopted" if plan.purpose is Purpose.ADOPT else "passed"
        return f"{outcome}: nothing was measured; zero rows are never {wanted}."
    told = [reason for reason in reasons if reason is not UNCONFIRMED]
    more = len(told) - NAMED
    tail = f"; and {more} more" if more > 0 else ""
    return f"{outcome}: {'; '.join(told[:NAMED])}{tail}."


def _passed(plan: Plan, counts: Counts, rows: Sequence[RowResult]) -> str:
    gating = [row for row in rows if row.gating and row.lower_ratio is not None]
    weakest = min(gating, key=lambda row: row.lower_ratio or 0.0)
    improved = [row.row.short for row in rows if row.verdict is RowVerdict.IMPROVED]
    text = f"{counts.gating} of {counts.planned} rows of {plan.release} hold their floors"
    text += f"; the largest loss that cannot be excluded is {max(1 - (weakest.lower_ratio or 0.0), 0.0):.0%} "
    text += f"({weakest.row}), margin class {plan.policy.margin_class} allows {plan.policy.margin:.0%}"
    return text + (f"; improved: {', '.join(improved)}" if improved else "")

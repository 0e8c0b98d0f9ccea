"""Rows, suites, guards and engines as lines of text: one wording for the page, the summary and the terminal."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.outcomes import Arm, RowState, RowVerdict
from lqw.report import words

if TYPE_CHECKING:
    from lqw.metrics import RowId
    from lqw.report.facts import Facts
    from lqw.samples import EngineFacts
    from lqw.verdict.evidence import Standing
    from lqw.verdict.results import Confirmation, GuardFinding, Judgement, RowResult, SuiteResult

__all__ = [
    "COLUMNS",
    "THIRD_ARM_HEADS",
    "Fall",
    "Line",
    "Setting",
    "confirmed_of",
    "fall_of",
    "guard_line",
    "line_of",
    "planned_line",
    "settings_table",
    "suite_line",
    "third_arm_lines",
    "whose_fault",
]

COLUMNS = ("ratio", "floor", "band", "last", "target", "verdict", "pairs", "subject", "comparator")
THIRD_ARM_HEADS = (
    "row or family", "beside", "tuples", "candidate", "older release", "side by side", "must pass", "says",
)  # fmt: skip
MACHINE_MOVED = 0.05  # STATISTICS §3: the comparator is suspect beyond max(5 %, 4·s)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table, every cell already text."""

    id: str
    model: str
    short: str
    title: str
    ratio: str
    words: str
    floor: str
    fall: str  # the change against the floor, "−46 %"
    band: str
    last: str
    target: str
    verdict: str
    symbol: str
    pairs: str
    subject: str
    comparator: str
    note: str  # the judge's clause, or why there is no number
    blocking: bool
    struck: bool  # void: numbers are shown, struck through
    gating: bool


@dataclass(frozen=True, slots=True)
class Fall:
    """How far both engines moved for one row: the answer to "is it us or the machine"."""

    row: str
    short: str
    clause: str
    subject: str
    comparator: str
    comparator_move: float | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it was read back from both servers."""

    name: str
    subject: str
    comparator: str
    differs: bool


def line_of(row: RowResult) -> Line:
    """Return a judged row as text."""
    void = row.state is RowState.VOID
    note = f"{row.reason.reason}: {row.reason.detail}" if row.reason is not None else row.text
    target = "–"
    if row.target is not None:
        target = f"{words.ratio(row.target.target)} {words.target_words(row.target.state, row.target.distance)}"
    return Line(
        id=str(row.row),
        model=row.row.model,
        short=row.row.short,
        title=words.describe(row.row),
        ratio=words.ratio(row.ratio),
        words=words.versus(row.ratio, row.family),
        floor=words.ratio(row.floor_ratio),
        fall=words.change(row.against_floor),
        band=words.band(row.band.band_fraction if row.band else None),
        last=words.ratio(row.last_ratio),
        target=target,
        verdict=str(row.verdict).replace("_", " "),
        symbol=words.SYMBOLS[row.verdict],
        pairs=str(row.n) if row.n else "–",
        subject=words.value(row.subject, row.unit),
        comparator=words.value(row.comparator, row.unit),
        note="; ".join((note, *row.flags)) if row.flags else note,
        blocking=row.verdict in words.BLOCKING,
        struck=void,
        gating=row.gating,
    )


def planned_line(row: RowId) -> Line:
    """Return a row that was planned and never judged."""
    dash = "–"
    title = words.describe(row)
    empty = (dash,) * 7
    return Line(
        str(row), row.model, row.short, title, *empty, "NOT JUDGED", "…", dash, dash, dash, "", True, False, False
    )  # fmt: skip


def _comparator_move(row: RowResult, standing: Standing) -> float | None:
    """Return ln of how far the comparator's own value moved since the floor's session, or the newest one known."""
    points = standing.comparator.get(row.row)
    if not points or row.comparator is None or row.comparator <= 0:
        return None
    then = next((point for point in points if point.release == row.floor_release), points[-1])
    return math.log(row.comparator) - then.mean


def fall_of(row: RowResult, standing: Standing) -> Fall:
    """Return what fell and which of the two engines moved.

    The subject's own move is the ratio's move plus the comparator's: ``Δ ln S = s·(D − F) + Δ ln C``.
    """
    sign = row.row.kind.sign
    moved = _comparator_move(row, standing)
    own = moved + sign * math.log(row.against_floor) if moved is not None and row.against_floor else None
    since = f" since {row.floor_release}" if row.floor_release else ""
    before = f" ({_signed(own)}{since})" if own is not None else ""
    beside = f" ({_signed(moved)}{since})" if moved is not None else ""
    clause = row.text
    if row.verdict is RowVerdict.RED and row.band is not None and row.band.red_by == "floor":
        noise = words.band(row.band.band_fraction)
        clause = words.against(row.against_floor, row.family, "its floor")
        clause += f" ({words.change(row.against_floor)}; noise explains {noise})"
    return Fall(
        row=str(row.row),
        short=row.row.short,
        clause=clause,
        subject=words.value(row.subject, row.unit) + before,
        comparator=words.value(row.comparator, row.unit) + beside,
        comparator_move=moved,
    )


def _signed(log_change: float) -> str:
    return words.change(math.exp(log_change)) if abs(log_change) >= 0.0005 else "unchanged"  # noqa: PLR2004 - 0.05 %


def whose_fault(facts: Facts) -> str:
    """Say in one sentence whether the subject or the machine moved; empty where nothing is RED.

    The comparator ran beside the subject on the same machine: if it kept its own speed, the machine did not move.
    """
    red = [row for row in facts.blocking if row.verdict is RowVerdict.RED]
    if not red:
        return ""
    moves = [move for row in red if (move := _comparator_move(row, facts.standing)) is not None]
    if not moves:
        return (
            "Both engines ran in turn on this machine; no earlier session of the comparator is known here, "
            "so its own speed cannot be checked against its history."
        )
    low, high = min(moves), max(moves)
    span = _signed(low) if math.isclose(low, high, abs_tol=0.0005) else f"{_signed(low)} … {_signed(high)}"
    if max(abs(low), abs(high)) <= MACHINE_MOVED:
        return f"It is us, not the machine: the comparator, run in turn with it, kept its own numbers ({span})."
    return (
        f"The machine moved too: the comparator's own numbers changed by {span}. The ratio already divides that "
        "out; look at the guards before blaming the release."
    )


def suite_line(suite: SuiteResult) -> tuple[str, str, str, str]:
    """Return family, mean change, limit and verdict of a suite test."""
    verdict = RowVerdict.SHIFT if suite.is_shift else RowVerdict.RED if suite.red else RowVerdict.PASS
    return (
        f"{suite.family} ({suite.rows} rows)",
        _signed(suite.mean_delta),
        words.change(math.exp(suite.threshold)),
        f"{words.SYMBOLS[verdict]} {verdict}",
    )


def third_arm_lines(judgement: Judgement) -> list[tuple[str, ...]]:
    """Return what the confirmation batch says, a line a row or family: :data:`THIRD_ARM_HEADS`."""
    return [_third_arm(name, one) for name, one in confirmed_of(judgement)]


def confirmed_of(judgement: Judgement) -> list[tuple[str, Confirmation]]:
    """Return every row and family that a third arm was asked about, by name."""
    found = [(str(row.row), row.confirmation) for row in judgement.rows]
    found += [(f"all {suite.family} rows", suite.confirmation) for suite in judgement.suites]
    return [(name, one) for name, one in found if one is not None]


def _third_arm(name: str, one: Confirmation) -> tuple[str, ...]:
    if one.state == "NOT MEASURED":
        return (name, one.release, "–", "–", "–", "–", "–", f"not measured: {one.text}")
    numbers = (one.candidate_ratio, one.earlier_ratio, one.difference, one.limit)
    return (name, one.release, str(one.n), *map(words.ratio, numbers), one.state.lower())


EFFECTS = {
    "none": "✓ holds",
    "flag": "! flagged",
    "undecided": "? blocks (undecided)",
    "red": "✕ RED",
    "invalid": "≠ invalid",
}


def guard_line(guard: GuardFinding) -> tuple[str, str, str, str]:
    """Return guard, what it speaks of, effect and text."""
    return guard.guard.replace("_", " "), guard.subject, EFFECTS[guard.effect], guard.text


def _plain(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, sort_keys=True)


def settings_table(engines: dict[Arm, EngineFacts] | Any) -> list[Setting]:
    """Return the settings both servers gave back, side by side; those that differ first."""
    subject, comparator = (
        dict(engines[arm].settings) if arm in engines else {} for arm in (Arm.SUBJECT, Arm.COMPARATOR)
    )
    out = [
        Setting(name, left := _plain(subject.get(name, "–")), right := _plain(comparator.get(name, "–")), left != right)
        for name in sorted(subject.keys() | comparator.keys())
    ]
    return sorted(out, key=lambda setting: (not setting.differs, setting.name))

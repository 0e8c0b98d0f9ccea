"""What the judge says: one result per planned row, per family, per guard, and the whole."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lqw.canonical import canonical_bytes
from lqw.errors import Exit, IntegrityError
from lqw.noise.rows import Row, RowBand, json_form
from lqw.outcomes import Outcome, Purpose, RowState, RowVerdict, TargetState
from lqw.samples import Failure, Record

__all__ = [
    "EXIT_OF",
    "Confirmation",
    "Counts",
    "Effect",
    "GuardFinding",
    "Judgement",
    "RowResult",
    "SuiteResult",
    "TargetResult",
    "judgement_from_json",
    "judgement_to_json",
]

Effect = Literal["none", "flag", "undecided", "red", "invalid"]

EXIT_OF: dict[Outcome, Exit] = {
    Outcome.PASS: Exit.PASS,
    Outcome.FLOOR: Exit.PASS,
    Outcome.RED: Exit.RED,
    Outcome.UNDECIDED: Exit.UNDECIDED,
    Outcome.INVALID: Exit.INVALID,
    Outcome.INCOMPLETE: Exit.INTERNAL,
}
"""Exit status of each outcome (STATISTICS §6)."""


class TargetResult(Record):
    """Where a row stands against its published target. ``ratio`` fields are in the published direction."""

    target: float  # as published: least ratio for rates, most "× slower" for latencies
    state: TargetState
    ratio: float  # the estimate, same direction as the target
    bound: float  # the 99 % bound that must clear the target
    distance: float  # factor still missing (> 1), or the reserve (≤ 1): target/ratio for rates, ratio/target else


class Confirmation(Record):
    """What the third arm says of a row, or a family, that was RED or too good. Ratios: > 1 is better."""

    state: Literal["CONFIRMED", "NOT CONFIRMED", "NOT MEASURED"]
    release: str  # the earlier release that was, or should be, measured beside the candidate
    n: int = 0  # tuples
    candidate_ratio: float | None = None  # exp(D_c): to the comparator, in the batch
    earlier_ratio: float | None = None  # exp(D_rel)
    difference: float | None = None  # exp(D_c − D_rel): 0.5 = half as fast as the older release, side by side
    limit: float | None = None  # what the difference must pass
    text: str = ""  # one clause for a person


class RowResult(Record):
    """One planned row. Numbers stay with a void row: they are shown struck through and used for nothing."""

    row: Row
    family: str
    unit: str
    state: RowState
    verdict: RowVerdict
    reason: Failure | None = None  # of a failed, void or missing row
    text: str  # one clause for a person: "0.52× what 1.0.0 had (floor 1.00, band ±21 %, 3 pairs)"
    gating: bool = False
    confirmed: bool = False  # a RED is confirmed by a third arm only; without one it is RED-UNCONFIRMED
    confirm_with: str | None = Field(default=None, exclude=True)  # the earlier release a third arm measures beside it
    confirmation: Confirmation | None = None
    look: int | None = None  # the look (from 0) that decided the row
    n: int = 0
    d: tuple[float, ...] = ()  # oriented log ratios, one per pair used
    subject_values: tuple[float, ...] = ()  # start values of the same pairs, in the unit
    comparator_values: tuple[float, ...] = ()
    subject: float | None = None  # geometric mean over the pairs used, in the unit
    comparator: float | None = None
    ratio: float | None = None  # exp(D): > 1 is better than the comparator, whatever the metric
    ratio_raw: float | None = None  # subject / comparator in the metric's own direction ("× slower" for latencies)
    floor_ratio: float | None = None  # exp(F)
    last_ratio: float | None = None
    against_floor: float | None = None  # exp(D − F): 0.52 = 48 % worse than the floor
    against_last: float | None = None
    lower_ratio: float | None = None  # exp of the lower bound of D − F that a PASS needs
    floor_release: str | None = None
    band: RowBand | None = None
    target: TargetResult | None = None
    pairs_needed: int | None = None  # of an inconclusive row: how many pairs would decide it (None: no number does)
    flags: tuple[str, ...] = ()


class SuiteResult(Record):
    """A family's mean change against its floors: a broad small loss that no row shows alone."""

    family: str
    rows: int
    mean_delta: float  # G = mean(D − F)
    se: float
    threshold: float  # RED below
    red: bool
    confirmation: Confirmation | None = None

    @property
    def is_shift(self) -> bool:
        """Return whether the third arm fell too: the family is then undecided, not RED."""
        return self.confirmation is not None and self.confirmation.state == "NOT CONFIRMED"


class GuardFinding(Record):
    """One guard and what it saw. ``effect``: what it does to the verdict."""

    guard: Literal[
        "integrity",
        "order",
        "epoch",
        "one_token_prefill",
        "comparator_history",
        "null_control",
        "drift",
        "dispersion",
        "bimodality",
        "clock",
        "bursts",
        "client",
        "parity",
    ]
    effect: Effect
    subject: str  # the model or row it speaks of, or "run"
    text: str
    numbers: dict[str, float] = Field(default_factory=dict)


class Counts(Record):
    """``planned = measured + void + failed``; missing rows count as failed."""

    planned: int
    measured: int
    gating: int
    void: int
    failed: int

    def __str__(self) -> str:
        """Return the line that is always printed."""
        return (
            f"rows: planned {self.planned}, measured {self.measured}, gating {self.gating}, "
            f"void {self.void}, failed {self.failed}"
        )


class Judgement(Record):
    """The verdict of a run, recomputed from samples alone."""

    purpose: Purpose
    release: str
    outcome: Outcome
    sentence: str  # one sentence for a person
    reasons: tuple[str, ...]  # everything that blocks, each named, most severe first
    counts: Counts
    rows: tuple[RowResult, ...]  # in the plan's order, every planned row
    suites: tuple[SuiteResult, ...] = ()
    guards: tuple[GuardFinding, ...] = ()
    pairs: dict[str, int] = Field(default_factory=dict)  # complete pairs in the samples, per model
    look: int = 0  # the last look (from 0) that any row saw
    pairs_saved: int = 0  # pairs of models that were decided early, against the last look
    models_needing_pairs: tuple[str, ...] = ()
    confirming: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude=True)  # model -> releases of a batch
    method: str = "gate-v1"

    @property
    def exit_status(self) -> Exit:
        """Return the process's exit status for this outcome."""
        return EXIT_OF[self.outcome]


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON form, ``exit_status`` included, numbers cut to 12 significant digits.

    Rows and families that no third arm was asked about have no ``confirmation``: receipts from before there was one
    stay as valid as they were.
    """
    out: dict[str, Any] = json_form(judgement)
    for one in (*out["rows"], *out["suites"]):
        if one["confirmation"] is None:
            del one["confirmation"]
    out["exit_status"] = int(judgement.exit_status)
    return out


def judgement_from_json(value: Any) -> Judgement:
    """Read the JSON form back; IntegrityError if it is not one."""
    if not isinstance(value, dict):
        raise IntegrityError("judgement: not an object")
    body = {key: item for key, item in value.items() if key != "exit_status"}
    try:
        judgement = Judgement.model_validate_json(canonical_bytes(body))
    except ValueError as err:
        raise IntegrityError(f"judgement: {err}") from err
    if value.get("exit_status") != int(judgement.exit_status):
        raise IntegrityError(f"judgement: exit_status {value.get('exit_status')!r} is not that of {judgement.outcome}")
    return judgement

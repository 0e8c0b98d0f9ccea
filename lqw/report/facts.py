"""What a report shows, gathered into one value; every renderer (HTML, Markdown, JUnit, terminal) starts from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lqw.outcomes import Arm, Outcome, RowVerdict
from lqw.report.words import BLOCKING, Kind
from lqw.verdict.evidence import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lqw.correctness import CorrectnessResult
    from lqw.metrics import RowId
    from lqw.samples import BesideRecord, EngineFacts, HostFacts, StepFacts
    from lqw.verdict.results import Judgement, RowResult

__all__ = ["AskedStep", "Facts", "Stage", "kind_of"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One notebook of the chain and how far it came. ``broke`` holds the last lines of its error."""

    name: str
    state: str  # "ran", "broke", "stopped" (no error in it, but not to its end) or "not started"
    cells: int = 0
    executed: int = 0
    seconds: float | None = None
    broke: tuple[str, ...] = ()
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class AskedStep:
    """One step of one start of an arm."""

    model: str
    pair: int
    arm: Arm
    facts: StepFacts


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known about a run. Absent parts are None or empty; a renderer says so instead of leaving them out.

    Attributes
    ----------
    kind : Kind
        What the page is.
    judgement : Judgement or None
        The verdict; None where the chain broke before it.
    planned : tuple of RowId
        Every row that had to exist.
    standing : Standing
        Floors, last values and the comparator's own history that the run was judged against.
    header : dict
        First line of the journal as plain JSON: plan, params, host, model hashes, versions.
    engines : mapping of Arm to EngineFacts
        What ran, one start of each arm.
    besides : tuple of BesideRecord
        The starts of engines beside, never gating.
    steps : tuple of AskedStep
        How every step of the arms' starts was asked; none in receipts from before that was looked at.
    store : Path or None
        The host's folder of receipts, for the history; None where it is not known.
    logs : mapping of (model, reason) to tuple of str
        Last log lines of the first start that failed so.
    problems : tuple of str
        What does not verify, or why the chain broke.
    """

    kind: Kind
    judgement: Judgement | None = None
    planned: tuple[RowId, ...] = ()
    standing: Standing = field(default_factory=Standing)
    header: Mapping[str, Any] = field(default_factory=dict)
    host: HostFacts | None = None
    engines: Mapping[Arm, EngineFacts] = field(default_factory=dict)
    besides: tuple[BesideRecord, ...] = ()
    steps: tuple[AskedStep, ...] = ()
    correctness: CorrectnessResult | None = None
    parity: Mapping[str, Any] = field(default_factory=dict)  # parity receipts by path
    roofline: Mapping[str, Any] = field(default_factory=dict)  # limits of rows; empty where nobody measured them
    calibration: Mapping[str, Any] = field(default_factory=dict)
    telemetry: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    stages: tuple[Stage, ...] = ()
    starts_done: int = 0
    starts_failed: tuple[str, ...] = ()
    logs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    wall_s: float = 0.0
    receipt_sha256: str = ""
    receipt_name: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    info: Mapping[str, str] = field(default_factory=dict)
    store: Path | None = None  # the host's folder of receipts, where it is known
    not_checked: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """Return the release under judgement."""
        return str(self.plan.get("release") or (self.judgement.release if self.judgement else "") or "unknown release")

    @property
    def host_name(self) -> str:
        """Return the host's name as the params give it."""
        return str(self.plan.get("host") or (self.host.name if self.host else "") or "unknown host")

    @property
    def plan(self) -> Mapping[str, Any]:
        """Return the plan's JSON form; empty when there is none."""
        plan = self.header.get("plan")
        return plan if isinstance(plan, dict) else {}

    @property
    def params(self) -> Mapping[str, Any]:
        """Return the resolved params' JSON form; empty when there is none."""
        params = self.header.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def rows(self) -> tuple[RowResult, ...]:
        """Return the judged rows in the plan's order; none where nothing was judged."""
        return self.judgement.rows if self.judgement else ()

    @property
    def blocking(self) -> tuple[RowResult, ...]:
        """Return the rows that stop the tag, the worst fall first."""
        found = [row for row in self.rows if row.verdict in BLOCKING]
        return tuple(sorted(found, key=lambda row: (row.verdict is not RowVerdict.RED, row.against_floor or 9.0)))

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models in the plan's order."""
        return tuple(dict.fromkeys(row.model for row in self.planned))


def kind_of(judgement: Judgement | None) -> Kind:
    """Return which page a judgement makes.

    VOID is an UNDECIDED in which rows are void and none failed or is missing: tokens are looked at after the
    starts and before the speeds (STATISTICS §6), so the first thing that blocks names the page.
    """
    if judgement is None:
        return Kind.INCOMPLETE
    if judgement.outcome is Outcome.UNDECIDED and judgement.counts.void and not judgement.counts.failed:
        return Kind.VOID
    return Kind(judgement.outcome.value)

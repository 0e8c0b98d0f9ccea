"""Everything a verdict may depend on, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lqw.canonical import json_bytes
from lqw.errors import IntegrityError
from lqw.noise.rows import Row, RowReferences
from lqw.samples import Batch, Failure, Record, StartRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import RowId
    from lqw.plan import Plan
    from lqw.verdict.results import GuardFinding

__all__ = ["ClientError", "ComparatorPoint", "Evidence", "Standing", "standing_from_json", "standing_to_json"]


class ComparatorPoint(Record):
    """The comparator's own value in one earlier session of the epoch: mean and SD of ln y over its starts."""

    release: str
    mean: float
    sd: float
    n: int


class Standing(Record):
    """What the baseline says for this run's epoch; a receipt carries it whole, so that it can be judged alone.

    ``differences`` names each part of the epoch key in which the newest epoch of the baseline differs from this
    run's; it is empty when the epoch is known. With differences there are no references, and ``remeasure`` names the
    releases that set the floors of that newest epoch: those are to be measured again in this one.
    """

    epoch_sha256: str = ""
    differences: tuple[str, ...] = ()
    remeasure: tuple[str, ...] = ()
    references: dict[Row, RowReferences] = Field(default_factory=dict)
    comparator: dict[Row, tuple[ComparatorPoint, ...]] = Field(default_factory=dict)
    targets_met: tuple[Row, ...] = ()  # targets a *released* version met: they fold into the floor
    tau: float | None = None  # estimated session SD; None: the policy's
    retired: tuple[Row, ...] = ()
    dropped: tuple[Row, ...] = ()  # rows with a floor that the plan no longer measures: they need a retire record


@dataclass(frozen=True, slots=True)
class ClientError:
    """The client's own error in its calibration: 99th percentile of that of TTFT, ms, and its share of a core."""

    ttft_p99_ms: float
    cpu_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What :func:`lqw.verdict.judge` looks at.

    Attributes
    ----------
    plan : Plan
        What had to be measured, and the policy of the decision.
    starts : sequence of StartRecord
        Every engine start of the journal, in any order.
    min_window_s : float
        Of the protocol: the shortest common window an aggregate row accepts.
    voids : mapping of RowId to Failure
        From the correctness stage; a void row keeps its numbers and blocks.
    standing : Standing
        Floors, last values and histories of this epoch.
    targets : mapping of str to float
        Published targets by metric name.
    parity : sequence of GuardFinding
        What the parity receipts of a blessed model say (:func:`lqw.receipt.parity.parity_findings`).
    problems : sequence of str
        What an earlier step of STATISTICS §6 found wrong with the receipt or journal itself; any makes it INVALID.
    batch : Batch or None
        The confirmation batch, where one was measured.
    client : ClientError or None
        Where the run has a calibration.
    """

    plan: Plan
    starts: Sequence[StartRecord]
    min_window_s: float
    voids: Mapping[RowId, Failure] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    targets: Mapping[str, float] = field(default_factory=dict)
    parity: Sequence[GuardFinding] = ()
    problems: Sequence[str] = ()
    batch: Batch | None = None
    client: ClientError | None = None


def standing_to_json(standing: Standing) -> dict[str, Any]:
    """Return the JSON form for the receipt, every number at full precision: it is an input, not a result."""
    return standing.model_dump(mode="json")


def standing_from_json(value: Any) -> Standing:
    """Read the JSON form back; IntegrityError if it is not one."""
    try:
        return Standing.model_validate_json(json_bytes(value))
    except (TypeError, ValueError) as err:
        raise IntegrityError(f"standing: {err}") from err

"""Correct before fast: token identity, garbage detectors and the answers of the timed requests (stage 20)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lqw.correctness.adoption import Adoption, adopt_reference
from lqw.correctness.detectors import Finding, detect
from lqw.correctness.identity import judge_identity, reference_from
from lqw.correctness.rebase import ReferenceRebase, model_sha256, rebase_reference
from lqw.correctness.reference import (
    IdentityReference,
    ModelReference,
    ReferenceAnswer,
    first_difference,
    parse_reference,
    reference_to_json,
)
from lqw.correctness.result import (
    Check,
    CorrectnessResult,
    IdentityTask,
    correctness_from_json,
    correctness_to_json,
)
from lqw.correctness.timed import judge_timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.metrics import RowId
    from lqw.outcomes import Purpose
    from lqw.samples import IdentityRecord, StartRecord

__all__ = [
    "Adoption",
    "Check",
    "CorrectnessResult",
    "Finding",
    "IdentityReference",
    "IdentityTask",
    "ModelReference",
    "ReferenceAnswer",
    "ReferenceRebase",
    "adopt_reference",
    "correctness_from_json",
    "correctness_to_json",
    "detect",
    "first_difference",
    "judge_correctness",
    "judge_identity",
    "judge_timed",
    "model_sha256",
    "parse_reference",
    "rebase_reference",
    "reference_from",
    "reference_to_json",
]


def judge_correctness(
    records: Sequence[IdentityRecord],
    starts: Sequence[StartRecord],
    reference: IdentityReference | None,
    rows: Sequence[RowId],
    purpose: Purpose,
    *,
    task: IdentityTask,
) -> CorrectnessResult:
    """Return everything stage 20 decides: :func:`judge_identity`, then :func:`judge_timed`, merged."""
    return judge_identity(records, reference, rows, purpose, task=task).merged(judge_timed(starts, rows, records))

"""Verdict: rows, suite, targets, guards, and the one judge (STATISTICS §3, §4, §6)."""

from lqw.verdict.evidence import ClientError, ComparatorPoint, Evidence, Standing, standing_from_json, standing_to_json
from lqw.verdict.judge import judge
from lqw.verdict.results import (
    EXIT_OF,
    Confirmation,
    Counts,
    GuardFinding,
    Judgement,
    RowResult,
    SuiteResult,
    TargetResult,
    judgement_from_json,
    judgement_to_json,
)

__all__ = [
    "EXIT_OF",
    "ClientError",
    "ComparatorPoint",
    "Confirmation",
    "Counts",
    "Evidence",
    "GuardFinding",
    "Judgement",
    "RowResult",
    "Standing",
    "SuiteResult",
    "TargetResult",
    "judge",
    "judgement_from_json",
    "judgement_to_json",
    "standing_from_json",
    "standing_to_json",
]

"""What a check found: how heavy, on which host, by which check, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lqw.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Finding", "Weight", "exit_of", "invalid", "red", "undecided"]


class Weight(StrEnum):
    """What a finding makes of the whole; the heaviest decides."""

    UNDECIDED = "UNDECIDED"
    RED = "RED"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason against a tag, or against a history.

    Attributes
    ----------
    weight : Weight
    check : str
        Which check: receipt, identity, params, chain, record, signature, parity, code, clock, lost, append-only,
        baseline, batch, earlier, hosts.
    text : str
        What is wrong, with file, values and commit.
    host : str
        Whose; empty for the release as a whole.
    """

    weight: Weight
    check: str
    text: str
    host: str = ""

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.weight} {f'{self.host}: ' if self.host else ''}{self.text} ({self.check})"


def exit_of(findings: Iterable[Finding]) -> Exit:
    """Return the exit status: INVALID before RED before UNDECIDED; PASS only without any finding."""
    weights = {one.weight for one in findings}
    order = ((Weight.INVALID, Exit.INVALID), (Weight.RED, Exit.RED), (Weight.UNDECIDED, Exit.UNDECIDED))
    return next((status for weight, status in order if weight in weights), Exit.PASS)


def invalid(check: str, text: str, host: str = "") -> Finding:
    """Return a finding that makes the whole INVALID."""
    return Finding(Weight.INVALID, check, text, host)


def red(check: str, text: str, host: str = "") -> Finding:
    """Return a finding that makes the whole RED."""
    return Finding(Weight.RED, check, text, host)


def undecided(check: str, text: str, host: str = "") -> Finding:
    """Return a finding that leaves the whole UNDECIDED."""
    return Finding(Weight.UNDECIDED, check, text, host)

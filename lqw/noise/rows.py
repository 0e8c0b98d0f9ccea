"""What the statistics work on: the pairs of a row, what it is compared with, and the band that results.

Log ratios are *oriented*: larger is always better for the subject (STATISTICS §1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from lqw.metrics import RowId
from lqw.samples import Record

__all__ = ["Call", "Reference", "Row", "RowBand", "RowData", "RowReferences", "Spread", "json_form"]

SIGNIFICANT_DIGITS = 12
MAX_PAIRS = 200  # of a batch; as the params' looks
MAX_SESSIONS = 256  # of a history that a receipt carries; six are used
_EXACT = 2**53


def _row(value: object) -> object:
    return RowId.parse(value) if isinstance(value, str) else value


Row = Annotated[RowId, BeforeValidator(_row), PlainSerializer(str, return_type=str)]
"""A :class:`lqw.metrics.RowId` that stands in JSON as ``model/metric@size``."""


def _rounded(value: Any) -> Any:
    kind = type(value)  # of what pydantic wrote: plain types, whose look-up costs less than asking one after another
    if kind is dict:
        return {key: item if type(item) is str else _rounded(item) for key, item in value.items()}
    if kind is list:
        return [_rounded(item) for item in value]
    if kind is not float:
        return value
    if not math.isfinite(value):
        return None
    cut = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return int(cut) if cut.is_integer() and abs(cut) < _EXACT else cut  # as JSON gives it back


def json_form(record: Record) -> Any:
    """Return a record as plain JSON values, numbers cut to 12 significant digits.

    Mathematical libraries differ in the last bits between machines; 12 digits is where a re-judgement elsewhere
    must agree (a comparison should still allow a relative 1e-9).
    """
    return _rounded(record.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class RowData:
    """The valid pairs of one row.

    Attributes
    ----------
    row : RowId
    pairs : tuple of int
        Pair numbers, rising from 1.
    d : tuple of float
        Oriented log ratios ``s·(ln subject − ln comparator)``, one per pair.
    subject, comparator : tuple of float
        The start values themselves, in the metric's unit, one per pair.
    """

    row: RowId
    pairs: tuple[int, ...]
    d: tuple[float, ...]
    subject: tuple[float, ...]
    comparator: tuple[float, ...]

    def first(self, n: int) -> RowData:
        """Return the same row with its first *n* pairs only: what an earlier look saw."""
        return RowData(self.row, self.pairs[:n], self.d[:n], self.subject[:n], self.comparator[:n])


class Spread(Record):
    """Variance of one earlier session: within-session sum of squares and its degrees of freedom."""

    ss: float = Field(ge=0)
    df: int = Field(ge=0)
    release: str


class Reference(Record):
    """What a row is compared with: the oriented log ratio of an earlier batch, and how well it is known."""

    value: float  # mean oriented ln ratio: larger is better
    n: int = Field(ge=1)  # pairs behind it
    ss: float = Field(ge=0)  # within-batch sum of squares of its log ratios
    df: int = Field(ge=0)
    release: str
    receipt_sha256: str
    d: tuple[float, ...] = Field(default=(), max_length=MAX_PAIRS)  # the batch itself, for methods that need it


class RowReferences(Record):
    """The references of one row in this epoch. ``history`` is newest last and holds the last release too."""

    floor: Reference | None = None
    last: Reference | None = None
    history: tuple[Spread, ...] = Field(default=(), max_length=MAX_SESSIONS)


class Call(StrEnum):
    """What a method says of one row at one look."""

    RED = "RED"
    PASS = "PASS"
    OPEN = "OPEN"  # more pairs, or inconclusive if there are none left


class RowBand(Record):
    """One row at one look: estimate, noise, and the thresholds that follow from it (STATISTICS §2–3).

    All differences and thresholds are natural logarithms in the row's good direction; fields that need a floor
    (or a last release) are None without one.
    """

    row: Row
    look: int  # from 0
    n: int
    estimate: float  # D = mean(d)
    s2: float  # pooled within-session variance of one log ratio
    v: float  # its degrees of freedom
    sd: float  # s̃: shrunk standard deviation of one log ratio, floored
    nu: float  # degrees of freedom of s̃
    floor: float | None = None  # F, after folding of a released target
    folded: bool = False  # F was raised to ln T
    delta_floor: float | None = None  # D − F
    se_floor: float | None = None
    t_red: float | None = None  # t_k
    u_pass: float | None = None  # u_k
    threshold: float | None = None  # RED below this D − F: −max(t_k·se, ln(1/(1−δ)))
    lower: float | None = None  # D − F − u_k·se: passes above ln(1 − M)
    last: float | None = None
    delta_last: float | None = None
    se_last: float | None = None
    t_last: float | None = None
    threshold_last: float | None = None
    band_fraction: float | None = None  # 1 − exp(−t_k·se_floor), printed as ± %
    call: Call = Call.OPEN
    red_by: str = ""  # "floor", "last", or "" when not RED

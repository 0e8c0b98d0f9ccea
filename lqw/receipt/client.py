"""The client's own error: a client that is too late measures itself (MEASUREMENT, "Calibration")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.errors import IntegrityError
from lqw.metrics import Family
from lqw.outcomes import Reason
from lqw.samples import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import RowId

__all__ = ["VOID_TTFT_MS", "client_voids"]

VOID_TTFT_MS = 5.0
"""99th percentile of the client's TTFT error, ms, beyond which what it timed says nothing."""


def client_voids(calibration: Mapping[str, Any] | None, rows: Sequence[RowId]) -> dict[RowId, Failure]:
    """Return the rows that the client's calibration voids: all that were timed, or none; memory was not timed.

    Parameters
    ----------
    calibration : mapping or None
        From collect.json; without one nothing is void, and the verifier says that it could not check this.
    rows : sequence of RowId

    Raises
    ------
    IntegrityError
        The error is there and is no number.
    """
    late_ms = (calibration or {}).get("ttft_error_p99_ms")
    if late_ms is None:
        return {}
    if isinstance(late_ms, bool) or not isinstance(late_ms, int | float):
        raise IntegrityError(f"calibration.ttft_error_p99_ms: {late_ms!r} is no number")
    if late_ms <= VOID_TTFT_MS:
        return {}
    detail = f"the client's own TTFT error is {late_ms:.2f} ms (p99); more than {VOID_TTFT_MS:g} ms voids what it timed"
    failure = Failure(reason=Reason.CLIENT_LATE, detail=detail)
    return {row: failure for row in rows if row.kind.family is not Family.MEMORY}

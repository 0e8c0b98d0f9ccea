"""The client's own error: a client that is too late measures itself (MEASUREMENT, "Calibration")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.errors import IntegrityError
from lqw.metrics import Family
from lqw.metrics.checks import VOID_TTFT_MS
from lqw.outcomes import Reason
from lqw.samples import Failure
from lqw.verdict import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import RowId

__all__ = ["client_of", "client_voids"]


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
    late_ms = _number(calibration, "ttft_error_p99_ms")
    if late_ms is None or late_ms <= VOID_TTFT_MS:
        return {}
    detail = f"the client's own TTFT error is {late_ms:.2f} ms (p99); more than {VOID_TTFT_MS:g} ms voids what it timed"
    failure = Failure(reason=Reason.CLIENT_LATE, detail=detail)
    return {row: failure for row in rows if row.kind.family is not Family.MEMORY}


def client_of(calibration: Mapping[str, Any] | None) -> ClientError | None:
    """Return the error and the load of the client that a run was measured with; None without a calibration.

    Raises
    ------
    IntegrityError
        One of them is there and is no number.
    """
    late_ms, share = (_number(calibration, name) for name in ("ttft_error_p99_ms", "cpu_share"))
    return None if late_ms is None else ClientError(late_ms, share or 0.0)


def _number(calibration: Mapping[str, Any] | None, name: str) -> float | None:
    value = (calibration or {}).get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise IntegrityError(f"calibration.{name}: {value!r} is no number")
    return value

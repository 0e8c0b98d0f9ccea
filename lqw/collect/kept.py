"""The client's calibrations of a run, kept beside its journal: one for each time it was begun or went on.

A run in one go is calibrated once, however long it lasts. So is one that was killed and went on soon after on the same
boot of the same machine. Else the client is measured again, and the worse of the two counts: starts that a late client
timed do not become good by a restart.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, ValidationError

from lqw.canonical import canonical_bytes, read_json, write_atomic
from lqw.collect.calibrate import Calibration, Load
from lqw.errors import IntegrityError
from lqw.samples import Record

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KEPT", "SOON_S", "calibrated_once"]

KEPT = "calibration.json"

SOON_S = 600.0
"""Seconds after the journal's last record within which a run that goes on keeps its calibration."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


_SCHEMA: Final = "lqw-calibration/1"


class _Session(Record):
    boot: str
    calibration: Calibration


class _Kept(Record):
    schema_: Literal["lqw-calibration/1"] = Field(alias="schema")
    sessions: tuple[_Session, ...]


def calibrated_once(path: Path, load: Load, *, idle_s: float, calibrate: Callable[[], Calibration]) -> Calibration:
    """Return the calibration that counts for a run: the kept one where it still stands, else the worst of all.

    Parameters
    ----------
    path : path
        The run's ``calibration.json``, read and written.
    load : Load
        What is to be calibrated at.
    idle_s : float
        Seconds since the run was last alive, by the clock of the machine: one that was set back gives no such time.
    calibrate : callable
        Measures anew.

    Raises
    ------
    IntegrityError
        The file is not what this program writes.
    """
    boot = _BOOT.read_text().strip()
    sessions = _read(path).sessions if path.is_file() else ()
    last = sessions[-1] if sessions else None
    if last is None or last.boot != boot or last.calibration.load != load or not 0 <= idle_s <= SOON_S:
        sessions = (*sessions, _Session(boot=boot, calibration=calibrate()))
        write_atomic(
            path, canonical_bytes(_Kept(schema=_SCHEMA, sessions=sessions).model_dump(mode="json", by_alias=True))
        )
    worst = max((one.calibration for one in sessions), key=lambda one: one.ttft_error_p99_ms)
    return replace(worst, of=len(sessions))


def _read(path: Path) -> _Kept:
    try:
        return _Kept.model_validate_json(canonical_bytes(read_json(path)))
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise IntegrityError(f"{path}: {where}: {first['msg']}", remedy="start a new run") from err

"""How large a batch the *server* formed, from its own telemetry; what the client asked for is never used.

llama-server: ``/slots`` is polled while the requests run (how many slots work at once), and the counters of
``/metrics`` bound it (``n_busy_slots_per_decode · n_decode_total`` is the number of slot-decodes; its growth over the
growth of decodes is the mean batch). A slot can be busy without sharing a decode, so the smaller of the two counts.
apr: its log line ``[PMAT-044] Batch m=N done`` says what each batch was when it formed. Only whole lines count, and not
more requests than were sent: a log may carry somebody else's words, those of the model among them.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lqw.engines.apr_log import batches
from lqw.engines.control import Control, ControlError
from lqw.parity.bands import formed_by

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Formed", "LlamaTelemetry", "LogTelemetry", "Telemetry", "formed_of", "parse_counters", "parse_log"]

POLL_S = 0.01
_COUNTER = re.compile(r"^llamacpp:(n_decode_total|n_busy_slots_per_decode)\s+([0-9.eE+]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Formed:
    """The largest batch that formed, or None with the reason why the server does not tell.

    ``requests`` is how many requests the batches held together, where that is told.
    """

    batch: int | None
    detail: str
    requests: int | None = None


class Telemetry(Protocol):
    """What watches one band."""

    def begin(self) -> None:
        """Note the state before the requests."""
        ...

    def end(self) -> Formed:
        """Return what formed since :meth:`begin`."""
        ...


def parse_counters(text: str) -> tuple[float, float] | None:
    """Return ``(decodes, slot-decodes)`` since the server's start from a ``/metrics`` page, or None."""
    values = {name: float(value) for name, value in _COUNTER.findall(text)}
    if len(values) < 2:  # noqa: PLR2004 - both or nothing
        return None
    return values["n_decode_total"], values["n_decode_total"] * values["n_busy_slots_per_decode"]


def formed_of(busy: int, before: tuple[float, float] | None, after: tuple[float, float] | None) -> Formed:
    """Return the batch that slots and counters both vouch for.

    Parameters
    ----------
    busy : int
        The most slots seen at work at once.
    before, after : tuple or None
        Decodes and slot-decodes around the band.
    """
    if before is None or after is None:
        return Formed(None, "/metrics has no decode counters")
    decodes, slot_decodes = after[0] - before[0], after[1] - before[1]
    if decodes <= 0:
        return Formed(None, "no decode was counted while the requests ran")
    mean = slot_decodes / decodes
    text = f"{busy} slots at work at once, {mean:.2f} per decode over {decodes:.0f} decodes"
    return Formed(formed_by(busy, mean), text)


class LlamaTelemetry:
    """Polls ``/slots`` in a thread of its own and reads ``/metrics`` before and after."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._stop = threading.Event()
        self._busy = 0
        self._fault = ""
        self._before: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def begin(self) -> None:
        """Read the counters and start polling."""
        self._before = self._counters()
        self._thread.start()

    def end(self) -> Formed:
        """Stop polling and read the counters again."""
        self._stop.set()
        self._thread.join()
        if self._fault and not self._busy:
            return Formed(None, self._fault)
        return formed_of(self._busy, self._before, self._counters())

    def _counters(self) -> tuple[float, float] | None:
        try:
            with Control(self._host, self._port) as control:
                return parse_counters(control.text("/metrics"))
        except ControlError as err:
            self._fault = err.failure.detail
            return None

    def _poll(self) -> None:
        with Control(self._host, self._port) as control:
            while not self._stop.wait(POLL_S):
                try:
                    slots = control.get("/slots")
                except ControlError as err:
                    self._fault = err.failure.detail
                    continue
                if isinstance(slots, list):
                    busy = sum(1 for slot in slots if isinstance(slot, dict) and slot.get("is_processing") is True)
                    self._busy = max(self._busy, busy)


def parse_log(text: str) -> Formed:
    """Return the largest ``Batch m=N done`` of a piece of apr's log."""
    formed = batches(text)
    if not formed:
        return Formed(None, "the log has no line '[PMAT-044] Batch m=N done': no batch scheduler ran")
    return Formed(max(formed), f"{len(formed)} batches in the log, largest m={max(formed)}", sum(formed))


class LogTelemetry:
    """Reads the lines apr's log grew by."""

    def __init__(self, log_path: Path) -> None:
        self._path = log_path
        self._offset = 0

    def begin(self) -> None:
        """Note where the log ends."""
        self._offset = self._path.stat().st_size if self._path.exists() else 0

    def end(self) -> Formed:
        """Read what came since."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                return parse_log(log.read().decode("utf-8", "replace"))
        except OSError as err:
            return Formed(None, f"{self._path.name}: {err.strerror or err}")

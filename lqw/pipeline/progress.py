"""What is being measured, live: events written by the stages, followed by the process that shows them.

The stages append one JSON object a line to ``progress.jsonl``; the gate's own process follows that file in a thread.
Nothing is printed in the notebooks for it: papermill chokes on floods of output, and a client that draws while it
times would measure its own drawing. Two refreshes a second cost the display under 1 % of a core.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ProgressState", "ProgressWriter", "Tail"]

_PACE = 0.7  # weight of what was measured so far in the pace of a start


@dataclass(frozen=True, slots=True)
class ProgressWriter:
    """Appends events to ``progress.jsonl``. A full disk must not end a measurement: failures are ignored."""

    path: Path

    def __call__(self, event: dict[str, Any]) -> None:
        """Append one event with the time."""
        line = json.dumps({"t": round(time.time(), 3), **event}, default=str)
        try:
            with self.path.open("a", encoding="utf-8") as out:
                out.write(line + "\n")
        except OSError:
            return


@dataclass(slots=True)
class Tail:
    """Reads the events that were appended since the last look; half a line stays for the next look."""

    path: Path
    offset: int = 0

    def __call__(self) -> list[dict[str, Any]]:
        """Return the new events; lines that are no JSON objects are passed over."""
        try:
            with self.path.open("rb") as lines:
                lines.seek(self.offset)
                data = lines.read()
        except OSError:
            return []
        whole = data.rfind(b"\n") + 1
        self.offset += whole
        events = []
        for line in data[:whole].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events


@dataclass(slots=True)
class ProgressState:
    """What the events so far say; pure, so that the display and its tests need no clock but the events' own."""

    stage: str = ""
    stage_since: float = 0.0
    started: float = 0.0
    now_what: dict[str, Any] = field(default_factory=dict)
    step: str = ""
    starts_done: int = 0
    starts_planned: int = 0
    rows_done: int = 0
    rows_planned: int = 0
    failures: list[str] = field(default_factory=list)
    seconds_per_start: float | None = None
    log: list[str] = field(default_factory=list)  # one plain line per thing worth one

    def feed(self, event: dict[str, Any]) -> None:
        """Take one event in; unknown kinds and missing fields are harmless."""
        moment = event.get("t")
        at = float(moment) if isinstance(moment, int | float) else self.stage_since
        self.started = self.started or at
        handler = getattr(self, f"_on_{event.get('event')}", None)
        if handler is not None:
            handler(event, at)

    def _on_stage(self, event: dict[str, Any], at: float) -> None:
        self.stage, self.stage_since = str(event.get("stage", "")), at
        self.now_what, self.step = {}, ""
        self.log.append(self.stage)

    def _on_plan(self, event: dict[str, Any], _at: float) -> None:
        self._counts(event)

    def _on_start(self, event: dict[str, Any], _at: float) -> None:
        self.now_what, self.step = event, ""
        self._counts(event)

    def _on_step(self, event: dict[str, Any], _at: float) -> None:
        self.step = str(event.get("step", ""))

    def _on_identity(self, event: dict[str, Any], _at: float) -> None:
        self.now_what, self.step = event, "token identity"
        self.log.append(f"{event.get('model')}: answers of the identity prompts")

    def _on_note(self, event: dict[str, Any], _at: float) -> None:
        self.log.append(str(event.get("text", "")))

    def _on_look(self, event: dict[str, Any], _at: float) -> None:
        self._counts(event)
        needing = event.get("needing") or []
        if needing:
            self.log.append(f"two more pairs are needed for {', '.join(map(str, needing))}")

    def _on_end(self, event: dict[str, Any], _at: float) -> None:
        before_done = self.starts_done
        self._counts(event)
        if "starts_done" not in event:
            self.starts_done = before_done + 1
        wall = event.get("wall_s")
        if isinstance(wall, int | float):
            known = self.seconds_per_start
            self.seconds_per_start = wall if known is None else _PACE * known + (1 - _PACE) * wall
        failure = event.get("failure")
        if failure:
            self.failures.append(f"{name_of(event)}: {failure}")
        took = f"{wall:.1f} s" if isinstance(wall, int | float) else "done"
        done = f"{self.starts_done}/{self.starts_planned}"
        self.log.append(f"start {done:>7}  {name_of(event):44} {failure or took}")

    def _counts(self, event: dict[str, Any]) -> None:
        for name in ("starts_done", "starts_planned", "rows_done", "rows_planned"):
            value = event.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                setattr(self, name, value)

    def seconds_left(self) -> float | None:
        """Return the time the planned starts will still take at the pace so far, or None before the first."""
        if self.seconds_per_start is None or not self.starts_planned:
            return None
        return max(0, self.starts_planned - self.starts_done) * self.seconds_per_start


def name_of(event: dict[str, Any]) -> str:
    """Return ``model · pair 3 · subject`` of a start's events."""
    parts = [str(event["model"])] if "model" in event else []
    if "pair" in event:
        parts.append(f"pair {event['pair']}")
    if "arm" in event:
        parts.append(str(event["arm"]))
    if event.get("launch"):
        parts.append(f"launch {event['launch']}")
    return " · ".join(parts)

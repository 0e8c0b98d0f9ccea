"""What stage 10 leaves besides the journal: counts, calibration, looks taken, starts given up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.collect.calibrate import Calibration
    from lqw.collect.prompts import PromptStore
    from lqw.samples import BesideRecord, IdentityRecord, StartRecord

__all__ = ["CollectSummary", "Tally"]


@dataclass(slots=True)
class Tally:
    """What a session notes while it runs.

    ``resumed_at`` is the position of the first start that was measured after a resume; ``given_up`` maps a model to
    the reason why it was no longer measured; ``batch_refused`` says why there was no confirmation batch.
    """

    resumed_at: int | None = None
    looks: int = 0
    batch_starts: int = 0
    deadline_hit: bool = False
    given_up: dict[str, str] = field(default_factory=dict)
    batch_refused: str | None = None


@dataclass(frozen=True, slots=True)
class CollectSummary:
    """The body of collect.json; every number in it can be counted again from the journal."""

    calibration: dict[str, object]
    collect: dict[str, Any]

    @classmethod
    def of(
        cls,
        tally: Tally,
        starts: Sequence[StartRecord],
        identities: Sequence[IdentityRecord],
        *,
        besides: Sequence[BesideRecord] = (),
        prompts: PromptStore,
        calibration: Calibration,
        wall_s: float,
    ) -> CollectSummary:
        """Return the summary of a session."""
        collect: dict[str, Any] = {
            "wall_s": round(wall_s, 3),
            "looks": tally.looks,
            "resumed_at": tally.resumed_at,
            "deadline_hit": tally.deadline_hit,
            "given_up": tally.given_up,
            "batch_refused": tally.batch_refused,
            "batch_starts": tally.batch_starts,
            "prompts_file_sha256": prompts.file_sha256,
            "prompts_sha256": prompts.hashes(),
            "starts": [_start_line(start) for start in starts],
            "identities": [
                {
                    "model": one.model,
                    "position": one.position,
                    "wall_s": round(one.wall_s, 3),
                    "answers": len(one.answers),
                    "failure": str(one.failure.reason) if one.failure else None,
                }
                for one in identities
            ],
            "beside": [
                {
                    "name": one.name,
                    "model": one.model,
                    "launch": one.launch,
                    "position": one.position,
                    "wall_s": round(one.wall_s, 3),
                    "failure": str(one.failure.reason) if one.failure else None,
                }
                for one in besides
            ],
            "counts": _counts(starts),
        }
        return cls(calibration.to_json(), collect)

    def to_json(self) -> dict[str, Any]:
        """Return ``{"calibration": …, "collect": …}``."""
        return {"calibration": self.calibration, "collect": self.collect}

    def __repr__(self) -> str:
        """Return one line for a notebook cell."""
        starts = self.collect["starts"]
        failed = sum(1 for start in starts if start["failure"])
        again = "" if self.collect["resumed_at"] is None else f", resumed at start {self.collect['resumed_at']}"
        return (
            f"{len(starts)} starts, {failed} failed, {self.collect['looks']} looks, "
            f"{self.collect['wall_s']:.0f} s{again}; "
            f"client error of TTFT: median {self.calibration['ttft_error_p50_ms']} ms, "
            f"p99 {self.calibration['ttft_error_p99_ms']} ms"
        )


def _start_line(start: StartRecord) -> dict[str, Any]:
    return {
        "model": start.model,
        "pair": start.pair,
        "arm": str(start.arm),
        "launch": start.launch,
        "position": start.position,
        "ready_s": None if start.ready_s is None else round(start.ready_s, 3),
        "wall_s": round(start.wall_s, 3),
        "failure": str(start.failure.reason) if start.failure else None,
    }


def _counts(starts: Sequence[StartRecord]) -> dict[str, dict[str, int]]:
    """Return, per model, step and arm, how many requests were timed, warmed up or primed, and how many failed."""
    out: dict[str, Counter[str]] = {}
    for start in starts:
        for request in start.requests:
            counter = out.setdefault(f"{start.model}/{request.step}/{start.arm}", Counter())
            counter[request.role] += 1
            counter["failed"] += request.failure is not None
    return {name: dict(counter) for name, counter in sorted(out.items())}

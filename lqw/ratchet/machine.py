"""The ratchet's state machine as one table: every state × event, each with one effect (STATISTICS §5).

Only :data:`TABLE` says what may happen to a floor; :mod:`.moves` and :mod:`.records` carry effects out.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from lqw.outcomes import RowVerdict
from lqw.ratchet.baseline import RatchetState

__all__ = ["EVENT_OF", "TABLE", "Effect", "Event", "effect_of"]


class Event(StrEnum):
    """What can happen to a row."""

    BATCH = "BATCH"  # a whole floor batch was measured and adopted
    BATCH_OF_IMPROVED = "BATCH_OF_IMPROVED"  # the same, of the release that proved an improvement
    PASSED = "PASSED"  # in a run whose outcome is PASS
    IMPROVED = "IMPROVED"  # the same, beyond the one-sided 99 % bound
    RED = "RED"
    SHIFT = "SHIFT"
    INCONCLUSIVE = "INCONCLUSIVE"
    SUSPECT = "SUSPECT"
    VOID = "VOID"
    FAILED = "FAILED"
    MISSING = "MISSING"  # planned, not in the samples
    NO_FLOOR = "NO_FLOOR"  # gating, without a floor in this epoch
    UNPLANNED = "UNPLANNED"  # no longer in the manifest
    REBASE = "REBASE"  # a valid rebase record
    RETIRE = "RETIRE"  # a valid retire record


class Effect(StrEnum):
    """What then happens to the row's entry. Every effect but BLOCK and REFUSE is carried out by one function."""

    OPEN_FLOOR = "OPEN_FLOOR"  # floor := batch
    RAISE_FLOOR = "RAISE_FLOOR"  # floor := max(floor, batch)
    LOWER_FLOOR = "LOWER_FLOOR"  # floor := the record's
    SET_LAST = "SET_LAST"  # last := this run, history grows; the floor stays
    SET_LAST_ASK_BATCH = "SET_LAST_ASK_BATCH"  # the same, and a fresh batch may now raise the floor
    RETIRE = "RETIRE"  # no longer gating; best_ever is kept
    KEEP = "KEEP"  # nothing changes, nothing blocks
    BLOCK = "BLOCK"  # nothing changes, the release is blocked
    REFUSE = "REFUSE"  # the request itself is wrong: exit 2


def _blocks(state: RatchetState) -> dict[tuple[RatchetState, Event], Effect]:
    events = (Event.RED, Event.SHIFT, Event.INCONCLUSIVE, Event.SUSPECT, Event.VOID, Event.FAILED, Event.MISSING)
    return {(state, event): Effect.BLOCK for event in (*events, Event.NO_FLOOR)}


TABLE: MappingProxyType[tuple[RatchetState, Event], Effect] = MappingProxyType(
    {
        **_blocks(RatchetState.NONE),
        (RatchetState.NONE, Event.BATCH): Effect.OPEN_FLOOR,
        (RatchetState.NONE, Event.BATCH_OF_IMPROVED): Effect.OPEN_FLOOR,
        (RatchetState.NONE, Event.PASSED): Effect.BLOCK,  # nothing to pass against
        (RatchetState.NONE, Event.IMPROVED): Effect.BLOCK,
        (RatchetState.NONE, Event.UNPLANNED): Effect.KEEP,
        (RatchetState.NONE, Event.REBASE): Effect.REFUSE,
        (RatchetState.NONE, Event.RETIRE): Effect.REFUSE,
        **_blocks(RatchetState.ACTIVE),
        (RatchetState.ACTIVE, Event.BATCH): Effect.KEEP,  # a floor is not raised by re-measuring until it is luckier
        (RatchetState.ACTIVE, Event.BATCH_OF_IMPROVED): Effect.RAISE_FLOOR,
        (RatchetState.ACTIVE, Event.PASSED): Effect.SET_LAST,
        (RatchetState.ACTIVE, Event.IMPROVED): Effect.SET_LAST_ASK_BATCH,  # never the data that proved it
        (RatchetState.ACTIVE, Event.UNPLANNED): Effect.BLOCK,
        (RatchetState.ACTIVE, Event.REBASE): Effect.LOWER_FLOOR,
        (RatchetState.ACTIVE, Event.RETIRE): Effect.RETIRE,
        **_blocks(RatchetState.RETIRED),
        (RatchetState.RETIRED, Event.BATCH): Effect.OPEN_FLOOR,  # planned again: it comes back as a new row
        (RatchetState.RETIRED, Event.BATCH_OF_IMPROVED): Effect.OPEN_FLOOR,
        (RatchetState.RETIRED, Event.PASSED): Effect.BLOCK,
        (RatchetState.RETIRED, Event.IMPROVED): Effect.BLOCK,
        (RatchetState.RETIRED, Event.UNPLANNED): Effect.KEEP,
        (RatchetState.RETIRED, Event.REBASE): Effect.REFUSE,
        (RatchetState.RETIRED, Event.RETIRE): Effect.REFUSE,
    }
)

EVENT_OF: MappingProxyType[RowVerdict, Event] = MappingProxyType(
    {
        RowVerdict.PASS: Event.PASSED,
        RowVerdict.IMPROVED: Event.IMPROVED,
        RowVerdict.RED: Event.RED,
        RowVerdict.SHIFT: Event.SHIFT,
        RowVerdict.INCONCLUSIVE: Event.INCONCLUSIVE,
        RowVerdict.SUSPECT: Event.SUSPECT,
        RowVerdict.NEW: Event.BATCH,
        RowVerdict.MISSING_FLOOR: Event.NO_FLOOR,
        RowVerdict.MISSING: Event.MISSING,
        RowVerdict.FAILED: Event.FAILED,
        RowVerdict.VOID: Event.VOID,
    }
)
"""The event that a row's verdict is."""


def effect_of(state: RatchetState, event: Event) -> Effect:
    """Return the table's entry; every combination has one."""
    return TABLE[state, event]

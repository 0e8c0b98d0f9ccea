"""Ratchet: the baseline file, the epoch key, and the state machine that alone may move a floor (STATISTICS §5)."""

from lqw.ratchet.baseline import (
    Baseline,
    Epoch,
    FloorSource,
    Point,
    RatchetState,
    RowEntry,
    baseline_to_json,
    parse_baseline,
    references_for,
)
from lqw.ratchet.epoch import ComparatorIdentity, EpochKey, HostClass, epoch_differences, epoch_key, protocol_sha256
from lqw.ratchet.machine import TABLE, Effect, Event, effect_of
from lqw.ratchet.moves import Move, Moved, adopt, advance, point_of
from lqw.ratchet.records import RatchetRecord, RebaseRecord, RetireRecord, rebase, retire

__all__ = [
    "TABLE",
    "Baseline",
    "ComparatorIdentity",
    "Effect",
    "Epoch",
    "EpochKey",
    "Event",
    "FloorSource",
    "HostClass",
    "Move",
    "Moved",
    "Point",
    "RatchetRecord",
    "RatchetState",
    "RebaseRecord",
    "RetireRecord",
    "RowEntry",
    "adopt",
    "advance",
    "baseline_to_json",
    "effect_of",
    "epoch_differences",
    "epoch_key",
    "parse_baseline",
    "point_of",
    "protocol_sha256",
    "rebase",
    "references_for",
    "retire",
]

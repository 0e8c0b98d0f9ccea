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

__all__ = [
    "Baseline",
    "ComparatorIdentity",
    "Epoch",
    "EpochKey",
    "FloorSource",
    "HostClass",
    "Point",
    "RatchetState",
    "RowEntry",
    "baseline_to_json",
    "epoch_differences",
    "epoch_key",
    "parse_baseline",
    "protocol_sha256",
    "references_for",
]

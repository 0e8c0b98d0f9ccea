"""Ratchet: the baseline file, the epoch key, and the state machine that alone may move a floor (STATISTICS §5)."""

from typing import TYPE_CHECKING

from lqw.imports import exports

if TYPE_CHECKING:
    from lqw.ratchet.baseline import Baseline as Baseline
    from lqw.ratchet.baseline import Epoch as Epoch
    from lqw.ratchet.baseline import FloorSource as FloorSource
    from lqw.ratchet.baseline import Point as Point
    from lqw.ratchet.baseline import RatchetState as RatchetState
    from lqw.ratchet.baseline import RowEntry as RowEntry
    from lqw.ratchet.baseline import baseline_to_json as baseline_to_json
    from lqw.ratchet.baseline import parse_baseline as parse_baseline
    from lqw.ratchet.baseline import references_for as references_for
    from lqw.ratchet.epoch import ComparatorIdentity as ComparatorIdentity
    from lqw.ratchet.epoch import EpochKey as EpochKey
    from lqw.ratchet.epoch import HostClass as HostClass
    from lqw.ratchet.epoch import epoch_differences as epoch_differences
    from lqw.ratchet.epoch import epoch_key as epoch_key
    from lqw.ratchet.epoch import protocol_sha256 as protocol_sha256
    from lqw.ratchet.machine import TABLE as TABLE
    from lqw.ratchet.machine import Effect as Effect
    from lqw.ratchet.machine import Event as Event
    from lqw.ratchet.machine import effect_of as effect_of
    from lqw.ratchet.moves import Move as Move
    from lqw.ratchet.moves import Moved as Moved
    from lqw.ratchet.moves import adopt as adopt
    from lqw.ratchet.moves import advance as advance
    from lqw.ratchet.moves import point_of as point_of
    from lqw.ratchet.records import RatchetRecord as RatchetRecord
    from lqw.ratchet.records import RebaseRecord as RebaseRecord
    from lqw.ratchet.records import RetireRecord as RetireRecord
    from lqw.ratchet.records import rebase as rebase
    from lqw.ratchet.records import retire as retire
else:
    __getattr__, __all__ = exports(
        __name__,
        {
            "baseline": (
                "Baseline",
                "Epoch",
                "FloorSource",
                "Point",
                "RatchetState",
                "RowEntry",
                "baseline_to_json",
                "parse_baseline",
                "references_for",
            ),
            "epoch": (
                "ComparatorIdentity",
                "EpochKey",
                "HostClass",
                "epoch_differences",
                "epoch_key",
                "protocol_sha256",
            ),
            "machine": ("TABLE", "Effect", "Event", "effect_of"),
            "moves": ("Move", "Moved", "adopt", "advance", "point_of"),
            "records": ("RatchetRecord", "RebaseRecord", "RetireRecord", "rebase", "retire"),
        },
    )

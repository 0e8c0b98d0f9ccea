"""Confirmation batches made of numbers, for runs of :mod:`lqw.testing.synthetic`."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from lqw.outcomes import Arm, BatchArm, Purpose
from lqw.plan import BATCH_TUPLES, StartKey, batch_starts, build_plan
from lqw.receipt.subject import subject_of
from lqw.samples import Batch, BatchRecord, BatchStart, start_fields
from lqw.testing.params import name_sha256
from lqw.testing.synthetic import Maker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.params import Params
    from lqw.plan import BatchKey
    from lqw.testing.synthetic import SyntheticRun

__all__ = ["with_batch"]


def with_batch(
    run: SyntheticRun,
    params: Params,
    *,
    release: str = "1.0.0",
    effects: Mapping[str, float] | None = None,
    earlier_effects: Mapping[str, float] | None = None,
    binary: str = "subject",
    earlier_binary: str = "subject",
    commit: str = "",
    sd: float = 0.04,
    seed: int = 11,
) -> SyntheticRun:
    """Return *run* with every model confirmed beside *release*.

    Parameters
    ----------
    effects, earlier_effects : mapping, optional
        Short row id → factor on the metric itself: of the candidate, and of the earlier release, in the batch.
    binary : str
        Names the candidate's binary, as in :func:`lqw.testing.synthetic.synthetic_run`; so does *commit*.
    earlier_binary : str
        Names the earlier release's: what its floor was measured with, or the batch proves nothing.
    """
    rng, plan = random.Random(seed), build_plan(params, Purpose.GATE)  # noqa: S311 - noise, not a secret
    candidate = Maker(params, rng, sd, dict(effects or {}), {}, binary, commit)
    earlier = Maker(params, rng, sd, dict(earlier_effects or {}), {}, earlier_binary)
    at = len(run.starts) + len(run.identities)
    starts: list[BatchStart] = []
    for model in plan.orders:
        for key in batch_starts(plan, model, [release], launches=len(params.protocol.launches)):
            maker = earlier if key.arm is BatchArm.EARLIER else candidate
            starts.append(_start(maker, key, at + len(starts)))
    pinned = name_sha256("binary", earlier_binary)
    declared = BatchRecord(
        declared_utc="2026-01-01T00:05:00Z",
        subject_sha256=subject_of(params, run.header.models, run.starts),
        tuples=BATCH_TUPLES,
        against={model: [release] for model in plan.orders},
        earlier={release: {**params.release.subject.model_dump(mode="json"), "sha256": pinned}},
    )
    return replace(run, batch=Batch(declared=declared, starts=tuple(starts)))


def _start(maker: Maker, key: BatchKey, position: int) -> BatchStart:
    arm = Arm.COMPARATOR if key.arm is BatchArm.COMPARATOR else Arm.SUBJECT
    made = maker.start(StartKey(key.model, key.pair, arm, key.launch), position, None)
    return BatchStart(**start_fields(made), arm=key.arm, release=key.release)

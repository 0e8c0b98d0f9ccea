"""The shape of a confirmation batch against its declaration: an honest run has no finding, so any makes it INVALID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lqw.outcomes import Arm, BatchArm
from lqw.params import EngineSpec
from lqw.plan import BATCH_TUPLES, BatchKey, batch_starts
from lqw.receipt.problems import Problem
from lqw.receipt.requests import request_problems
from lqw.receipt.subject import subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lqw.params import HostSpec, Params
    from lqw.plan import Plan
    from lqw.samples import Batch, BatchStart, EngineFacts, StartRecord

__all__ = ["batch_problems", "engine_problems"]


def batch_problems(
    params: Params, plan: Plan, models: Mapping[str, str], starts: Sequence[StartRecord], batch: Batch
) -> Iterator[Problem]:
    """Yield what is wrong with the shape of a batch.

    It was declared for this candidate and these models; it began after the last pair; its starts ran in the order the
    seed drew, none twice; its engines are those of the run, and the earlier ones those that were declared.
    """
    declared = batch.declared
    subject = subject_of(params, models, starts)
    for field, recorded, must in (
        ("subject_sha256", declared.subject_sha256, subject),
        ("tuples", declared.tuples, BATCH_TUPLES),
        ("against", sorted(declared.against), sorted(plan.orders.keys() & declared.against.keys())),
        ("earlier", sorted(declared.earlier), sorted({name for names in declared.against.values() for name in names})),
    ):
        if recorded != must:
            yield Problem(f"batch.declared.{field}", recorded, must)
    yield from _order(params, plan, batch)
    yield from _positions(starts, batch)
    yield from _engines(params, starts, batch)
    yield from request_problems(params, batch.starts, name="batch.starts")


def _order(params: Params, plan: Plan, batch: Batch) -> Iterator[Problem]:
    """Every model's starts are the first ones of what was drawn: a batch may have been stopped, never picked from."""
    by_model: dict[str, list[BatchStart]] = {}
    for start in sorted(batch.starts, key=lambda one: one.position):
        by_model.setdefault(start.model, []).append(start)
    for model, ran in by_model.items():
        drawn = batch_starts(plan, model, batch.declared.against.get(model, ()), launches=len(params.protocol.launches))
        keys = [BatchKey(one.model, one.pair, one.arm, one.release, one.launch) for one in ran]
        for at, (key, wanted) in enumerate(zip(keys, [*drawn, *[None] * len(keys)], strict=False)):
            if key != wanted:
                yield Problem(f"batch.starts of {model}, number {at}", str(key), str(wanted or "no further start"))
                break


def _positions(starts: Sequence[StartRecord], batch: Batch) -> Iterator[Problem]:
    last = max((start.position for start in starts), default=-1)
    for at, start in enumerate(batch.starts):
        if start.position <= last:
            yield Problem(
                f"batch.starts.{at}.position",
                start.position,
                f"after {last}: a batch is declared when the pairs are done",
            )


def _engines(params: Params, starts: Sequence[StartRecord], batch: Batch) -> Iterator[Problem]:
    first = {start.arm: start.engine for start in reversed(starts) if start.engine is not None}
    specs = {Arm.SUBJECT: params.release.subject, Arm.COMPARATOR: params.release.comparator}
    earlier: dict[str, EngineSpec] = {}
    for release, raw in batch.declared.earlier.items():
        try:
            earlier[release] = EngineSpec.model_validate(raw)
        except ValidationError as err:
            yield Problem(f"batch.declared.earlier.{release}", raw, f"an engine: {err.errors()[0]['msg']}")
            return
    seen: dict[str, EngineFacts] = {}
    for at, start in enumerate(batch.starts):
        where, engine = f"batch.starts.{at}", start.engine
        if engine is None:
            if start.failure is None:
                yield Problem(f"{where}.engine", None, f"what ran as {start.arm}")
        elif start.arm is BatchArm.EARLIER:
            spec = earlier.get(start.release)
            if spec is not None:
                yield from engine_problems(where, engine, seen.setdefault(start.release, engine), spec, params.host)
        else:
            arm = Arm.SUBJECT if start.arm is BatchArm.CANDIDATE else Arm.COMPARATOR
            yield from engine_problems(where, engine, first.get(arm) or engine, specs[arm], params.host)


def engine_problems(
    where: str, engine: EngineFacts, first: EngineFacts, spec: EngineSpec, host: HostSpec
) -> Iterator[Problem]:
    """Yield where a start's engine is not the declared one, on the declared compute, one binary throughout."""
    wanted: tuple[tuple[str, Any, Any], ...] = (
        ("engine", engine.engine, spec.engine),
        ("compute", engine.compute, host.compute),
        ("binary_sha256", engine.binary_sha256, spec.sha256 or first.binary_sha256),
        ("version", engine.version, first.version),
        ("build", engine.build, first.build),
    )
    yield from (Problem(f"{where}.engine.{field}", is_, must) for field, is_, must in wanted if is_ != must)

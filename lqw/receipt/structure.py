"""Does the record have the shape its own plan demands? Every planned request once, none extra, the same on both sides.

What a slow engine does is a value on a row and judged elsewhere. What is found here cannot come from an engine: an
honest run has none of it, so each finding makes the run INVALID.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from lqw.outcomes import Arm
from lqw.receipt.batch import batch_problems, engine_problems
from lqw.receipt.problems import Problem
from lqw.receipt.requests import request_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lqw.params import Params
    from lqw.plan import Plan
    from lqw.samples import Batch, BatchStart, BesideRecord, Header, IdentityRecord, StartRecord

__all__ = ["structure_problems"]

_SHA256 = 64  # digits; a model without them was never measured
MOST = 20  # problems that are listed; a document that is wrong throughout need not say so a thousand times


def structure_problems(
    header: Header,
    params: Params,
    plan: Plan,
    starts: Sequence[StartRecord],
    identities: Sequence[IdentityRecord],
    *,
    batch: Batch | None = None,
    besides: Sequence[BesideRecord] = (),
) -> tuple[Problem, ...]:
    """Return what is wrong with the shape of a run's records, at most twenty problems.

    Parameters
    ----------
    header : Header
        The journal's first line.
    params, plan
        As rebuilt from the header.
    starts, identities, besides : sequences of records
        Of engines beside only who and when is looked at: whatever they did, they cannot fail a run.
    batch : Batch or None
        The confirmation batch.
    """
    found = chain(
        _header(header, params, plan),
        _positions([*starts, *identities, *(batch.starts if batch else ()), *besides]),
        _besides(params, besides),
        _engines(params, starts, identities),
        request_problems(params, starts),
        () if batch is None else batch_problems(params, plan, header.models, starts, batch),
    )
    return tuple(islice(found, MOST))


def _header(header: Header, params: Params, plan: Plan) -> Iterator[Problem]:
    pairs: list[tuple[str, Any, Any]] = [
        ("header.plan_sha256", header.plan_sha256, plan.sha256),
        ("header.models", header.models, {model.name: model.sha256 for model in params.release.models}),
        ("header.models unpinned", [name for name, sha256 in header.models.items() if len(sha256) != _SHA256], []),
        ("header.host.name", header.host.name, params.host.name),
    ]
    rebuilt = plan.to_json()
    pairs += [(f"header.plan.{key}", header.plan.get(key), rebuilt.get(key)) for key in {**rebuilt, **header.plan}]
    for field, recorded, recomputed in pairs:
        if recorded != recomputed:
            yield Problem(field, recorded, recomputed)


def _positions(records: Sequence[StartRecord | IdentityRecord | BatchStart | BesideRecord]) -> Iterator[Problem]:
    claimed = Counter(record.position for record in records)
    for position, count in sorted(claimed.items()):
        if count > 1:
            yield Problem("position", f"{count} records claim {position}", "one record a position")


def _besides(params: Params, besides: Sequence[BesideRecord]) -> Iterator[Problem]:
    """Every start beside was declared, and stands once."""
    launches = range(len(params.protocol.launches))
    declared = {
        (one.name, model.name, launch)
        for one in params.release.beside
        for model in params.release.models
        for launch in launches
    }
    for at, record in enumerate(besides):
        key = (record.name, record.model, record.launch)
        if key not in declared:
            yield Problem(f"beside.{at}", "/".join(map(str, key)), "an engine, model and launch of the params, once")
        declared.discard(key)


def _engines(params: Params, starts: Sequence[StartRecord], identities: Sequence[IdentityRecord]) -> Iterator[Problem]:
    """Both arms: the declared engine, on the declared compute, one binary throughout."""
    identity = [(f"identities.{at}", record.engine, record.failure) for at, record in enumerate(identities)]
    for arm, spec in ((Arm.SUBJECT, params.release.subject), (Arm.COMPARATOR, params.release.comparator)):
        used = [(f"starts.{at}", one.engine, one.failure) for at, one in enumerate(starts) if one.arm is arm]
        used += identity if arm is Arm.SUBJECT else []
        ready = [(where, engine) for where, engine, _ in used if engine is not None]
        yield from (
            Problem(f"{where}.engine", None, f"what ran as {arm}")
            for where, engine, failure in used
            if engine is None and failure is None
        )
        for where, engine in ready:
            yield from engine_problems(where, engine, ready[0][1], spec, params.host)

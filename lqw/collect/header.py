"""The journal's first line: what this run is; and the refusal of a journal of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lqw
from lqw.collect.arms import utc_now
from lqw.engines.fit import work_of
from lqw.errors import IntegrityError
from lqw.host.fingerprint import host_facts
from lqw.receipt.source import source_sha256
from lqw.samples import Header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lqw.journal import Journal
    from lqw.params import Params
    from lqw.plan import Plan
    from lqw.samples import EngineFacts

__all__ = ["make_header", "refuse_other_binary", "refuse_other_run"]


def make_header(params: Params, plan: Plan, run_id: str, models: Mapping[str, Path]) -> Header:
    """Return the header of a run that begins now; *models* are the files on disk, by name.

    What a pass over a model takes is looked at only where the host's roofline is known.
    """
    known = {name: work_of(path) for name, path in models.items()} if params.roofline else {}
    return Header(
        run_id=run_id,
        purpose=plan.purpose,
        started_utc=utc_now(),
        plan=plan.to_json(),
        plan_sha256=plan.sha256,
        params=params.resolved(),
        host=host_facts(params.host.name, params.host.compute),
        models={model.name: model.sha256 for model in params.release.models},
        work={name: work for name, work in known.items() if work is not None},
        lqw_version=lqw.__version__,
        lqw_source_sha256=source_sha256(),
    )


def _differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, f"{where}.{index}")
    elif old != new:
        yield f"{where}: the journal has {str(old)[:80]!r}, this run {str(new)[:80]!r}"


def refuse_other_run(path: Path, journal: Journal, header: Header) -> None:
    """Raise IntegrityError naming what differs between a journal and the run that would go on writing it."""
    old, new = journal.header.model_dump(mode="json"), header.model_dump(mode="json")
    for value in (old, new):
        del value["started_utc"]
    found = list(_differences(old, new))
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""  # noqa: PLR2004 - as many as one line bears
        raise IntegrityError(
            f"{path} is the journal of another run: {'; '.join(found[:3])}{more}",
            remedy="start a new run; a journal is only resumed by what began it",
        )


def refuse_other_binary(path: Path, arm: str, old: EngineFacts, new: EngineFacts) -> None:
    """Raise IntegrityError when an arm runs other bytes than it did earlier in the run."""
    if old.binary_sha256 != new.binary_sha256:
        raise IntegrityError(
            f"{path}: the {arm} ran binary sha256 {old.binary_sha256} before and runs {new.binary_sha256} now",
            remedy="put the first binary back, or start a new run",
        )

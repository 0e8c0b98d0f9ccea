"""Whether the old build of a confirmation batch is the one that set the reference: that release's own receipt says so.

A batch frees a row from RED, or lets an improvement be believed, by what an *older* build did beside the candidate. A
receipt can name any build for that. So the receipt that set the floor (or the last value), named by its sha256 in the
references, is asked which engine, program, settings and environment it was measured with.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict, sha256_bytes
from lqw.errors import IntegrityError, UsageError
from lqw.outcomes import Arm, BatchArm, RowVerdict
from lqw.receipt.problems import Problem
from lqw.receipt.store import receipt_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from lqw.samples import Batch
    from lqw.verdict import Judgement, Standing

__all__ = ["Find", "build_of", "build_problems", "find_among", "without_batch"]

Find = Callable[[str, str], bytes | None]
"""Takes a release and the sha256 of a receipt of it; returns the receipt, or None where the store does not hold it."""

_SAME = ("engine", "binary_sha256", "settings", "env")


def find_among(names: Container[str], read: Callable[[str], bytes]) -> Find:
    """Return a search among the file names of a host's store.

    Parameters
    ----------
    names : container of str
    read : callable
        Takes such a name, returns the file.
    """

    def find(release: str, sha256: str) -> bytes | None:
        try:
            held = takewhile(names.__contains__, (receipt_name(release, at) for at in count(1)))
            return next((data for data in map(read, held) if sha256_bytes(data) == sha256), None)
        except UsageError:
            return None  # no file can have that release's name

    return find


def build_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return engine, program, settings and environment of what a receipt measured; IntegrityError where it is none."""
    try:
        spec = document["header"]["params"]["release"]["subject"]
        ran = (one["engine"] for one in document["starts"] if one["arm"] == Arm.SUBJECT and one["engine"])
        binary = next((engine["binary_sha256"] for engine in ran), spec.get("sha256"))
        return {
            "engine": spec["engine"],
            "binary_sha256": binary,
            "settings": spec.get("settings", {}),
            "env": spec.get("env", {}),
        }
    except (KeyError, TypeError, AttributeError) as err:
        raise IntegrityError(f"not a receipt: {err!r}") from err


def build_problems(batch: Batch, judgement: Judgement, standing: Standing, find: Find) -> tuple[list[Problem], str]:
    """Return where the batch ran another old build than set the reference, and why nobody can say, where nobody can.

    Looks only at releases that a confirmation rests on. The second value is empty where every one of them is known.
    """
    problems: list[Problem] = []
    unknown = ""
    for release, sha256 in sorted(set(_rests_on(judgement, standing))):
        data = find(release, sha256)
        if data is None:
            unknown = unknown or (
                f"the third arm does not count: the receipt of {release} ({sha256[:12]}), which says what build set "
                "the reference, is not beside it"
            )
            continue
        try:
            was = build_of(loads_strict(data, name=f"the receipt of {release}"))
        except IntegrityError as err:
            unknown = unknown or f"the third arm does not count: {err.message}"
            continue
        ran = _ran(batch, release)
        problems += [
            Problem(f"batch.earlier.{release}.{field}", ran[field], was[field], "third arm")
            for field in _SAME
            if ran[field] != was[field]
        ]
    return problems, unknown


def _ran(batch: Batch, release: str) -> dict[str, Any]:
    """Return what stood for a release in the batch; that all its starts were one program is checked elsewhere."""
    declared = batch.declared.earlier.get(release, {})
    engines = (one.engine for one in batch.starts if one.arm is BatchArm.EARLIER and one.release == release)
    binary = next((one.binary_sha256 for one in engines if one is not None), declared.get("sha256"))
    return {
        "engine": declared.get("engine"),
        "binary_sha256": binary,
        "settings": declared.get("settings", {}),
        "env": declared.get("env", {}),
    }


def _rests_on(judgement: Judgement, standing: Standing) -> Iterator[tuple[str, str]]:
    """Yield release and receipt of every reference that a row or a family was held against in the batch."""
    told = {suite.family for suite in judgement.suites if _answered(suite.confirmation)}
    for row in judgement.rows:
        references = standing.references.get(row.row)
        if references is None:
            continue
        by_family = row.family in told and row.gating and row.verdict is not RowVerdict.SUSPECT
        by_last = row.band is not None and row.band.red_by == "last"
        used = [references.floor] if by_family else []
        used += [references.last if by_last else references.floor] if _answered(row.confirmation) else []
        yield from ((one.release, one.receipt_sha256) for one in used if one is not None)


def _answered(confirmation: Any) -> bool:
    return confirmation is not None and confirmation.state != "NOT MEASURED"


def without_batch(alone: Judgement, why: str) -> Judgement:
    """Return the verdict of a run whose batch was left out, with the reason for leaving it out."""
    said = alone.sentence.removeprefix(f"{alone.outcome}: ")
    return alone.model_copy(update={"sentence": f"{alone.outcome}: {why}; {said}", "reasons": (why, *alone.reasons)})

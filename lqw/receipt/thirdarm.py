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
from lqw.verdict.results import SuiteResult

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from lqw.params import EngineSpec
    from lqw.samples import Batch
    from lqw.verdict import Judgement, Standing
    from lqw.verdict.results import RowResult

__all__ = ["Find", "build_of", "build_problems", "declared_build", "find_among", "refuse_foreign", "without_batch"]

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


def declared_build(spec: EngineSpec) -> dict[str, Any]:
    """Return the same of an old build as a file of params declares it."""
    return {"engine": spec.engine, "binary_sha256": spec.sha256, "settings": spec.settings, "env": spec.env}


def refuse_foreign(judgement: Judgement, standing: Standing, earlier: Mapping[str, EngineSpec], find: Find) -> None:
    """Refuse to begin a batch that would be found to prove nothing: there is only one.

    Parameters
    ----------
    judgement : Judgement
        That asks for the batch.
    standing : Standing
        What it was judged by.
    earlier : mapping
        Release → its engine as declared; releases that are not in it are not looked at.
    find : callable

    Raises
    ------
    UsageError
        A build is not the one of the very receipt that set a reference, or that receipt cannot be read.
    """
    for release, sha256 in sorted(set(_rests_on(judgement, standing, _asks))):
        if release not in earlier:
            continue
        data, where = find(release, sha256), f"the receipt of {release} ({sha256[:12]})"
        if data is None:
            raise UsageError(
                f"{where}, which says what build set the reference, is not in the store: not confirmed",
                remedy="bring it back from git, then --resume",
            )
        was, declared = build_of(loads_strict(data, name=where)), declared_build(earlier[release])
        other = ", ".join(field for field in _SAME if was[field] != declared[field])
        if other:
            raise UsageError(
                f"params/earlier/ names another build of {release} than set the reference: {other} not as in {where}",
                remedy=f"declare it as {release} was declared in that run, then --resume",
            )


def build_problems(batch: Batch, judgement: Judgement, standing: Standing, find: Find) -> tuple[list[Problem], str]:
    """Return where the batch ran another old build than set the reference, and why nobody can say, where nobody can.

    Looks only at releases that a confirmation rests on. The second value is empty where every one of them is known.
    """
    problems: list[Problem] = []
    unknown = ""
    for release, sha256 in sorted(set(_rests_on(judgement, standing, _answered))):
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


def _rests_on(
    judgement: Judgement, standing: Standing, told: Callable[[RowResult | SuiteResult], bool]
) -> Iterator[tuple[str, str]]:
    """Yield release and receipt of every reference that a row or a family of which *told* is true is held against."""
    families = {suite.family for suite in judgement.suites if told(suite)}
    for row in judgement.rows:
        references = standing.references.get(row.row)
        if references is None:
            continue
        by_family = row.family in families and row.gating and row.verdict is not RowVerdict.SUSPECT
        by_last = row.band is not None and row.band.red_by == "last"
        used = [references.floor] if by_family else []
        used += [references.last if by_last else references.floor] if told(row) else []
        yield from ((one.release, one.receipt_sha256) for one in used if one is not None)


def _answered(one: RowResult | SuiteResult) -> bool:
    return one.confirmation is not None and one.confirmation.state != "NOT MEASURED"


def _asks(one: RowResult | SuiteResult) -> bool:
    return one.red if isinstance(one, SuiteResult) else one.confirm_with is not None


def without_batch(alone: Judgement, why: str) -> Judgement:
    """Return the verdict of a run whose batch was left out, with the reason for leaving it out."""
    said = alone.sentence.removeprefix(f"{alone.outcome}: ")
    return alone.model_copy(update={"sentence": f"{alone.outcome}: {why}; {said}", "reasons": (why, *alone.reasons)})

"""What the store has to say before anything is started: who is not measured again, and what an old build must be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lqw.canonical import read_json
from lqw.errors import ParamsError, UsageError
from lqw.outcomes import Outcome
from lqw.params.earlier import earlier_file, load_earlier
from lqw.receipt.claims import claim_of
from lqw.receipt.store import Store
from lqw.receipt.subject import subject_sha256

if TYPE_CHECKING:
    from lqw.params import Params

__all__ = ["refuse_other_builds", "refuse_second_attempt"]


def refuse_second_attempt(params: Params, root: Path, run_id: str | None) -> None:
    """Refuse a candidate that was RED, or whose confirmation batch another run has begun.

    Looks at the bytes on disk, so it knows before a start; a candidate without a binary of its own (the embedded
    engine) is known when it runs, and refused when its receipt is stored.

    Parameters
    ----------
    run_id : str or None
        Of the run that is resumed: it may go on with what it began.

    Raises
    ------
    UsageError
        Naming the receipt or the run.
    """
    from lqw.engines.binaries import file_sha256  # noqa: PLC0415 - not for a replay

    spec, host, store = params.release.subject, params.host.name, Store(root)
    if spec.binary is None:
        return
    models, binary = {model.name: model.sha256 for model in params.release.models}, file_sha256(spec.binary)
    subject = subject_sha256(spec, binary, models)
    named = bool(load_earlier(Path(params.path), params.host))
    store.refuse_repeat(host, subject, confirmed_by=run_id if named else None)
    claim = claim_of(store, host, binary)
    if claim is None or claim.run_id == run_id:
        return
    if any(one.run_id == claim.run_id for one in store.attempts(host, claim.release)):
        return  # that run ended; this one may be measured, but gets no batch of its own
    raise UsageError(
        f"run {claim.run_id} has begun the one confirmation batch of this candidate's program ({claim.declared_utc}) "
        "and has not ended",
        remedy="go on with it, --resume its folder: the one whose run.json names that run; where it is lost, bring it "
        "back from a copy or gate a new build: this one can be confirmed no more",
    )


def refuse_other_builds(params: Params, root: Path) -> None:
    """Refuse an old build that no receipt of its release in the store is of; ParamsError names the release.

    Which of them set the reference is known when a batch is declared: :func:`lqw.receipt.thirdarm.refuse_foreign`.
    """
    from lqw.receipt.thirdarm import build_of, declared_build  # noqa: PLC0415 - the judge, which few starts need

    host, store = params.host.name, Store(root)
    for release, spec in load_earlier(Path(params.path), params.host).items():
        released = [one for one in store.attempts(host, release) if one.outcome in (Outcome.FLOOR, Outcome.PASS)]
        if released and declared_build(spec) not in [build_of(read_json(one.path)) for one in released]:
            raise ParamsError(
                file=str(earlier_file(Path(params.path), host)),
                field=f"releases.{release}",
                value=spec.binary or spec.engine,
                problem=f"is not what set the floor: {released[-1].path.name} was measured with another binary, "
                "other settings or another environment",
                remedy=f"declare it as {release} was declared when it was measured",
            )

"""Going on with a run that was killed while it measured, or while it stored what it had earned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import UsageError
from lqw.journal import read_journal
from lqw.outcomes import Outcome
from lqw.pipeline.refusals import refuse_second_attempt
from lqw.pipeline.runs import Folder, Resumed, RunInfo, read_run, utc_now
from lqw.plan import build_plan
from lqw.receipt.store import Store

if TYPE_CHECKING:
    from lqw.outcomes import Purpose
    from lqw.params import Params

__all__ = ["Again", "open_again"]


@dataclass(frozen=True, slots=True)
class Again:
    """A run opened again. ``stored`` is its receipt where it has ended in PASS or FLOOR: it is not judged twice."""

    folder: Folder
    info: RunInfo
    stored: Path | None


def open_again(path: Path, params: Params, purpose: Purpose, params_file: Path) -> Again:
    """Open the run of a folder.

    A run whose PASS or FLOOR is stored is done: the same samples, judged again, would be a second attempt and would
    count twice in the history. Only what its end left undone in the store is done. Everything else goes on, and its
    results so far are cleared.

    Raises
    ------
    UsageError
        Another run's params, host or purpose; a replayed journal; a candidate that is not measured again.
    """
    folder, info = read_run(path)
    if info.replayed is not None:
        raise UsageError(f"{folder.path}: a replayed journal measures nothing", remedy="give --journal again")
    if info.purpose is not purpose or info.host != params.host.name:
        raise UsageError(
            f"{folder.path}: a run to {info.purpose} on {info.host}, not to {purpose} on {params.host.name}",
            remedy="resume it with the command it was started with",
        )
    records = _records(folder, params, purpose, params_file)
    done = next(
        (
            one.path
            for one in Store(info.store).attempts(info.host, params.release.release)
            if one.run_id == info.run_id and one.outcome in (Outcome.PASS, Outcome.FLOOR)
        ),
        None,
    )
    if done is not None:
        return Again(folder, info, done)
    refuse_second_attempt(params, Path(info.store), info.run_id)
    info = info.model_copy(update={"resumed": (*info.resumed, Resumed(utc=utc_now(), records=records))})
    folder.clear_results()
    folder.write_info(info)
    return Again(folder, info, None)


def _records(folder: Folder, params: Params, purpose: Purpose, params_file: Path) -> int:
    """Return how much the journal holds, which must be of these params."""
    if not folder.journal.is_file() or not folder.journal.stat().st_size:
        return 0
    journal = read_journal(folder.journal)
    if journal.header.plan_sha256 != build_plan(params, purpose).sha256:
        raise UsageError(
            f"{folder.path}: its journal was measured with other parameters than {params_file}",
            remedy="resume with the parameters it was started with, or start a new run",
        )
    more = len(journal.batch.starts) if journal.batch else 0
    return len(journal.starts) + len(journal.identities) + len(journal.besides) + more

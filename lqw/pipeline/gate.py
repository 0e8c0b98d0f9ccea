"""One run from beginning to end: checks, chain, proof, verdict recomputed, report, store.

The order matters. Parameters are refused before a folder exists. The receipt is written before the verdict is spoken.
The exit status is what :func:`lqw.receipt.verify_receipt` computes from the raw samples, never a notebook's word. The
report is rendered whatever happened. The baseline moves last, and only by a receipt that earned it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lqw.canonical import sha256_file
from lqw.errors import Exit, LqwError, UsageError
from lqw.host.lock import HostLock
from lqw.journal import read_journal, read_recorded
from lqw.outcomes import Outcome, Purpose
from lqw.params import load_params
from lqw.pipeline.chain import ChainResult, Job, run_chain
from lqw.pipeline.refusals import refuse_other_builds, refuse_second_attempt
from lqw.pipeline.resuming import open_again
from lqw.pipeline.runs import STAGES, Folder, Replayed, RunInfo, new_run_id, own_store, repository_root, utc_now

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    from lqw.params import Params
    from lqw.receipt import Verification
    from lqw.verdict import Judgement

__all__ = ["Finished", "Order", "Prepared", "prepare", "replay_into", "run", "store_beside"]


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asked for."""

    params_file: Path
    purpose: Purpose = Purpose.GATE
    host: str | None = None
    store: Path | None = None
    run: Path | None = None
    resume: Path | None = None
    journal: Path | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run whose folder exists and whose parameters hold; nothing was started yet.

    ``stored`` is the receipt of a resumed run that has ended already.
    """

    folder: Folder
    info: RunInfo
    params: Params
    stages: tuple[str, ...]
    stored: Path | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended. ``notes`` are the lines a person must see beyond the verdict."""

    folder: Folder
    status: Exit
    outcome: Outcome
    sentence: str
    counts: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    report: Path | None = None
    stored: Path | None = None


def prepare(order: Order) -> Prepared:
    """Check everything that can be checked without starting anything, then make or open the run folder.

    Raises
    ------
    ParamsError, UsageError
        Exit 2; nothing was written.
    HostBusy
        Exit 75.
    """
    params = load_params(order.params_file, host=order.host)
    store = order.store or own_store(params)
    if order.journal is not None:
        return _replay(order, params, store)
    from lqw.collect.preflight import preflight  # noqa: PLC0415 - engines, not for a replay

    preflight(params, order.purpose)
    _writable(store)
    refuse_other_builds(params, store)
    if order.resume is not None:
        again = open_again(order.resume, params, order.purpose, order.params_file)
        return Prepared(again.folder, again.info, params, STAGES, again.stored)
    refuse_second_attempt(params, store, None)
    run_id = new_run_id(params.release.release)
    folder = _new_folder(order, run_id, params)
    info = RunInfo(
        run_id=run_id,
        purpose=order.purpose,
        params_file=str(order.params_file.resolve()),
        host=params.host.name,
        store=str(store.resolve()),
        started_utc=utc_now(),
    )
    folder.write_info(info)
    return Prepared(folder, info, params, STAGES)


def _writable(store: Path) -> None:
    """Refuse a store that could not take the receipt in the end."""
    place = store
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):  # asked by doing: root may write everywhere, and /proc takes no file
            pass
    except OSError as err:
        raise UsageError(f"{store}: the store cannot be written", remedy="name another one with --store DIR") from err


def _new_folder(order: Order, run_id: str, params: Params) -> Folder:
    path = order.run or repository_root(params.path) / "runs" / run_id
    if path.is_dir() and any(path.iterdir()):
        raise UsageError(f"{path}: not empty", remedy="name a new folder, or go on with --resume")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(
            f"{path}: cannot make the run folder: {err.strerror or err}", remedy="name another one with --run DIR"
        ) from err
    return Folder(path)


def _replay(order: Order, params: Params, store: Path) -> Prepared:
    """Make a run of a recorded journal: stages 20–40 judge it, nothing is measured."""
    source = order.journal or Path()
    from lqw.receipt import params_of  # noqa: PLC0415

    journal = read_recorded(source)
    if params_of(journal.header).resolved() != params.resolved():  # typed: a field added since has its default
        raise UsageError(
            f"{source}: measured with other parameters than {order.params_file}",
            remedy="name the release file it was measured with",
        )
    folder = _new_folder(order, new_run_id(params.release.release), params)
    if order.store is None and (source.parent / "baseline.json").is_file():
        store = store_beside(source, folder.path / "store")
    return replay_into(folder, source, store, params_file=order.params_file)


def store_beside(journal: Path, store: Path) -> Path:
    """Make a store of the baseline and token reference that lie beside a recorded journal; return it."""
    place = store / read_journal(journal).header.host.name
    place.mkdir(parents=True)
    for name in ("baseline.json", "reference.json"):
        if (journal.parent / name).is_file():
            shutil.copyfile(journal.parent / name, place / name)
    return store


def replay_into(folder: Folder, source: Path, store: Path, *, params_file: Path | None = None) -> Prepared:
    """Fill *folder* with a recorded journal, so that stages 20–40 can judge it against *store*."""
    from lqw.canonical import read_json  # noqa: PLC0415
    from lqw.pipeline.artefacts import write_artefact  # noqa: PLC0415
    from lqw.pipeline.runs import JOURNAL  # noqa: PLC0415
    from lqw.receipt import params_of  # noqa: PLC0415

    header = read_journal(source).header
    params = params_of(header)
    folder.path.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder.journal)
    info = RunInfo(
        run_id=header.run_id,
        purpose=header.purpose,
        params_file=str((params_file or source).resolve()),
        host=params.host.name,
        store=str(store.resolve()),
        started_utc=header.started_utc,
        replayed=Replayed(file=source.name, sha256=sha256_file(source)),
    )
    folder.write_info(info)
    beside = source.parent / "collect.json"
    recorded = read_json(beside) if beside.is_file() else {}
    body = {"collect": {"replayed": source.name}, "calibration": recorded.get("calibration", {})}
    write_artefact(folder, "10_collect", info.run_id, body, inputs=[JOURNAL])
    return Prepared(folder, info, params, STAGES[1:])


def run(prepared: Prepared, *, console: Console | None = None, form: Literal["live", "json"] = "live") -> Finished:
    """Run the chain of a prepared run, judge it, render its report and store what it earned.

    Parameters
    ----------
    prepared : Prepared
    console : rich Console, optional
        Where the live display goes; None shows nothing.
    form : {"live", "json"}
        As in :class:`lqw.pipeline.display.Display`.
    """
    folder, info = prepared.folder, prepared.info
    if prepared.stored is not None:
        return _ended_before(prepared, prepared.stored)
    marker = info.run_id if info.replayed is None else f"{info.run_id}/{os.getpid()}/{folder.path.name}"
    job = Job(
        folder=folder,
        run_id=info.run_id,
        marker=marker,
        deadline_s=prepared.params.protocol.total_deadline_s,
        stages=prepared.stages,
        parameters={"run_dir": str(folder.path.resolve())},
    )
    title = f"{info.purpose} {prepared.params.release.release} on {info.host}"
    with HostLock(prepared.params.host.lock if info.replayed is None else None), _display(folder, title, console, form):
        chain = run_chain(job)
    finished = _judged(prepared, chain)
    report, problems = _report(
        folder, chain.broken or (finished.notes if finished.outcome is Outcome.INCOMPLETE else ())
    )
    return replace(finished, report=report, notes=(*finished.notes, *problems))


def _display(
    folder: Folder, title: str, console: Console | None, form: Literal["live", "json"]
) -> AbstractContextManager[object]:
    if console is None:
        return nullcontext()
    from lqw.pipeline.display import Display  # noqa: PLC0415

    return Display(folder.progress, title, console, form)


def _incomplete(folder: Folder, status: Exit, notes: tuple[str, ...]) -> Finished:
    sentence = "INCOMPLETE, NOT A VERDICT: " + (notes[0] if notes else "the chain broke")
    return Finished(folder, status, Outcome.INCOMPLETE, sentence, "rows: not judged", (), notes)


def _judged(prepared: Prepared, chain: ChainResult) -> Finished:
    """Recompute the verdict; a claim of the notebook that differs from it is a broken chain."""
    from lqw.receipt import verify_receipt  # noqa: PLC0415

    folder = prepared.folder
    if chain.broken:
        return _incomplete(folder, chain.status, chain.broken)
    checked = verify_receipt(folder.receipt)
    if chain.claimed != checked.exit_status and not checked.uncounted:  # a notebook does not look into the store
        said = f"40_verdict said exit {chain.claimed}, the receipt gives {int(checked.exit_status)}"
        return _incomplete(folder, Exit.INTERNAL, (said, *map(str, checked.problems)))
    finished = _finished(prepared, checked)
    if prepared.info.replayed is not None or checked.outcome is Outcome.INVALID:
        return finished
    return _stored(prepared, finished, checked)


def _finished(prepared: Prepared, checked: Verification) -> Finished:
    judgement = checked.judgement
    return Finished(
        folder=prepared.folder,
        status=checked.exit_status,
        outcome=checked.outcome,
        sentence=judgement.sentence if judgement else "the receipt does not verify",
        counts=str(checked.counts),
        reasons=judgement.reasons if judgement else (),
        notes=(*map(str, checked.problems), *_notes(prepared, judgement)),
    )


def _ended_before(prepared: Prepared, stored: Path) -> Finished:
    """Say a stored verdict again, and do what its run's end left undone in the store."""
    from lqw.pipeline.storing import store_rest  # noqa: PLC0415
    from lqw.receipt import verify_receipt  # noqa: PLC0415

    checked = verify_receipt(stored)
    finished = _finished(prepared, checked)
    if checked.outcome is not Outcome.INVALID:
        notes = (
            f"this run had ended: {stored} is its receipt",
            *store_rest(stored, prepared.folder, prepared.info, checked),
        )
        finished = replace(finished, stored=stored, notes=(*finished.notes, *notes))
    report = prepared.folder.path / "report.html"
    return replace(finished, report=report if report.is_file() else None)


def _notes(prepared: Prepared, judgement: Judgement | None) -> tuple[str, ...]:
    from lqw.pipeline.afterwards import afterwards  # noqa: PLC0415

    return () if judgement is None else afterwards(prepared.folder, prepared.info, prepared.params, judgement)


def _stored(prepared: Prepared, finished: Finished, checked: Verification) -> Finished:
    from lqw.pipeline.storing import store_run  # noqa: PLC0415

    try:
        stored, notes = store_run(prepared.folder, prepared.info, checked)
    except (LqwError, OSError) as err:
        status = err.exit_status if isinstance(err, LqwError) else Exit.INTERNAL
        return replace(finished, status=status, notes=(*finished.notes, f"not stored: {err}"))
    return replace(finished, stored=stored, notes=(*finished.notes, *notes))


def _report(folder: Folder, broken: tuple[str, ...]) -> tuple[Path | None, tuple[str, ...]]:
    """Render the report; a report that cannot be written must not change the verdict."""
    from lqw.report import render  # noqa: PLC0415

    try:
        return render(folder.path, broken=broken), ()
    except Exception as err:  # noqa: BLE001 - nbconvert and its templates fail in ways of their own
        return None, (f"no report: {type(err).__name__}: {err}",)

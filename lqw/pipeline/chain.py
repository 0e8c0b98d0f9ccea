"""The chain: 10 → 20 → 30 → 40, each a papermill run, each proven, nothing left behind.

The process that runs it adopts orphans (subreaper) and has a total deadline. After every stage whatever still runs
with this run's marker is killed and *named*, and that fails the run: an engine that outlives its stage may have
disturbed what was measured after it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lqw.errors import ChainBroken, Exit, LqwError
from lqw.host.supervise import become_subreaper, kill_leftovers
from lqw.pipeline.artefacts import SCHEMAS
from lqw.pipeline.proof import EXPECTED_END, artefact_problems, end_of, notebook_problems
from lqw.pipeline.runs import RECEIPT, STAGES, find_notebooks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lqw.pipeline.runs import Folder

__all__ = ["ChainResult", "Job", "run_chain"]


_REPEAT_S = 20.0  # after the deadline: how long the orderly way out may take before it is asked again

_LOADED = {"10_collect": ("lqw.collect.session",), "40_verdict": ("lqw.receipt.build",)}
"""What a stage's cells import beyond the steps."""

KNOWN_ENDS: dict[str, Exit] = {
    "HostBusy": Exit.BUSY,
    "ParamsError": Exit.USAGE,
    "UsageError": Exit.USAGE,
    "IntegrityError": Exit.INVALID,
}
"""Errors a cell of 10–30 may end in that are not a broken chain; anything else is."""


class _Stopped(KeyboardInterrupt):
    """Raised in the main thread by a signal; a KeyboardInterrupt, because asyncio lets nothing else through."""

    def __init__(self, why: str, status: Exit) -> None:
        super().__init__(why)
        self.why, self.status = why, status


@dataclass(frozen=True, slots=True)
class Job:
    """What one chain runs.

    ``stages`` are consecutive; a replay leaves out the first. ``marker`` is carried by every process below it.
    """

    folder: Folder
    run_id: str
    marker: str
    deadline_s: float
    stages: tuple[str, ...] = STAGES
    notebooks: Path | None = None
    parameters: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChainResult:
    """How a chain ended.

    ``broken`` is empty when every stage is proven to have run; else it says why, for the report's banner, and
    ``status`` is the exit status of that end. ``claimed`` is what the last cell of 40_verdict raised: a claim, which
    the caller compares with its own recomputation.
    """

    broken: tuple[str, ...]
    status: Exit
    claimed: Exit | None = None


def run_chain(job: Job) -> ChainResult:
    """Run the stages of *job* in order and stop at the first that is not proven.

    Raises
    ------
    RuntimeError
        When called outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a chain runs in the main thread: its kernels die with the thread that started them")
    become_subreaper()
    stage = job.stages[0]
    try:
        with _signals(job.deadline_s):
            for stage in job.stages:
                _run_stage(job, stage)
    except _Stopped as err:
        return ChainResult((f"{stage}: {err.why}", *_clean(job)), err.status)
    except KeyboardInterrupt:
        return ChainResult((f"{stage}: interrupted (Ctrl-C)", *_clean(job)), Exit.INTERRUPTED)
    except LqwError as err:
        return ChainResult((*err.message.split("\n"), *_clean(job)), err.exit_status)
    except Exception as err:  # noqa: BLE001 - whatever papermill, nbclient or zmq raise breaks the chain, by name
        return ChainResult((f"{stage}: {type(err).__name__}: {err}"[:500], *_clean(job)), Exit.INTERNAL)
    end = end_of(job.folder.executed("40_verdict")) if "40_verdict" in job.stages else None
    return ChainResult((), Exit.PASS, EXPECTED_END[end[0]] if end else Exit.PASS)


def _clean(job: Job) -> tuple[str, ...]:
    """Kill what is left and name it."""
    found, still = kill_leftovers(job.marker)
    for left in found:
        with contextlib.suppress(OSError):  # an orphan this process adopted; another's child is reaped by its parent
            os.waitpid(left.pid, os.WNOHANG)
    named = [f"killed leftover process {left.pid}: {left.command}" for left in found if left not in still]
    return (*named, *(f"could not kill process {left.pid}: {left.command}" for left in still))


def _run_stage(job: Job, stage: str) -> None:
    from lqw.pipeline.kernels import started_kernel  # noqa: PLC0415 - not for --help

    source = (job.notebooks or find_notebooks()) / f"{stage}.ipynb"
    executed = job.folder.executed(stage)
    may_raise = tuple(EXPECTED_END) if stage == "40_verdict" else ()
    log = job.folder.logs / f"kernel-{stage}.log"
    modules = ("lqw.pipeline.steps", *_LOADED.get(stage, ()))
    with started_kernel(job.marker, log, modules) as kernel:
        from lqw.pipeline.executor import PapermillExecutionError, run_notebook  # noqa: PLC0415 - while the kernel starts

        try:
            run_notebook(source, executed, job.parameters, kernel=kernel, log=log)
        except PapermillExecutionError as err:
            _raise_known(stage, err, may_raise)
    left = _clean(job)
    if left:
        raise ChainBroken("\n".join((f"{stage}: left processes behind", *left)))
    problems = notebook_problems(source, executed, may_raise=may_raise)
    if stage in SCHEMAS:
        problems += artefact_problems(
            job.folder.artefact(stage), schema=SCHEMAS[stage], run_id=job.run_id, folder=job.folder.path
        )
    elif not job.folder.receipt.is_file():
        problems.append(f"{stage}: ended without {RECEIPT}")
    if problems:
        raise ChainBroken("\n".join(problems))


def _raise_known(stage: str, err: Any, may_raise: Sequence[str]) -> None:
    """Let an expected end pass on to the proof; raise everything else with the status it stands for."""
    if err.ename in may_raise:
        return
    broken = ChainBroken(f"{stage} cell {err.exec_count}: {err.ename}: {err.evalue}"[:2_000])
    broken.exit_status = KNOWN_ENDS.get(err.ename, Exit.INTERNAL)
    raise broken


@contextmanager
def _signals(deadline_s: float) -> Iterator[None]:
    """Turn SIGTERM, SIGHUP and the total deadline into an orderly end in the main thread."""

    def stop(number: int, _frame: object) -> None:
        if number == signal.SIGALRM:
            raise _Stopped(f"the total deadline of {deadline_s:g} s passed", Exit.INTERNAL)
        raise _Stopped(f"ended by {signal.Signals(number).name}", Exit.INTERRUPTED)

    caught = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.signal(number, stop) for number in caught}
    signal.setitimer(signal.ITIMER_REAL, deadline_s, _REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)

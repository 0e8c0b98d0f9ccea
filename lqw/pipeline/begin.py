"""Opening a run from a notebook's parameters: typed, checked against the run folder, bound to the gate's life."""

from __future__ import annotations

import html
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.params import load_params
from lqw.pipeline.progress import ProgressWriter
from lqw.pipeline.runs import STAGES, Folder, RunInfo, own_store, read_run, utc_now
from lqw.plan import Plan, build_plan

if TYPE_CHECKING:
    from lqw.params import Params

__all__ = ["Run", "begin", "bind_to_parent"]


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """What every step of a notebook works on: one stage of one run."""

    stage: str
    folder: Folder
    info: RunInfo
    params: Params
    plan: Plan

    @property
    def progress(self) -> ProgressWriter:
        """Return the writer of the live display's events."""
        return ProgressWriter(self.folder.progress)

    def facts(self) -> dict[str, str]:
        """Return what a reader must know to place this page."""
        looks = [self.plan.pairs_at(look) for look in range(self.plan.n_looks)]
        return {
            "run": self.info.run_id,
            "purpose": "adopt: measure a floor" if self.info.purpose is Purpose.ADOPT else "gate: judge a release",
            "release": self.params.release.release,
            "host": self.params.host.name,
            "margin class": f"{self.params.host.margin.letter} ({self.params.host.margin.fraction:.0%})",
            "rows planned": str(len(self.plan.rows)),
            "pairs per model": " → ".join(map(str, looks)),
            "seed": str(self.plan.seed),
            "params sha256": self.plan.params_sha256[:16],
        }

    def __repr__(self) -> str:
        """Return the facts as lines."""
        return "\n".join(f"{name:16} {value}" for name, value in self.facts().items())

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
            for name, value in self.facts().items()
        )
        return f'<table class="lqw"><caption>This run</caption><tbody>{rows}</tbody></table>'


def bind_to_parent() -> None:
    """Let a kernel that papermill started by hand die with papermill; elsewhere do nothing.

    Kernels of the chain were bound by :mod:`lqw.pipeline.kernel` before they imported anything; to be bound twice is
    harmless.
    """
    parent = os.environ.get("JPY_PARENT_PID", "")
    if "ipykernel" in sys.modules and parent.isdecimal() and int(parent) == os.getppid():
        from lqw.host.supervise import die_with_parent  # noqa: PLC0415 - not where no kernel is

        die_with_parent(int(parent))


def begin(
    stage: str,
    *,
    run_dir: object,
    params_file: object = None,
    purpose: object = None,
    host: object = None,
    store: object = None,
) -> Run:
    """Check a notebook's parameters and open its run.

    ``run_dir`` alone is enough where a run exists; the others are compared with what it was started with. Notebook 10
    can start a run of its own from ``params_file`` and ``run_dir``.

    Raises
    ------
    UsageError, ParamsError
        A parameter is missing, of another type, or contradicts the run.
    IntegrityError
        The run folder is not what this program writes.
    """
    bind_to_parent()
    given = {"params_file": params_file, "run_dir": run_dir, "purpose": purpose, "host": host, "store": store}
    texts = {name: _text(stage, name, value) for name, value in given.items()}
    if texts["run_dir"] is None:
        raise _wrong(stage, "run_dir", None, "no run folder", "pass -p run_dir runs/NAME")
    folder = Folder(Path(texts["run_dir"]))
    if stage == STAGES[0] and not (folder.path / "run.json").is_file():
        _start(stage, folder, texts)
    folder, info = read_run(folder.path)
    _agree(stage, info, texts)
    params = _params(stage, folder, info)
    run = Run(stage, folder, info, params, build_plan(params, info.purpose))
    run.progress({"event": "stage", "stage": stage})
    return run


def _text(stage: str, name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise _wrong(stage, name, value, "not a text", f"pass -p {name} TEXT, or leave it out")
    return value


def _wrong(stage: str, name: str, value: object, problem: str, remedy: str) -> ParamsError:
    return ParamsError(file=f"{stage}.ipynb", field=name, value=value, problem=problem, remedy=remedy)


def _start(stage: str, folder: Folder, texts: dict[str, str | None]) -> None:
    """Make the run folder of a notebook 10 that is run by hand."""
    if texts["params_file"] is None:
        raise _wrong(
            stage, "params_file", None, "no run there, and no release to start one", "pass -p params_file FILE"
        )
    purpose = texts["purpose"] or Purpose.GATE.value
    if purpose not in set(Purpose):
        raise _wrong(stage, "purpose", purpose, "unknown purpose", f"one of: {', '.join(Purpose)}")
    params = load_params(texts["params_file"], host=texts["host"])
    store = texts["store"] or str(own_store(params))
    folder.write_info(
        RunInfo(
            run_id=folder.path.resolve().name,
            purpose=Purpose(purpose),
            params_file=str(Path(params.path).resolve()),
            host=params.host.name,
            store=store,
            started_utc=utc_now(),
        )
    )


def _agree(stage: str, info: RunInfo, texts: dict[str, str | None]) -> None:
    for name in ("params_file", "purpose", "host", "store"):
        mine, its = texts[name], str(getattr(info, name))
        if mine is None:
            continue
        same = Path(mine).resolve() == Path(its).resolve() if name in ("params_file", "store") else mine == its
        if not same:
            raise _wrong(stage, name, mine, f"this run has {its!r}", "leave it out, or name another run_dir")


def _params(stage: str, folder: Folder, info: RunInfo) -> Params:
    """Return the params: from the file before anything is measured, from the journal afterwards."""
    if stage == STAGES[0] and info.replayed is None:
        return load_params(info.params_file, host=info.host)
    if not folder.journal.is_file():
        raise UsageError(f"{folder.journal}: not there; nothing was collected", remedy="run notebook 10 first")
    from lqw.journal import read_journal  # noqa: PLC0415
    from lqw.receipt import params_of  # noqa: PLC0415 - imports what notebook 10 does not need

    return params_of(read_journal(folder.journal).header)

"""The run folder: where a run keeps everything, and ``run.json``, which says what run it is.

``run.json`` is written before the first notebook starts and holds what the notebooks need to find each other by
``run_dir`` alone: ``papermill notebooks/40_verdict.ipynb out.ipynb -p run_dir runs/X`` works by hand.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

import lqw
from lqw.canonical import canonical_bytes, read_json, write_atomic
from lqw.errors import IntegrityError, ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.params.loading import params_root
from lqw.samples import Record

if TYPE_CHECKING:
    from lqw.params import Params

__all__ = [
    "ARTEFACTS",
    "JOURNAL",
    "PROGRESS",
    "RECEIPT",
    "STAGES",
    "Folder",
    "Replayed",
    "Resumed",
    "RunInfo",
    "find_notebooks",
    "new_run_id",
    "notebooks_folder",
    "own_store",
    "params_folder",
    "read_run",
    "repository_root",
    "utc_now",
]

STAGES = ("10_collect", "20_correctness", "30_noise_band", "40_verdict")
"""The notebooks of the chain, in order."""

ARTEFACTS = {
    "10_collect": "collect.json",
    "20_correctness": "correctness.json",
    "30_noise_band": "band.json",
    "40_verdict": "receipt.json",
}
"""The one artefact each stage leaves."""

JOURNAL = "samples.jsonl"
RECEIPT = ARTEFACTS["40_verdict"]
PROGRESS = "progress.jsonl"
RUN_FILE = "run.json"


def utc_now() -> str:
    """Return the time as ``2026-12-02T05:36:12Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id(release: str) -> str:
    """Return a name for a run: release, UTC time and four random digits, safe as a folder name."""
    safe = re.sub(r"[^0-9A-Za-z._-]", "_", release)
    return f"{safe}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(2)}"


class Resumed(Record):
    """One resumption: when, and how many records the journal held."""

    utc: str
    records: int = Field(ge=0)


class Replayed(Record):
    """Where the journal of a run came from that measured nothing itself."""

    file: str
    sha256: str


class RunInfo(Record):
    """``run.json``: what this run is. Paths are of this machine: the file stays in the run folder."""

    schema_: Literal["lqw-run/1"] = Field(default="lqw-run/1", alias="schema")
    run_id: str
    purpose: Purpose
    params_file: str
    host: str
    store: str
    started_utc: str
    resumed: tuple[Resumed, ...] = ()
    replayed: Replayed | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A run folder and the names in it."""

    path: Path

    @property
    def journal(self) -> Path:
        """Return the path of the journal."""
        return self.path / JOURNAL

    @property
    def receipt(self) -> Path:
        """Return the path of the receipt."""
        return self.path / RECEIPT

    @property
    def progress(self) -> Path:
        """Return the path of the events the live display follows."""
        return self.path / PROGRESS

    @property
    def logs(self) -> Path:
        """Return the folder of engine and kernel logs."""
        return self.path / "logs"

    def artefact(self, stage: str) -> Path:
        """Return the path of a stage's artefact."""
        return self.path / ARTEFACTS[stage]

    def executed(self, stage: str) -> Path:
        """Return the path of a stage's executed notebook."""
        return self.path / "notebooks" / f"{stage}.ipynb"

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``; UsageError when the folder cannot be written."""
        try:
            write_atomic(self.path / RUN_FILE, canonical_bytes(info.model_dump(mode="json", by_alias=True)))
        except OSError as err:
            raise UsageError(
                f"{self.path}: cannot write the run folder: {err.strerror or err}",
                remedy="name a folder that you may write to with --run DIR",
            ) from err

    def clear_results(self) -> None:
        """Remove artefacts, executed notebooks and reports of an earlier attempt; the journal stays."""
        stale = [self.artefact(stage) for stage in STAGES] + [self.executed(stage) for stage in STAGES]
        stale += [self.path / name for name in ("report.html", "summary.md", "junit.xml", PROGRESS)]
        for path in stale:
            path.unlink(missing_ok=True)


def read_run(folder: Path | str) -> tuple[Folder, RunInfo]:
    """Open a run folder by its ``run.json``.

    Raises
    ------
    UsageError
        No such folder, or it is no run folder.
    IntegrityError
        ``run.json`` is not what this program writes.
    """
    place = Folder(Path(folder))
    file = place.path / RUN_FILE
    if not file.is_file():
        raise UsageError(f"{place.path}: no run folder ({RUN_FILE} is not there)", remedy="name a folder below runs/")
    try:
        return place, RunInfo.model_validate_json(canonical_bytes(read_json(file)))
    except ValidationError as err:
        raise IntegrityError(f"{file}: {err.errors()[0]['loc']}: {err.errors()[0]['msg']}") from err


def repository_root(params_file: Path | str) -> Path:
    """Return the folder that holds ``params/``: relative stores and reports start there."""
    path = Path(params_file).resolve()
    for folder in path.parents:
        if (folder / "hosts").is_dir() and (folder / "protocols").is_dir():
            return folder.parent
    return Path.cwd()


def own_store(params: Params) -> Path:
    """Return the folder of receipts that a host's parameters name, below the repository's root.

    Raises
    ------
    ParamsError
        It, or the host's folder in it, is a link that leads out of the repository.
    """
    from lqw.receipt.paths import refuse_escape  # noqa: PLC0415 - imports the verifier

    root, host = repository_root(params.path), params.host
    store = root / host.receipts
    try:
        refuse_escape(store / host.name, root)
    except IntegrityError as err:
        raise ParamsError(
            file=str(params_root(Path(params.path)) / "hosts" / f"{host.name}.yaml"),
            field="receipts",
            value=host.receipts,
            problem=err.message,
            remedy="name a folder that lies inside the repository, or another store with --store DIR",
        ) from err
    return store


def params_folder(needs: str) -> Path:
    """Return the ``params/`` that holds *needs*: of the checkout lqw lives in, or of the working directory."""
    for root in (Path(lqw.__file__).parents[1], Path.cwd()):
        if (root / "params" / needs).exists():
            return root / "params"
    raise UsageError(f"params/{needs} is not there", remedy="run it in a checkout of lqw's repository")


def notebooks_folder() -> Path:
    """Return the folder of the notebooks: beside the package in a checkout, inside it when installed."""
    package = Path(lqw.__file__).parent
    inside = package / "_notebooks"
    return inside if inside.is_dir() else package.parent / "notebooks"


def find_notebooks() -> Path:
    """Return the folder of the four notebooks; UsageError when one is missing."""
    folder = notebooks_folder()
    missing = [stage for stage in STAGES if not (folder / f"{stage}.ipynb").is_file()]
    if missing:
        raise UsageError(
            f"{folder}: {', '.join(missing)} not there",
            remedy="python -m lqw.pipeline.notebooks sync, or reinstall lqw from its repository",
        )
    return folder

"""The RED case of this gate's mission on real engines: floor, the same apr again, and apr prefilling token by token.

Everything goes the way of an ordinary release: parameter files, ``prepare``, ``run``, a receipt each. Only their place
is a folder of its own, so that no floor of the repository is touched.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from lqw.engines.binaries import file_sha256
from lqw.errors import Exit, UsageError
from lqw.outcomes import Outcome, Purpose
from lqw.pipeline.gate import Order, prepare, run
from lqw.pipeline.runs import params_folder
from lqw.receipt import verify_receipt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lqw.params import EngineSpec
    from lqw.pipeline.gate import Finished
    from lqw.pipeline.live_parts import Parts

__all__ = ["STAGES", "LiveStep", "live_step", "write_live"]

STAGES = ("floor", "unslowed", "slowed")
"""The three releases, in their order; each is judged against the floor of the first."""

_MARGIN = {
    "letter": "D",
    "fraction": 0.50,
    "reason": "Three short pairs to tell a prefill of one token a step: a factor of ten and more. No release's margin.",
}


@dataclass(frozen=True, slots=True)
class LiveStep:
    """How one of the three ended; ``problems`` says in which ways that is not what it must be."""

    stage: str
    finished: Finished
    red_rows: dict[str, str]
    problems: tuple[str, ...]


def write_live(parts: Parts, place: Path, *, protocol: Path | None = None) -> None:
    """Write ``place/params``: the host with a margin of its own, the protocol, three releases."""
    source, params = params_folder("protocols/live.yaml"), place / "params"
    for folder in ("hosts", "protocols", "live"):
        (params / folder).mkdir(parents=True)
    shutil.copytree(source / "prompts", params / "prompts")
    shutil.copyfile(source / "targets.yaml", params / "targets.yaml")
    shutil.copyfile(protocol or source / "protocols" / "live.yaml", params / "protocols" / "live.yaml")
    host = parts.host.model_dump(mode="json", by_alias=True, exclude_none=True)
    _dump(params / "hosts" / f"{parts.host.name}.yaml", host | {"margin": _MARGIN, "engines": {}})
    model = {
        "name": parts.model.stem.lower(),
        "gguf": os.path.relpath(parts.model.absolute(), (params / "live").absolute()),
        "sha256": file_sha256(parts.model),
    }
    subjects: dict[str, EngineSpec] = dict.fromkeys(STAGES, parts.healthy) | {"slowed": parts.slowed}
    for number, (stage, subject) in enumerate(subjects.items()):
        release = {
            "schema": "lqw-release/1",
            "release": stage,
            "hosts": [parts.host.name],
            "protocol": "live",
            "seed": number,
            "subject": subject.model_dump(exclude_none=True),
            "comparator": parts.comparator.model_dump(exclude_none=True),
            "models": [model],
        }
        _dump(params / "live" / f"{stage}.yaml", release)


def _dump(path: Path, value: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


def live_step(parts: Parts, place: Path, stage: str, console: Any = None) -> LiveStep:
    """Measure and judge one of the three; :func:`write_live` has been called for *place*.

    Raises
    ------
    ParamsError, UsageError, HostBusy
        As a gate: nothing was decided.
    """
    if stage not in STAGES:
        raise UsageError(f"{stage!r} is no stage of the live proof", remedy=f"one of: {', '.join(STAGES)}")
    purpose = Purpose.ADOPT if stage == "floor" else Purpose.GATE
    file = place / "params" / "live" / f"{stage}.yaml"
    order = Order(file, purpose, store=place / "store", run=place / "runs" / stage)
    finished = run(prepare(order), console=console)
    judged = verify_receipt(finished.folder.receipt).judgement if finished.folder.receipt.is_file() else None
    rows = judged.rows if judged is not None else ()
    red = {str(row.row): row.text for row in rows if row.verdict == "RED"}
    measured = {str(row.row) for row in rows if row.verdict in ("PASS", "IMPROVED", "RED", "INCONCLUSIVE", "SUSPECT")}
    return LiveStep(stage, finished, red, tuple(_problems(parts, stage, finished, red, measured)))


def _problems(parts: Parts, stage: str, finished: Finished, red: dict[str, str], measured: set[str]) -> Iterator[str]:
    if stage == "floor":
        if finished.outcome is not Outcome.FLOOR:
            yield f"no floor was adopted: {finished.sentence}"
    elif stage == "unslowed":
        if red or finished.status is Exit.RED:
            yield f"the unslowed apr went RED: {', '.join(red) or finished.sentence}"
        elif not any("/ttft@" in row for row in measured) or not any("/prefill@" in row for row in measured):
            yield f"no TTFT and prefill row of the unslowed apr was judged: {finished.sentence}"
    else:
        if finished.status is not Exit.RED:
            yield f"the slowed apr did not go RED: {finished.sentence}"
        for metric in ("ttft", "prefill"):
            if not any(f"/{metric}@" in row for row in red):
                yield f"no {metric} row of the slowed apr is RED"
        yield from _not_engaged(parts, finished.folder.logs)


def _not_engaged(parts: Parts, logs: Path) -> Iterator[str]:
    """Yield the starts of the slowed subject whose log does not show that it was slowed: then nothing was compared."""
    for path in sorted(logs.glob("*_subject_*.log")) if parts.shows_slow else ():
        if parts.shows_slow not in path.read_text(errors="replace"):
            yield f"{path.name} does not say {parts.shows_slow!r}: the variable had no effect"

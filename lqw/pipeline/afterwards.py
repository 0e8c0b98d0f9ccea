"""What a person must know of a finished run beyond its verdict: time that was saved, and what a confirmation lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lqw.canonical import read_json
from lqw.journal import read_journal
from lqw.outcomes import Purpose
from lqw.params.earlier import earlier_file, load_earlier
from lqw.pipeline.display import clock
from lqw.plan import build_plan
from lqw.verdict.saving import saving_of

if TYPE_CHECKING:
    from lqw.params import Params
    from lqw.pipeline.runs import Folder, RunInfo
    from lqw.verdict import Judgement

__all__ = ["afterwards"]


def afterwards(folder: Folder, info: RunInfo, params: Params, judgement: Judgement) -> tuple[str, ...]:
    """Return the lines, in the order they are read."""
    out = []
    saving = saving_of(judgement, read_journal(folder.journal).starts, build_plan(params, info.purpose))
    if saving.pairs:
        spent = ", ".join(f"{model} {pairs}" for model, pairs in judgement.pairs.items())
        text = f"stopped when decided: {spent} of at most {saving.most} pairs; {saving.pairs} pairs not measured"
        out.append(f"{text}, about {clock(saving.seconds)} min saved")
    if info.purpose is Purpose.GATE and info.replayed is None and judgement.confirming:
        out += _lacking(folder, params, info, judgement)
    return tuple(out)


def _lacking(folder: Folder, params: Params, info: RunInfo, judgement: Judgement) -> list[str]:
    """Say which old builds a confirmation lacks, or that it was refused."""
    refused = read_json(folder.path / "collect.json")["collect"].get("batch_refused")
    if refused:
        return [f"no third arm: {refused}"]
    file = Path(info.params_file)
    wanted = {release for releases in judgement.confirming.values() for release in releases}
    missing = sorted(wanted - load_earlier(file, params.host).keys())
    if not missing:
        return []
    place = earlier_file(file, info.host)
    text = f"to confirm: name the engine of {', '.join(missing)} (binary and sha256) in params/earlier/{place.name}"
    return [f"{text}, then --resume {folder.path}"]

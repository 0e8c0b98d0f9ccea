"""Stage 30: floors, scatter and bands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lqw.pipeline.artefacts import read_artefact, write_artefact
from lqw.pipeline.runs import JOURNAL
from lqw.pipeline.shown import Table
from lqw.pipeline.steps.shared import rejudged

if TYPE_CHECKING:
    from lqw.journal import Journal
    from lqw.noise import Reference
    from lqw.pipeline.begin import Run
    from lqw.verdict import Judgement, Standing

__all__ = ["noise_bands", "show_bands", "show_standing", "show_strips", "write_bands"]


def show_standing(run: Run, standing: Standing) -> Table:
    """Return floor and last value of every row, or why there is none."""
    if standing.differences:
        why = tuple((difference,) for difference in standing.differences)
        return Table("No floor in this epoch", ("because",), why)
    rows = tuple(
        (str(row), *_point(references.floor), *_point(references.last))
        for row in run.plan.rows
        if (references := standing.references.get(row)) is not None
    )
    return Table("Floors of this epoch", ("row", "floor", "set by", "last", "release"), rows, empty="none")


def _point(reference: Reference | None) -> tuple[str, str]:
    return ("–", "–") if reference is None else (f"{math.exp(reference.value):.3f}", reference.release)


def noise_bands(run: Run, samples: Journal, standing: Standing) -> Judgement:
    """Return the judge's view of pairs and noise; its verdicts are notebook 40's matter."""
    read_artefact(run.folder, "20_correctness", run.info.run_id)
    return rejudged(run, samples, standing).judgement


def show_bands(run: Run, bands: Judgement) -> Table:
    """Return the noise of every row: pairs, scatter of one pair, degrees of freedom, and the band round its floor."""
    rows = []
    for result in bands.rows:
        band = result.band
        if band is None:
            rows.append((str(result.row), str(result.n), "–", "–", "–", "–", str(result.state)))
            continue
        width = "no floor" if band.band_fraction is None else f"−{band.band_fraction:.1%}"
        floor = "–" if result.floor_ratio is None else f"{result.floor_ratio:.3f}"
        rows.append((str(result.row), str(band.n), f"{band.sd:.1%}", f"{band.nu:.1f}", floor, width, str(result.state)))
    header = ("row", "pairs", "SD of a pair", "ν", "floor ratio", "band", "state")
    return Table(f"Noise at look {bands.look + 1} of {run.plan.n_looks}", header, tuple(rows))


def show_strips(run: Run, bands: Judgement) -> Any:
    """Return the paired values of every row in run order."""
    from lqw.report.fragments import strips  # noqa: PLC0415
    from lqw.verdict import judgement_to_json  # noqa: PLC0415

    del run
    return strips(judgement_to_json(bands))


def write_bands(run: Run, bands: Judgement, standing: Standing) -> str:
    """Write band.json; return its sha256."""
    from lqw.noise import json_form  # noqa: PLC0415
    from lqw.verdict import standing_to_json  # noqa: PLC0415

    body = {
        "bands": {str(row.row): None if row.band is None else json_form(row.band) for row in bands.rows},
        "pairs": bands.pairs,
        "look": bands.look,
        "standing": standing_to_json(standing),
    }
    return write_artefact(run.folder, "30_noise_band", run.info.run_id, body, inputs=[JOURNAL, "correctness.json"])

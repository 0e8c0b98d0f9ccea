"""Artefacts between the stages: written atomically, bound to the run and to the bytes they were made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, read_json, sha256_file, write_atomic
from lqw.errors import IntegrityError
from lqw.pipeline.proof import artefact_problems
from lqw.pipeline.runs import ARTEFACTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.pipeline.runs import Folder

__all__ = ["SCHEMAS", "read_artefact", "write_artefact"]

SCHEMAS = {"10_collect": "lqw-collect/1", "20_correctness": "lqw-correctness/1", "30_noise_band": "lqw-band/1"}
"""Schema of each artefact but the receipt, which has its own package."""


def write_artefact(folder: Folder, stage: str, run_id: str, body: dict[str, Any], *, inputs: Sequence[str]) -> str:
    """Write the artefact of *stage*; return its sha256.

    Parameters
    ----------
    body : dict
        What the stage found; ``schema``, ``run_id`` and ``inputs`` are added.
    inputs : sequence of str
        Names in the run folder whose sha256 the artefact carries.
    """
    document = {
        "schema": SCHEMAS[stage],
        "run_id": run_id,
        "inputs": {name: sha256_file(folder.path / name) for name in inputs},
        **body,
    }
    return write_atomic(folder.artefact(stage), canonical_bytes(document))


def read_artefact(folder: Folder, stage: str, run_id: str) -> dict[str, Any]:
    """Read the artefact of *stage*; IntegrityError when it is missing, of another run, or older than its inputs."""
    path = folder.artefact(stage)
    problems = artefact_problems(path, schema=SCHEMAS[stage], run_id=run_id, folder=folder.path)
    if problems:
        raise IntegrityError(
            "\n".join(problems), remedy=f"run the chain from {_first_after(stage)} again, or `lqw gate --resume`"
        )
    body: dict[str, Any] = read_json(path)
    return body


def _first_after(stage: str) -> str:
    return f"notebook {stage} ({ARTEFACTS[stage]})"

"""What several stages read: the store's floors and tokens, and the one path from samples to verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.pipeline.artefacts import read_artefact

if TYPE_CHECKING:
    from lqw.correctness import IdentityReference
    from lqw.journal import Journal
    from lqw.pipeline.begin import Run
    from lqw.ratchet import Baseline
    from lqw.receipt import Rejudged
    from lqw.verdict import Standing

__all__ = ["held_baseline", "load_parity", "load_reference", "load_standing", "rejudged"]


def load_reference(run: Run) -> IdentityReference | None:
    """Return the token reference of this host, or None where none was ever adopted."""
    from lqw.correctness import parse_reference  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    path = Store(run.info.store).reference(run.info.host)
    return parse_reference(path.read_bytes(), name=str(path)) if path.is_file() else None


def held_baseline(run: Run) -> Baseline | None:
    """Return the floors of this host, or None where none was ever adopted."""
    from lqw.ratchet import parse_baseline  # noqa: PLC0415
    from lqw.receipt.store import Store  # noqa: PLC0415

    path = Store(run.info.store).baseline(run.info.host)
    return parse_baseline(path.read_bytes(), name=str(path)) if path.is_file() else None


def rejudged(run: Run, samples: Journal, standing: Standing) -> Rejudged:
    """Return what follows from the raw samples: the one path of notebooks, receipt and verifier."""
    from lqw.receipt import Inputs, rejudge  # noqa: PLC0415

    collected = read_artefact(run.folder, "10_collect", run.info.run_id)
    return rejudge(
        Inputs(
            header=samples.header,
            starts=samples.starts,
            identities=samples.identities,
            besides=samples.besides,
            standing=standing,
            reference=load_reference(run),
            calibration=collected.get("calibration"),
            parity=load_parity(run),
            batch=samples.batch,
        )
    )


def load_parity(run: Run) -> dict[str, Any] | None:
    """Return the parity receipts of the blessed model as they lie in the repository; None where none is blessed."""
    from lqw.parity.files import reader_below  # noqa: PLC0415
    from lqw.pipeline.runs import repository_root  # noqa: PLC0415
    from lqw.receipt.parity import read_documents  # noqa: PLC0415

    root = repository_root(run.info.params_file)
    return read_documents(run.params, reader_below(root))


def load_standing(run: Run, samples: Journal) -> Standing:
    """Return floors, last values and histories of this run's epoch, by the verifier's own rule."""
    from lqw.receipt import standing_for  # noqa: PLC0415

    return standing_for(held_baseline(run), samples.header, samples.starts)

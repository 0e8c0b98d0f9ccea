"""Building a receipt: embed everything, recompute everything, verify the bytes, and only then write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, read_json, sha256_bytes, sha256_file, write_atomic
from lqw.correctness import parse_reference, reference_to_json
from lqw.errors import IntegrityError
from lqw.journal import read_journal
from lqw.ratchet.baseline import parse_baseline
from lqw.receipt.beside import NOTEBOOK_FOLDER
from lqw.receipt.inputs import Inputs, rejudge, standing_for
from lqw.receipt.schema import SCHEMA
from lqw.receipt.subject import subject_of
from lqw.receipt.verify import derived_of, verify_receipt
from lqw.verdict import standing_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.correctness import IdentityReference
    from lqw.ratchet.baseline import Baseline
    from lqw.receipt.schema import EarlierAttempt

__all__ = ["build_receipt", "compose_receipt", "seal"]

JOURNAL = "samples.jsonl"
ARTEFACTS = (JOURNAL, "collect.json", "correctness.json", "band.json", "prompts.json")
NOTEBOOKS = ("10_collect.ipynb", "20_correctness.ipynb", "30_noise_band.ipynb")
RECEIPT = "receipt.json"


def compose_receipt(
    inputs: Inputs,
    *,
    finished_utc: str,
    baseline_sha256: str | None = None,
    reference_sha256: str | None = None,
    artefacts: dict[str, str] | None = None,
    resumed: Sequence[str] = (),
    attempt: int = 1,
    earlier: Sequence[EarlierAttempt] = (),
    replayed: bool = False,
) -> bytes:
    """Return the bytes of a receipt, from values alone.

    Raises
    ------
    IntegrityError
        The header holds no params, or the result contradicts itself in a way a run cannot: a fault of this code.
    """
    again = rejudge(inputs)
    standing = standing_to_json(inputs.standing)
    records = {
        kind: [record.model_dump(mode="json") for record in sorted(found, key=lambda one: one.position)]
        for kind, found in (("starts", inputs.starts), ("identities", inputs.identities), ("beside", inputs.besides))
        if found or kind != "beside"
    }
    data = seal(
        {
            "schema": SCHEMA,
            "run": {
                "finished_utc": finished_utc,
                "resumed": list(resumed),
                "attempt": attempt,
                "earlier": [one.model_dump(mode="json") for one in earlier],
                "replayed": replayed,
                "subject_sha256": subject_of(again.params, inputs.header.models, inputs.starts),
            },
            "header": inputs.header.model_dump(mode="json", by_alias=True),
            **records,
            **({} if inputs.batch is None else {"batch": inputs.batch.model_dump(mode="json")}),
            "calibration": None if inputs.calibration is None else dict(inputs.calibration),
            "standing": standing,
            "reference": None if inputs.reference is None else reference_to_json(inputs.reference),
            **({} if inputs.parity is None else {"parity": dict(inputs.parity)}),
            "sources": {"baseline": baseline_sha256, "reference": reference_sha256},
            "artefacts": artefacts or {},
            **derived_of(again),
        }
    )
    _believe(data)
    return data


def seal(body: dict[str, Any]) -> bytes:
    """Return a receipt's canonical bytes, its digest made anew."""
    rest = {key: value for key, value in body.items() if key != "digest"}
    return canonical_bytes({**rest, "digest": sha256_bytes(canonical_bytes(rest))})


def _believe(data: bytes) -> None:
    """Refuse to hand out a receipt that its own verifier refuses, unless the run itself is what is wrong."""
    own = [problem for problem in verify_receipt(data).problems if problem.check != "structure"]
    if own:
        raise IntegrityError(f"the receipt does not verify: {own[0]}", remedy="report this: nothing was written")


def build_receipt(
    run_dir: Path | str,
    *,
    baseline: Path | None,
    reference: Path | None,
    finished_utc: str,
    resumed: Sequence[str] = (),
    attempt: int = 1,
    earlier: Sequence[EarlierAttempt] = (),
    replayed: bool = False,
    parity: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``receipt.json`` of a run; return its path.

    Parameters
    ----------
    run_dir : path
        Holds ``samples.jsonl`` and what the stages left.
    baseline, reference : path or None
        The host's files; None where there is none yet.
    finished_utc : str
        ``2026-12-02T05:36:12Z``.
    resumed : sequence of str
        When the run was resumed.
    attempt, earlier
        From :meth:`lqw.receipt.store.Store.next_attempt`.
    replayed : bool
        The journal was measured by another run.
    parity : mapping or None
        From :func:`lqw.receipt.parity.read_documents`.

    Raises
    ------
    IntegrityError
        A file is malformed, or the receipt would not verify. Nothing has been written then.
    """
    folder = Path(run_dir)
    journal = read_journal(folder / JOURNAL)
    held, baseline_sha256 = _baseline(baseline)
    tokens, reference_sha256 = _reference(reference)
    collected = read_json(folder / "collect.json") if (folder / "collect.json").is_file() else {}
    data = compose_receipt(
        Inputs(
            header=journal.header,
            starts=journal.starts,
            identities=journal.identities,
            standing=standing_for(held, journal.header, journal.starts),
            reference=tokens,
            calibration=collected.get("calibration") if isinstance(collected, dict) else None,
            parity=parity,
            besides=journal.besides,
            batch=journal.batch,
        ),
        finished_utc=finished_utc,
        baseline_sha256=baseline_sha256,
        reference_sha256=reference_sha256,
        artefacts=_hashes(folder),
        resumed=resumed,
        attempt=attempt,
        earlier=earlier,
        replayed=replayed,
    )
    path = folder / RECEIPT
    write_atomic(path, data)
    return path


def _baseline(path: Path | None) -> tuple[Baseline | None, str | None]:
    data = None if path is None else path.read_bytes()
    return (None, None) if data is None else (parse_baseline(data, name=str(path)), sha256_bytes(data))


def _reference(path: Path | None) -> tuple[IdentityReference | None, str | None]:
    data = None if path is None else path.read_bytes()
    return (None, None) if data is None else (parse_reference(data, name=str(path)), sha256_bytes(data))


def _hashes(folder: Path) -> dict[str, str]:
    files = [folder / name for name in ARTEFACTS] + [folder / NOTEBOOK_FOLDER / name for name in NOTEBOOKS]
    return {path.name: sha256_file(path) for path in files if path.is_file()}

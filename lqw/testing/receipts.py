"""Receipts and stores made of numbers: a floor adopted, releases gated against it, all through the real code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, sha256_bytes, write_atomic
from lqw.correctness import IdentityTask, parse_reference, reference_from, reference_to_json
from lqw.outcomes import Outcome, Purpose
from lqw.ratchet import adopt, advance, baseline_to_json, parse_baseline
from lqw.receipt import Inputs, compose_receipt, epoch_of, params_of, standing_for, verify_receipt
from lqw.receipt.store import Next, Store
from lqw.testing.synthetic import synthetic_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lqw.params import Params
    from lqw.testing.synthetic import SyntheticRun

__all__ = ["adopt_floor", "gate_receipt", "receipt_of", "stored"]

FINISHED = "2026-01-01T00:10:00Z"


def receipt_of(
    run: SyntheticRun,
    store: Store,
    *,
    attempt: Next | None = None,
    parity: Mapping[str, Any] | None = None,
    **facts: Any,
) -> bytes:
    """Return the receipt of a run, judged against what *store* holds and the parity receipts given."""
    host = run.header.host.name
    baseline, reference = store.baseline(host), store.reference(host)
    data = {path: path.read_bytes() for path in (baseline, reference) if path.is_file()}
    which = attempt or Next(1, ())
    return compose_receipt(
        Inputs(
            header=run.header,
            starts=run.starts,
            identities=run.identities,
            standing=standing_for(parse_baseline(data[baseline]) if baseline in data else None, run.header, run.starts),
            reference=parse_reference(data[reference]) if reference in data else None,
            calibration=run.calibration,
            parity=parity,
            batch=run.batch,
        ),
        finished_utc=FINISHED,
        baseline_sha256=sha256_bytes(data[baseline]) if baseline in data else None,
        reference_sha256=sha256_bytes(data[reference]) if reference in data else None,
        attempt=which.number,
        earlier=which.earlier,
        **facts,
    )


def adopt_floor(root: Path, params: Params, **options: Any) -> Store:
    """Measure the floor of *params* with :func:`synthetic_run` and adopt it, with its tokens; return the store."""
    store = Store(root)
    run = synthetic_run(params, Purpose.ADOPT, **options)
    stored(store, receipt_of(run, store), run)
    tokens = reference_from(run.identities, run.starts, task=IdentityTask.from_header(run.header))
    write_atomic(store.reference(params.host.name), canonical_bytes(reference_to_json(tokens)))
    return store


def gate_receipt(store: Store, params: Params, **options: Any) -> bytes:
    """Return the receipt of a gate run of *params*, made by :func:`synthetic_run` and judged against *store*."""
    which = store.next_attempt(params.host.name, params.release.release)
    return receipt_of(synthetic_run(params, Purpose.GATE, **options), store, attempt=which)


def stored(store: Store, receipt: bytes, run: SyntheticRun) -> Path:
    """Put a receipt into the store, and move the baseline if the run earned it; return the receipt's place."""
    draft = store.root / "draft.json"
    write_atomic(draft, receipt)
    place = store.put(draft)
    draft.unlink()
    verified, header = verify_receipt(place), run.header
    key = epoch_of(header, params_of(header), run.starts)
    baseline = store.baseline(header.host.name)
    before = parse_baseline(baseline.read_bytes()) if baseline.is_file() else None
    if key is not None and verified.judgement is not None and verified.outcome in (Outcome.PASS, Outcome.FLOOR):
        sha256, judgement = verified.receipt_sha256, verified.judgement
        if verified.outcome is Outcome.FLOOR:
            moved = adopt(before, judgement, key, host=header.host.name, receipt_sha256=sha256)
        elif before is not None:
            moved = advance(before, judgement, key, receipt_sha256=sha256)
        write_atomic(baseline, canonical_bytes(baseline_to_json(moved.baseline)))
    return place

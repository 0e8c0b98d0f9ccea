"""``lqw reference adopt | show | rebase``: the token reference of a host (``<store>/<host>/reference.json``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lqw.correctness import IdentityReference

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The tokens that later releases are held to, per host.")

Store = Annotated[Path, typer.Option("--store", help="The folder of receipts, one folder per host in it.")]


def _held(path: Path) -> IdentityReference | None:
    from lqw.correctness import parse_reference

    return parse_reference(path.read_bytes(), name=str(path)) if path.is_file() else None


def _refuse_red(run_dir: Path) -> None:
    """Refuse the answers of a run whose own receipt is RED, or does not verify: no release will come of it."""
    from lqw.errors import UsageError
    from lqw.receipt import verify_receipt

    receipt = run_dir / "receipt.json"
    if receipt.is_file() and (outcome := verify_receipt(receipt).outcome) in ("RED", "INVALID"):
        raise UsageError(
            f"{receipt}: {outcome}: its answers are not what later releases are held to",
            remedy="adopt from the run of the floor, or of a release that passed",
        )


@app.command()
def adopt(run_dir: Path, *, store: Store = Path("receipts")) -> None:
    """Adopt the answers of a run: new models join, changed answers are refused (exit 1)."""
    from lqw.canonical import canonical_bytes, write_atomic
    from lqw.correctness import IdentityTask, adopt_reference, model_sha256, reference_from, reference_to_json
    from lqw.errors import Exit, UsageError
    from lqw.journal import read_journal

    _refuse_red(run_dir)
    journal = read_journal(run_dir / "samples.jsonl")
    task = IdentityTask.from_header(journal.header)
    new = reference_from(journal.identities, journal.starts, task=task)
    if not new.models:
        raise UsageError(
            f"{run_dir}: no model's answers, timed and untimed, are whole, equal to themselves and free of garbage: "
            "nothing to adopt",
            remedy="see its correctness.json, mend the engine and measure again",
        )
    path = store / task.host / "reference.json"
    adoption = adopt_reference(_held(path), new)
    if adoption.added:
        write_atomic(path, canonical_bytes(reference_to_json(adoption.reference)))
    for name in (*adoption.added, *adoption.kept):
        word = "adopted" if name in adoption.added else "unchanged"
        print(f"{word}: {name}, answers of release {adoption.reference.models[name].release}")
    for name, difference in adoption.refused.items():
        held, now = model_sha256(adoption.reference.models[name]), model_sha256(new.models[name])
        print(f"REFUSED: {name}: {difference}\n  held_sha256 {held}\n  new_sha256  {now}")
        print("  remedy: a change of numerics needs a record with both (lqw reference rebase)")
    raise typer.Exit(int(Exit.RED if adoption.refused else Exit.PASS))


@app.command()
def show(host: str, *, store: Store = Path("receipts")) -> None:
    """Print what a host's answers are compared with."""
    from lqw.errors import UsageError

    path = store / host / "reference.json"
    reference = _held(path)
    if reference is None:
        raise UsageError(f"{path}: no such file", remedy="adopt one with the floor: lqw baseline adopt PARAMS")
    print(f"{reference.host}: {reference.output_tokens} tokens an answer")
    for name, model in reference.models.items():
        print(f"  {name} ({model.model_sha256[:12]}), release {model.release}, {model.engine}")
        for shape, prompts in model.shapes.items():
            for prompt, answer in prompts.items():
                print(f"    {shape:8} {prompt:10} by {answer.compared:4} {answer.text[:60]!r}")


@app.command()
def rebase(run_dir: Path, record: Path, *, store: Store = Path("receipts")) -> None:
    """Replace one model's answers by a run's, on a signed record; the record is kept in <store>/<host>/records/."""
    from lqw.canonical import canonical_bytes, sha256_file, write_atomic
    from lqw.correctness import (
        IdentityTask,
        ReferenceRebase,
        rebase_reference,
        reference_from,
        reference_to_json,
    )
    from lqw.errors import UsageError
    from lqw.journal import read_journal
    from lqw.records import parse_record

    receipt = run_dir / "receipt.json"
    for path in (record, receipt):
        if not path.is_file():
            raise UsageError(f"{path}: no such file", remedy="name a finished run and the record's file")
    _refuse_red(run_dir)
    journal = read_journal(run_dir / "samples.jsonl")
    task = IdentityTask.from_header(journal.header)
    data = record.read_bytes()
    signed = parse_record(ReferenceRebase, data, name=str(record))
    path = store / task.host / "reference.json"
    kept = path.parent / "records" / f"reference-{signed.model}-{task.release}.json"
    if kept.exists() and kept.read_bytes() != data:
        raise UsageError(f"{kept}: another record of this release stands there", remedy="records are never overwritten")
    rebased = rebase_reference(
        _held(path),
        reference_from(journal.identities, journal.starts, task=task),
        signed,
        evidence_sha256=sha256_file(receipt),
        name=str(record),
    )
    write_atomic(kept, data)
    write_atomic(path, canonical_bytes(reference_to_json(rebased)))
    print(f"rebased: {signed.model}, answers of release {task.release}; record kept as {kept.name}")

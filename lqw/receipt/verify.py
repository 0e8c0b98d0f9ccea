"""``lqw verify``: believe nothing that can be computed again.

In order: strict parsing → the file is its own canonical form → digest → lifted from an older schema, where it is of
one → typed fields → plan rebuilt from params and
seed → structure → correctness and verdict recomputed by the functions the run itself used → every recorded value of the
derived part compared → files and attempts that lie beside the receipt. Whatever differs makes it INVALID, exit 4.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

import lqw
from lqw.canonical import MAX_BYTES, canonical_bytes, sha256_bytes
from lqw.correctness import correctness_to_json, parse_reference
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Outcome
from lqw.receipt.beside import beside_notes, beside_problems, held_beside
from lqw.receipt.compare import differences
from lqw.receipt.form import bytes_problems, object_of
from lqw.receipt.inputs import Inputs, Rejudged, previous_of, rejudge
from lqw.receipt.problems import Problem
from lqw.receipt.schema import SCHEMA, Receipt
from lqw.receipt.source import source_sha256
from lqw.receipt.subject import subject_of
from lqw.receipt.thirdarm import build_problems, without_batch
from lqw.receipt.versions import lifted
from lqw.verdict import Counts, Judgement, judgement_to_json, standing_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.receipt.thirdarm import Find

__all__ = ["EMBEDDED", "UNSIGNED", "Verification", "derived_of", "verify_receipt"]

UNSIGNED = "who made it: as far as was looked, it is not signed, and who can write the file can write its digest"
EMBEDDED = "floors and token reference: taken as embedded; whether the store held them, lqw verify --tag says"
ALWAYS_UNCHECKED = (
    UNSIGNED,
    "facts that no number follows from (wall clocks, ready times, command lines, kernel): bound by the digest alone",
    EMBEDDED,
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a receipt is worth.

    Attributes
    ----------
    outcome, exit_status
        INVALID and 4 where anything differs; else the outcome that the samples themselves give.
    problems : tuple of Problem
        Every contradiction, with field, recorded and recomputed value.
    not_checked : tuple of str
        What no check looked at, in words.
    judgement : Judgement or None
        Recomputed from the samples; None where they could not be read.
    counts : Counts
        Of that judgement; zeros without one.
    receipt_sha256 : str
        Of the bytes that were read.
    release, host, finished_utc : str
        As the receipt says; empty where it could not be read.
    signed_by : tuple of str
        Who stands for it, where signatures were looked at (:func:`lqw.receipt.signature.with_signature`).
    receipt : Receipt or None
        What was read; None where it is none, and from :func:`lqw.release.many.verify_many`.
    uncounted : str
        Why the confirmation batch does not count; the judgement is then the one without it.
    """

    outcome: Outcome
    exit_status: Exit
    problems: tuple[Problem, ...]
    not_checked: tuple[str, ...]
    judgement: Judgement | None
    counts: Counts
    receipt_sha256: str
    release: str = ""
    host: str = ""
    finished_utc: str = ""
    signed_by: tuple[str, ...] = ()
    receipt: Receipt | None = field(default=None, repr=False)
    uncounted: str = ""


def verify_receipt(source: Path | str | bytes, *, find: Find | None = None) -> Verification:
    """Verify one receipt.

    Parameters
    ----------
    source : path or bytes
        A receipt file, or its content. For a file, what lies beside it (journal, artefacts, earlier attempts) is
        compared too.
    find : callable, optional
        How to find the receipts that set the references; by default in the store that a file lies in.

    Returns
    -------
    Verification
        Never raises on content, however broken or hostile.

    Raises
    ------
    UsageError
        The path is not a readable file.
    """
    data = source if isinstance(source, bytes) else _read(Path(source))
    sha256, unknown = sha256_bytes(data), ""
    try:
        document, canonical = object_of(data)
        problems = list(bytes_problems(document, data, canonical=canonical))
    except IntegrityError as err:
        return _invalid([Problem("(document)", err.message, "a receipt", "parse")], sha256)
    try:
        document, came_by = lifted(document)
        receipt = _typed(document, canonical_bytes(document) if came_by else data, canonical=canonical)
    except IntegrityError as err:
        return _invalid([*problems, Problem("schema", err.message, SCHEMA, "schema")], sha256)
    except ValidationError as err:
        return _invalid([*problems, *_typed_problems(err)], sha256)
    try:
        inputs = _inputs(receipt)
        again = rejudge(inputs)
        problems += again.problems
        problems += _derived_problems(document, receipt, again)
        problems += () if isinstance(source, bytes) else beside_problems(Path(source), receipt, again.judgement, sha256)
        if receipt.batch is not None:
            found = find or held_beside(source)
            foreign, unknown = build_problems(receipt.batch, again.judgement, inputs.standing, found)
            problems += foreign
    except IntegrityError as err:
        return _invalid([*problems, Problem("(inputs)", err.message, "typed inputs", "schema")], sha256)
    except Exception as err:  # noqa: BLE001 - hostile numbers may break arithmetic anywhere; that too is INVALID
        text = f"{type(err).__name__}: {err}"[:200]
        return _invalid([*problems, Problem("(samples)", text, "a verdict", "recompute")], sha256)
    notes = [f"the form of {one}: read as this lqw reads it" for one in came_by]
    notes += beside_notes(None if isinstance(source, bytes) else Path(source), receipt)
    verified = _verification(receipt, again.judgement, problems, sha256, notes)
    return _without_batch(verified, inputs, unknown) if unknown else verified


def _without_batch(verified: Verification, inputs: Inputs, unknown: str) -> Verification:
    """Return the verdict as if no batch was measured: nobody can say which old build it ran."""
    verified = replace(verified, not_checked=(*verified.not_checked, unknown))
    alone = rejudge(replace(inputs, batch=None)).judgement
    if verified.problems or alone.outcome is verified.outcome:
        return verified
    said = without_batch(alone, unknown)
    return replace(verified, outcome=said.outcome, exit_status=said.exit_status, judgement=said, uncounted=unknown)


def _read(path: Path) -> bytes:
    remedy = "name a receipt file, such as receipts/<host>/<version>.json"
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}", remedy=remedy)
        if path.stat().st_size > MAX_BYTES:
            return b" " * (MAX_BYTES + 1)  # refused by the parser, which names the limit
        return path.read_bytes()
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}", remedy=remedy) from err


def _typed(document: dict[str, Any], data: bytes, *, canonical: bool) -> Receipt:
    """Return the typed form of a document, whose bytes *data* are; ValidationError where it has none.

    The bytes have the word. What was read of canonical ones is the same value, and need not be read a second time: no
    field takes from it what it refuses in JSON.
    """
    if canonical:
        with suppress(ValidationError):
            return Receipt.model_validate(document)
    return Receipt.model_validate_json(data)


def _typed_problems(err: ValidationError) -> Iterator[Problem]:
    for one in err.errors(include_url=False, include_context=False)[:20]:
        where = ".".join(str(part) for part in one["loc"]) or "(document)"
        recorded = "(absent)" if one["type"] == "missing" else one["input"]
        yield Problem(where, recorded, one["msg"], "schema")


def _inputs(receipt: Receipt) -> Inputs:
    return Inputs(
        header=receipt.header,
        starts=receipt.starts,
        identities=receipt.identities,
        standing=standing_from_json(receipt.standing),
        reference=None if receipt.reference is None else parse_reference(receipt.reference, name="reference"),
        calibration=receipt.calibration,
        parity=receipt.parity,
        batch=receipt.batch,
        besides=receipt.beside,
    )


def derived_of(again: Rejudged) -> dict[str, Any]:
    """Return every top-level member of a receipt that follows from the others, recomputed."""
    return {
        "epoch": None if again.epoch is None else again.epoch.model_dump(mode="json"),
        "epoch_sha256": "" if again.epoch is None else again.epoch.sha256,
        "previous": previous_of(again.evidence.standing, again.plan.rows),
        "correctness": correctness_to_json(again.correctness),
        "judgement": judgement_to_json(again.judgement),
        **({} if again.roofline is None else {"roofline": again.roofline}),
    }


def _derived_problems(document: dict[str, Any], receipt: Receipt, again: Rejudged) -> Iterator[Problem]:
    derived = {"roofline": None, **derived_of(again)}
    same_words = receipt.header.lqw_version == lqw.__version__
    if again.problems and document["judgement"].get("outcome") != Outcome.INVALID:
        derived["judgement"] = judgement_to_json(again.unblamed)  # an edit of a sound receipt: show what it moved
    found = [one for key in derived for one in differences(document.get(key), derived[key], key, words=same_words)]
    yield from sorted(found, key=lambda one: not one.field.startswith("judgement.rows"))  # rows say most
    subject = subject_of(again.params, receipt.header.models, receipt.starts)
    yield from differences(receipt.run.subject_sha256, subject, "run.subject_sha256")
    if receipt.standing.get("epoch_sha256", "") != derived["epoch_sha256"]:
        yield Problem(
            "standing.epoch_sha256", receipt.standing.get("epoch_sha256"), derived["epoch_sha256"], "recompute"
        )
    run = receipt.run
    numbers = [earlier.attempt for earlier in run.earlier]
    if numbers != list(range(1, len(numbers) + 1)) or run.attempt != len(numbers) + 1:  # attempt may be any number
        yield Problem("run.earlier", f"attempts {numbers}", f"all before attempt {run.attempt}", "structure")
    for name, content, sha256 in (
        ("baseline", receipt.standing.get("references"), receipt.sources.baseline),
        ("reference", receipt.reference, receipt.sources.reference),
    ):
        if content and sha256 is None:
            yield Problem(f"sources.{name}", None, "the file the embedded content came from", "structure")


def _invalid(problems: list[Problem], sha256: str) -> Verification:
    counts = Counts(planned=0, measured=0, gating=0, void=0, failed=0)
    return Verification(
        Outcome.INVALID, Exit.INVALID, tuple(problems), ("everything after the first problem",), None, counts, sha256
    )


def _verification(
    receipt: Receipt, judgement: Judgement, problems: list[Problem], sha256: str, notes: list[str]
) -> Verification:
    outcome = Outcome.INVALID if problems else judgement.outcome
    exit_status = Exit.INVALID if problems else judgement.exit_status
    if exit_status is Exit.PASS and judgement.counts.measured == 0:  # zero rows are never a pass, whoever says so
        outcome, exit_status = Outcome.UNDECIDED, Exit.UNDECIDED
    return Verification(
        outcome,
        exit_status,
        tuple(problems),
        (*_not_checked(receipt), *notes),
        judgement,
        judgement.counts,
        sha256,
        release=judgement.release,
        host=receipt.header.host.name,
        finished_utc=receipt.run.finished_utc,
        receipt=receipt,
    )


def _not_checked(receipt: Receipt) -> Iterator[str]:
    header = receipt.header
    if (header.lqw_version, header.lqw_source_sha256) != (lqw.__version__, source_sha256()):
        yield (
            f"the code that measured (lqw {header.lqw_version}, source {header.lqw_source_sha256[:12]}): "
            f"this is lqw {lqw.__version__}, source {source_sha256()[:12]}"
        )
    if header.lqw_version != lqw.__version__:
        yield "texts of the judgement: another version worded them; numbers and verdicts are compared"
    if not (receipt.calibration or {}).get("ttft_error_p99_ms"):
        yield "the client's own error: the receipt carries no calibration"
    if receipt.run.replayed:
        yield "where the samples come from: this run replayed a journal"
    yield from ALWAYS_UNCHECKED

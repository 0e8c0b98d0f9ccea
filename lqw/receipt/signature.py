"""Who stands for a receipt or a record: pure functions from bytes, signatures and allowed signers to findings.

A signature counts when its key belongs to an allowed signer, the statement is about exactly these bytes, the signer's
role, hosts and dates allow it, and it was made no earlier than what it signs. Anything else in a bundle is named and
counts for nothing; a host that needs signatures and has none that counts makes the file INVALID.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict, sha256_bytes
from lqw.errors import Exit, IntegrityError
from lqw.outcomes import Outcome
from lqw.params.signers import same_person
from lqw.receipt.dsse import Envelope, parse_bundle, signed_with
from lqw.receipt.problems import Problem
from lqw.receipt.statement import RECEIPT_TYPE, RECORD_TYPE, Statement, parse_statement
from lqw.receipt.verify import UNSIGNED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.params.signers import Signers, SignerSpec
    from lqw.receipt.verify import Verification

__all__ = ["Signed", "check_receipt", "check_record", "with_signature"]

CHECK = "signature"
MAX_RECORD = 256 * 1024


@dataclass(frozen=True, slots=True)
class Signed:
    """What the signatures of one file are worth.

    Attributes
    ----------
    problems : tuple of Problem
        Why it is INVALID; empty where the signatures suffice or the policy allows to do without.
    signers : tuple of str
        Each signature that counts, in words: name, capacity and when.
    notes : tuple of str
        What did not count and why, and whether the file is unsigned by permission.
    """

    problems: tuple[Problem, ...]
    signers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    kind: str
    sha256: str
    host: str


@dataclass(frozen=True, slots=True)
class _Counted:
    signer: SignerSpec
    statement: Statement

    def __str__(self) -> str:
        claim = self.statement.predicate
        return f"{self.signer.name} as {claim.as_} on {claim.signed_utc}"


def check_receipt(verified: Verification, bundle: bytes | None, signers: Signers) -> Signed:
    """Say who stands for a receipt.

    Parameters
    ----------
    verified : Verification
        From :func:`lqw.receipt.verify.verify_receipt`: its sha256, host, release, outcome and finish are compared.
    bundle : bytes or None
        Content of ``<receipt>.intoto.jsonl``; None where there is no such file.
    signers : Signers
        From the committed files (:func:`lqw.params.signers.load_signers`, or ``parse_signers`` of a git tree).

    Returns
    -------
    Signed
        Never raises on content. An INVALID receipt is not looked at: it names its own host, which nobody believes.
    """
    if verified.exit_status is Exit.INVALID:
        return Signed((), notes=("who made it: not looked at, since the receipt does not verify",))
    wanted = _Wanted(RECEIPT_TYPE, verified.receipt_sha256, verified.host)
    counted, notes, problems = _counted(bundle, wanted, signers)
    good: list[_Counted] = []
    for one in counted:
        claim = one.statement.predicate
        if claim.as_ != "captain" or one.signer.role != "captain":
            notes.append(f"{one.signer.name}'s signature does not count: only a captain signs a receipt")
        elif claim.signed_utc[:19] < verified.finished_utc[:19]:
            notes.append(f"{one.signer.name}'s signature does not count: signed {claim.signed_utc}, before it was made")
        else:
            good.append(one)
            problems += _claims(one, verified)
    if not good:
        problems += _nobody(bundle, signers, verified.host, notes, "an allowed captain's")
    return Signed(tuple(problems), tuple(str(one) for one in good), tuple(notes))


def check_record(record: bytes, bundle: bytes | None, signers: Signers, *, name: str = "record") -> Signed:
    """Say who stands for a record: its author must have signed it, and a different person whose role is approver.

    Parameters
    ----------
    record : bytes
        Any JSON record with ``host``, ``author`` and ``approver``; what else it says its own module checks.
    bundle, signers
        As for :func:`check_receipt`.
    name : str
        The record's file, for messages.
    """
    try:
        host, author, approver = _people(record, name)
    except IntegrityError as err:
        return Signed((Problem(name, err.message, "a record", CHECK),))
    problems: list[Problem] = []
    if same_person(author, approver):
        problems.append(Problem(f"{name}: approver", approver, f"somebody else than its author {author!r}", CHECK))
    counted, notes, found = _counted(bundle, _Wanted(RECORD_TYPE, sha256_bytes(record), host), signers)
    problems += found
    good: list[_Counted] = []
    for wanted, person in (("author", author), ("approver", approver)):
        mine = [
            one for one in counted if one.statement.predicate.as_ == wanted and same_person(one.signer.name, person)
        ]
        if wanted == "approver" and any(one.signer.role != "approver" for one in mine):
            notes.append(f"{person}'s signature does not count: {person} is no approver")
            mine = [one for one in mine if one.signer.role == "approver"]
        good += mine[:1]
        if not mine:
            problems += _nobody(bundle, signers, host, notes, f"{person}'s as {wanted}")
    for one in counted:
        if one not in good:
            notes.append(f"{one}: the record names somebody else there")
    return Signed(tuple(problems), tuple(str(one) for one in good), tuple(dict.fromkeys(notes)))


def with_signature(verified: Verification, signed: Signed) -> Verification:
    """Return what a receipt is worth once its signatures were looked at: INVALID where they do not suffice."""
    rest = tuple(text for text in verified.not_checked if text != UNSIGNED)
    told = (*signed.notes, *rest)
    if not signed.problems:
        return replace(verified, not_checked=told, signed_by=signed.signers)
    return replace(
        verified,
        outcome=Outcome.INVALID,
        exit_status=Exit.INVALID,
        problems=(*verified.problems, *signed.problems),
        not_checked=told,
    )


def _people(record: bytes, name: str) -> tuple[str, str, str]:
    if len(record) > MAX_RECORD:
        raise IntegrityError(f"{name}: larger than {MAX_RECORD} bytes")
    value: Any = loads_strict(record, name=name)
    found = [value.get(key) if isinstance(value, dict) else None for key in ("host", "author", "approver")]
    for key, text in zip(("host", "author", "approver"), found, strict=True):
        if not isinstance(text, str) or not text.strip():
            raise IntegrityError(f"{name}: {key} is not a text")
    return str(found[0]), str(found[1]), str(found[2])


def _counted(
    bundle: bytes | None, wanted: _Wanted, signers: Signers
) -> tuple[list[_Counted], list[str], list[Problem]]:
    """Return signatures of this file by allowed signers, in words what else is there, and what forbids to read on."""
    counted: list[_Counted] = []
    notes: list[str] = []
    try:
        for number, line in enumerate(parse_bundle(bundle or b""), start=1):
            found = line if isinstance(line, str) else _one(line, number, wanted, signers)
            if isinstance(found, str):
                notes.append(f"a signature does not count: {found}")
            else:
                counted.append(found)
    except IntegrityError as err:
        return [], [], [Problem(CHECK, err.message, "a bundle of signatures", CHECK)]
    return counted, notes, []


def _one(envelope: Envelope, number: int, wanted: _Wanted, signers: Signers) -> _Counted | str:
    holders = [one for one in signers.people if signed_with(envelope, one.public_bytes)]
    if not holders:
        return f"line {number} is signed by nobody in params/signers"
    try:
        statement = parse_statement(envelope.payload)
    except IntegrityError as err:
        return f"line {number}: {err.message}"[:200]
    claim = statement.predicate
    signer = next((one for one in holders if same_person(one.name, claim.signer)), holders[0])
    reasons = (
        (statement.predicate_type == wanted.kind, f"is a {statement.predicate_type[:40]}, not a {wanted.kind}"),
        (statement.sha256 == wanted.sha256, f"is about the file {statement.sha256[:12]}, not this one"),
        (same_person(claim.signer, signer.name), f"claims to be by {claim.signer!r}, but the key is {signer.name}'s"),
        (claim.host == wanted.host, f"is about host {claim.host!r}, not {wanted.host}"),
        (wanted.host in signer.hosts, f"{signer.name} may not sign for host {wanted.host}"),
        (_in_time(signer, claim.signed_utc), f"{signer.name}'s key was not valid on {claim.signed_utc[:10]}"),
    )
    return next((f"line {number} {text}" for fine, text in reasons if not fine), _Counted(signer, statement))


def _in_time(signer: SignerSpec, signed_utc: str) -> bool:
    day, until = signed_utc[:10], signer.valid_until
    return signer.valid_from.isoformat() <= day and (until is None or day <= until.isoformat())


def _claims(one: _Counted, verified: Verification) -> Iterator[Problem]:
    """Compare what the signer's verifier said with what this one says."""
    claim = one.statement.predicate
    for field, signed, found in (
        ("release", claim.release, verified.release),
        ("outcome", claim.outcome, str(verified.outcome)),
        ("exit_status", claim.exit_status, int(verified.exit_status)),
    ):
        if signed != found:
            yield Problem(f"{CHECK}.{field}", signed, found, CHECK)


def _nobody(bundle: bytes | None, signers: Signers, host: str, notes: list[str], wanted: str) -> list[Problem]:
    """Return what a missing signature is: nothing where the policy allows it and none is claimed, else INVALID."""
    reason = signers.unsigned_allowed.get(host)
    if bundle is None and reason is not None:
        notes.append(f"who made it: unsigned; params/signing.yaml allows that for host {host} ({reason})")
        return []
    seen = "; ".join(notes) if notes else "no signature" if bundle is None else "no signature that counts"
    return [Problem(CHECK, seen, f"{wanted} signature for host {host}", CHECK)]

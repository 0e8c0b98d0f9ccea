"""Signatures beside the files they are about: finding the policy, reading the bundle, adding a line to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict, sha256_bytes, write_atomic
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.params.signers import POLICY, SIGNERS, Signers, load_signers, same_person
from lqw.receipt.dsse import BUNDLE_SUFFIX, MAX_BUNDLE, public_bytes, sign_payload
from lqw.receipt.paths import refuse_escape, repository_of
from lqw.receipt.signature import Signed, check_receipt, check_record, with_signature
from lqw.receipt.statement import receipt_statement, record_statement
from lqw.receipt.verify import verify_receipt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from lqw.params.signers import SignerSpec
    from lqw.receipt.verify import Verification

__all__ = ["bundle_of", "find_signers", "is_record", "read_bundle", "sign_file", "verify_record", "verify_signed"]

RECORDS = ("lqw-rebase/", "lqw-retire/", "lqw-reference-rebase/")
NO_POLICY = "who made it: no params/signing.yaml or params/signers above it says who may sign (--params DIR names them)"


def bundle_of(path: Path | str) -> Path:
    """Return where a file's signatures lie: ``<file>.intoto.jsonl``."""
    return Path(f"{path}{BUNDLE_SUFFIX}")


def read_bundle(path: Path | str) -> bytes | None:
    """Return the signatures that lie beside a file, or None; IntegrityError where they cannot be read."""
    place = bundle_of(path)
    try:
        if not place.is_symlink() and not place.exists():
            return None
        refuse_escape(place)
        if place.stat().st_size > MAX_BUNDLE:
            raise IntegrityError(f"{place}: larger than {MAX_BUNDLE} bytes")
        return place.read_bytes()
    except OSError as err:
        raise IntegrityError(f"{place}: {err.strerror or err}") from err


def find_signers(path: Path | str, params: Path | str | None = None) -> Signers | None:
    """Return who may sign a file: from *params*, else from ``params/`` of its git work tree; None: nobody says.

    Only the root of the work tree is looked at: a folder beside the file could be the forger's.

    Raises
    ------
    ParamsError
        A file there is malformed.
    UsageError
        *params* was named and has neither.
    """
    return _signers(repository_of(path), params)


def _signers(repository: Path | None, params: Path | str | None) -> Signers | None:
    folder = Path(params) if params is not None else None if repository is None else repository / "params"
    if folder is not None and ((folder / POLICY).is_file() or (folder / SIGNERS).is_dir()):
        return load_signers(folder)
    if params is not None:
        remedy = "name a repository's params folder; docs/receipt/signing.md"
        raise UsageError(f"{params}: holds neither {POLICY} nor {SIGNERS}/", remedy=remedy)
    return None


def verify_signed(path: Path | str, params: Path | str | None = None) -> Verification:
    """Verify a receipt file and the signatures beside it; arguments and errors as :func:`find_signers`."""
    repository = repository_of(path)
    if repository is not None:
        refuse_escape(path, repository)
    verified = verify_receipt(path)
    signers = _signers(repository, params)
    if signers is None:
        told = tuple(NO_POLICY if text.startswith("who made it") else text for text in verified.not_checked)
        return replace(verified, not_checked=told)
    return with_signature(verified, check_receipt(verified, read_bundle(path), signers))


def is_record(data: bytes) -> bool:
    """Return whether these are a record's bytes, by the schema they name."""
    try:
        value: Any = loads_strict(data)
    except IntegrityError:
        return False
    schema = value.get("schema") if isinstance(value, dict) else None
    return isinstance(schema, str) and schema.startswith(RECORDS)


def verify_record(path: Path | str, params: Path | str | None = None) -> Signed:
    """Say who stands for a record file; without a policy the two names alone are compared."""
    refuse_escape(path)
    signers = find_signers(path, params)
    data = Path(path).read_bytes()
    host = loads_strict(data, name=str(path)).get("host", "") if signers is None else ""
    allowed = signers or Signers((), {str(host): NO_POLICY})
    return check_record(data, read_bundle(path), allowed, name=Path(path).name)


def sign_file(
    path: Path | str, key: Ed25519PrivateKey, signers: Signers, *, signed_utc: str, as_: str | None = None
) -> tuple[SignerSpec, str]:
    """Verify a receipt or a record, and add the signature of this key's holder to the bundle beside it.

    Parameters
    ----------
    path : path
        The file; its bundle is made or gains a line.
    key : Ed25519PrivateKey
        Must be that of one of *signers*.
    signed_utc : str
        ``2026-12-02T08:00:00Z``.
    as_ : str, optional
        For a record whose author and approver have similar names: ``author`` or ``approver``; else known by the name.

    Returns
    -------
    signer, as_
        Who has signed now, and as what. Signing twice adds nothing.

    Raises
    ------
    UsageError
        The key is nobody's, or its holder may not sign this.
    IntegrityError
        The file does not verify, so nobody should stand for it.
    """
    place = Path(path)
    signer = signers.holder(public_bytes(key))
    if signer is None:
        raise UsageError(
            "this key is that of nobody in params/signers", remedy="commit the file that lqw key new printed"
        )
    data, held = _read(place), read_bundle(place)
    if is_record(data):
        _refuse_self_approval(place, data)
    role, payload = (
        _record_payload(place, data, signer, signed_utc, as_)
        if is_record(data)
        else _receipt_payload(place, signer, signed_utc)
    )
    line = sign_payload(payload, key)
    added = (held or b"") + (b"" if not held or held.endswith(b"\n") else b"\n") + line
    told = f"{signer.name} as {role} on "
    if any(one.startswith(told) for one in _check(place, data, held, signers).signers):
        return signer, role
    found = _check(place, data, added, signers)
    if f"{told}{signed_utc}" not in found.signers:
        why = "; ".join((*found.notes, *(str(one) for one in found.problems))) or "the signature would not count"
        raise UsageError(f"{place}: {signer.name} may not sign this: {why}", remedy="see params/signers")
    write_atomic(bundle_of(place), added)
    return signer, role


def _refuse_self_approval(place: Path, data: bytes) -> None:
    nobody = check_record(data, None, Signers((), {}), name=place.name)
    own = [problem for problem in nobody.problems if problem.field.endswith(": approver")]
    if own:
        raise IntegrityError(f"{place}: {own[0]}", remedy="an approver is another person than the author")


def _check(place: Path, data: bytes, bundle: bytes | None, signers: Signers) -> Signed:
    if is_record(data):
        return check_record(data, bundle, signers, name=place.name)
    return check_receipt(verify_receipt(place), bundle, signers)


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError as err:
        raise UsageError(f"{place}: {err.strerror or err}", remedy="name a receipt or a record") from err


def _receipt_payload(place: Path, signer: SignerSpec, signed_utc: str) -> tuple[str, bytes]:
    refuse_escape(place)
    verified = verify_receipt(place)
    if verified.exit_status is Exit.INVALID:
        first = verified.problems[0] if verified.problems else verified.outcome
        raise IntegrityError(f"{place}: INVALID, nobody signs that: {first}", remedy="lqw verify names every problem")
    return "captain", receipt_statement(verified, name=place.name, signer=signer.name, signed_utc=signed_utc)


def _record_payload(
    place: Path, data: bytes, signer: SignerSpec, signed_utc: str, as_: str | None
) -> tuple[str, bytes]:
    refuse_escape(place)
    value = loads_strict(data, name=str(place))
    named = [who for who in ("author", "approver") if same_person(str(value.get(who, "")), signer.name)]
    if as_ is None and not named:
        raise UsageError(f"{place}: names neither author nor approver {signer.name!r}", remedy="correct the record")
    role = as_ or named[0]
    payload = record_statement(
        sha256_bytes(data),
        name=place.name,
        host=str(value.get("host")),
        as_=role,
        signer=signer.name,
        signed_utc=signed_utc,
    )
    return role, payload

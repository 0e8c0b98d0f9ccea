"""Who may sign: ``params/signers/*.yaml``, and ``params/signing.yaml`` for hosts whose receipts may be unsigned.

Both are committed, so that a change of them is a change that a reviewer sees. A host that the policy does not name
needs signed receipts: forgetting it fails closed.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from lqw.errors import ParamsError
from lqw.params.hosts import Name
from lqw.params.loading import parse_text
from lqw.params.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "POLICY",
    "SIGNERS",
    "Role",
    "SignerSpec",
    "Signers",
    "agreed",
    "load_signers",
    "parse_signers",
    "same_person",
]

POLICY = "signing.yaml"
SIGNERS = "signers"
REMEDY = "docs/receipt/signing.md has a whole example"
MAX_FILE = 16_384  # bytes of one file
MAX_FILES = 256

Role = Literal["captain", "approver"]
Reason = Annotated[str, StringConstraints(min_length=20, max_length=1_000)]


class SignerSpec(Strict):
    """One key of one person. A person with two keys (an old and a new one) has two files."""

    schema_: Literal["lqw-signer/1"] = Field(alias="schema")
    name: str = Field(min_length=2, max_length=100)
    role: Role
    public_key: str = Field(pattern=r"^ed25519:[A-Za-z0-9+/]{43}=$")
    valid_from: dt.date
    valid_until: dt.date | None
    hosts: list[Name] = Field(min_length=1, max_length=64)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable():
            raise ValueError("a name of printable characters, without spaces around it")
        return name

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.valid_until is not None and self.valid_until < self.valid_from:
            raise ValueError("valid_until lies before valid_from")
        try:
            base64.b64decode(self.public_key.partition(":")[2], validate=True)
        except binascii.Error as err:
            raise ValueError(f"public_key: {err}") from err
        return self

    @property
    def public_bytes(self) -> bytes:
        """Return the 32 bytes of the Ed25519 public key."""
        return base64.b64decode(self.public_key.partition(":")[2], validate=True)


class _Policy(Strict):
    schema_: Literal["lqw-signing/1"] = Field(alias="schema")
    unsigned_allowed: dict[Name, Reason] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signers:
    """Everybody who may sign, and the hosts that may do without.

    Attributes
    ----------
    people : tuple of SignerSpec
        One for each key; no key stands twice.
    unsigned_allowed : mapping of host to reason
        Hosts whose receipts and records are accepted unsigned. Every other host needs signatures.
    """

    people: tuple[SignerSpec, ...]
    unsigned_allowed: Mapping[str, str]

    def holder(self, public_bytes: bytes) -> SignerSpec | None:
        """Return whose key this is, or None."""
        return next((one for one in self.people if one.public_bytes == public_bytes), None)


def same_person(one: str, other: str) -> bool:
    """Return whether two names are one person's: case, width of letters and spaces do not make another person."""
    first, second = (" ".join(unicodedata.normalize("NFKC", name).casefold().split()) for name in (one, other))
    return first == second


def agreed(before: Signers, now: Signers, *, fresh: Collection[str] = ()) -> Signers:
    """Return whom an earlier commit and a later one both allow: a change takes away at once, and gives by the next one.

    Parameters
    ----------
    before, now : Signers
        As two commits say, in this order.
    fresh : collection of str
        Hosts that the earlier commit does not know at all. Keys it knows may sign for them if the later one says so,
        and so may the later one's policy leave them unsigned: it could say nothing of them.

    Returns
    -------
    Signers
        For a host that the earlier commit left unsigned may sign whom the later one allows, since anybody's word was
        enough. For every other host a key must have been allowed already, to the same person in the same role; its days
        are those in both. Unsigned is what both leave unsigned.
    """
    free = {*before.unsigned_allowed}
    people: list[SignerSpec] = []
    for one in now.people:
        held = before.holder(one.public_bytes)
        if held is None or held.role != one.role or not same_person(held.name, one.name):
            hosts, begin, until = free, one.valid_from, one.valid_until
        else:
            hosts = {*held.hosts, *free, *fresh}
            begin = max(held.valid_from, one.valid_from)
            until = min((day for day in (held.valid_until, one.valid_until) if day is not None), default=None)
        mine = [host for host in one.hosts if host in hosts]
        if mine and (until is None or begin <= until):
            people.append(one.model_copy(update={"hosts": mine, "valid_from": begin, "valid_until": until}))
    left = {host: why for host, why in now.unsigned_allowed.items() if host in free or host in fresh}
    return Signers(tuple(people), left)


def parse_signers(files: Mapping[str, bytes]) -> Signers:
    """Read policy and signers from the content of their files.

    Parameters
    ----------
    files : mapping of path to bytes
        Paths relative to ``params/``: ``signing.yaml`` and ``signers/<anything>.yaml``; from a folder or a git tree.
        Others are ignored. Without ``signing.yaml`` every host needs signatures.

    Raises
    ------
    ParamsError
        A file is malformed, a key stands twice, or one person has two roles.
    """
    people: list[SignerSpec] = []
    for path in sorted(files):
        folder, _, name = path.rpartition("/")
        if folder == SIGNERS and name.endswith((".yaml", ".yml")):
            one = parse_text(SignerSpec, _text(path, files[path]), Path(path), remedy=REMEDY)
            _agrees(path, one, people)
            people.append(one)
    policy = _Policy(schema="lqw-signing/1")
    if POLICY in files:
        policy = parse_text(_Policy, _text(POLICY, files[POLICY]), Path(POLICY), remedy=REMEDY)
    return Signers(tuple(people), dict(policy.unsigned_allowed))


def load_signers(folder: Path | str) -> Signers:
    """Read policy and signers below a ``params/`` folder; ParamsError names file, field, value and remedy."""
    root = Path(folder)
    paths = [root / POLICY, *sorted((root / SIGNERS).glob("*.y*ml"))]
    if len(paths) > MAX_FILES:
        raise _refused(str(root / SIGNERS), "(folder)", len(paths), f"more than {MAX_FILES} files", REMEDY)
    try:
        found = [path for path in paths if path.is_file()]
        return parse_signers({path.relative_to(root).as_posix(): path.read_bytes() for path in found})
    except OSError as err:
        raise _refused(str(root), "(folder)", str(root), err.strerror or str(err), "make it readable") from err


def _agrees(path: str, one: SignerSpec, people: list[SignerSpec]) -> None:
    for other in people:
        if other.public_bytes == one.public_bytes:
            raise _refused(path, "public_key", one.public_key, f"is {other.name}'s key too", "one key, one person")
        if same_person(one.name, other.name) and one.role != other.role:
            raise _refused(path, "role", one.role, f"{other.name} is {other.role} already", "one person, one role")


def _text(path: str, data: bytes) -> str:
    if len(data) > MAX_FILE:
        raise _refused(path, "(file)", f"{len(data)} bytes", f"longer than {MAX_FILE} bytes", REMEDY)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        raise _refused(path, "(file)", path, "not UTF-8 text", "save the file as UTF-8") from err


def _refused(file: str, field: str, value: object, problem: str, remedy: str) -> ParamsError:
    return ParamsError(file=file, field=field, value=value, problem=problem, remedy=remedy)

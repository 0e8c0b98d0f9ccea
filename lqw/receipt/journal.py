"""Reading ``samples.jsonl`` strictly: a torn last line, left by a kill, is dropped; anything else wrong is an error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from lqw.canonical import MAX_BYTES, loads_strict
from lqw.errors import IntegrityError
from lqw.samples import Header, IdentityRecord, Record, StartRecord

__all__ = ["Journal", "read_journal"]

_Kind = TypeVar("_Kind", bound=Record)
_OF_KIND: dict[str, type[StartRecord | IdentityRecord]] = {"start": StartRecord, "identity": IdentityRecord}


@dataclass(frozen=True, slots=True)
class Journal:
    """A run's raw records.

    Attributes
    ----------
    header : Header
        First line: what the run is.
    starts : tuple of StartRecord
    identities : tuple of IdentityRecord
        Both in the order they were written.
    torn : bool
        The last line was incomplete and has been dropped: the run was killed while it wrote.
    size : int
        Bytes of the whole lines: where a resumed run goes on writing.
    """

    header: Header
    starts: tuple[StartRecord, ...]
    identities: tuple[IdentityRecord, ...]
    torn: bool = False
    size: int = 0


def read_journal(source: Path | str | bytes) -> Journal:
    """Read a journal.

    Parameters
    ----------
    source : path or bytes

    Raises
    ------
    IntegrityError
        Naming file, line and field. Also for a file that is not there.
    """
    name = "samples.jsonl" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else _read(Path(source))
    whole, _, rest = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if not lines:
        raise IntegrityError(f"{name}: no header line", remedy="the run left nothing; start it again")
    header = _parse(Header, lines[0], f"{name}:1")
    starts: list[StartRecord] = []
    identities: list[IdentityRecord] = []
    for number, line in enumerate(lines[1:], start=2):
        record = _record(line, f"{name}:{number}")
        if isinstance(record, StartRecord):
            starts.append(record)
        else:
            identities.append(record)
    return Journal(header, tuple(starts), tuple(identities), torn=bool(rest), size=len(data) - len(rest))


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise IntegrityError(f"{path}: larger than {MAX_BYTES} bytes")
        return path.read_bytes()
    except OSError as err:
        raise IntegrityError(f"{path}: {err.strerror or err}") from err


def _record(line: bytes, where: str) -> StartRecord | IdentityRecord:
    raw = loads_strict(line, name=where)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in _OF_KIND:
        raise IntegrityError(f"{where}: kind = {kind!r}: not a start and not an identity record")
    return _validated(_OF_KIND[kind], line, where)


def _parse(model: type[_Kind], line: bytes, where: str) -> _Kind:
    loads_strict(line, name=where)  # pydantic's reader keeps the last of two equal keys; this one refuses them
    return _validated(model, line, where)


def _validated(model: type[_Kind], line: bytes, where: str) -> _Kind:
    try:
        return model.model_validate_json(line)
    except ValidationError as err:
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(line)"
        raise IntegrityError(f"{where}: {field}: {first['msg']}") from err

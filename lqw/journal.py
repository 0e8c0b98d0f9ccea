"""The journal, ``samples.jsonl``: a header, then one synced line per engine start. The one file a run cannot lose.

A line is written whole, with its line end, and synced before the next start begins. After ``kill -9`` at most the
last line is half there; it is known by its missing line end, dropped, and measured again.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from lqw.canonical import MAX_BYTES, canonical_bytes, loads_strict
from lqw.errors import HostBusy, IntegrityError, UsageError
from lqw.samples import Batch, BatchRecord, BatchStart, BesideRecord, Header, IdentityRecord, StartRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["Entry", "Journal", "JournalWriter", "parse_journal", "read_journal", "read_recorded"]

Entry = Header | StartRecord | IdentityRecord | BatchRecord | BatchStart | BesideRecord
"""What a line of the journal may be."""

_KINDS: dict[str, type[Entry]] = {
    "header": Header,
    "start": StartRecord,
    "identity": IdentityRecord,
    "batch": BatchRecord,
    "batch_start": BatchStart,
    "beside": BesideRecord,
}


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal holds.

    ``torn`` says that a half last line was left out; ``size`` is where the whole lines end, in bytes.
    """

    header: Header
    starts: tuple[StartRecord, ...]
    identities: tuple[IdentityRecord, ...]
    torn: bool
    size: int
    besides: tuple[BesideRecord, ...] = ()
    batch: Batch | None = None

    @property
    def next_position(self) -> int:
        """Return the running number of the next start."""
        records: list[StartRecord | IdentityRecord | BesideRecord | BatchStart] = []
        records += [*self.starts, *self.identities, *self.besides, *(self.batch.starts if self.batch else ())]
        return 1 + max((one.position for one in records), default=-1)


def _record(line: bytes, where: str) -> Entry:
    value = loads_strict(line, name=where)
    kind = value.get("kind") if isinstance(value, dict) else None
    spec = _KINDS.get(kind) if isinstance(kind, str) else None
    if spec is None:
        raise IntegrityError(f"{where}: not a record of a journal")
    try:
        return spec.model_validate_json(line)  # JSON mode: enums and lists come as JSON has them
    except ValidationError as err:
        first = err.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise IntegrityError(f"{where}: {field}: {first['msg']}") from err


def parse_journal(data: bytes, *, name: str = "samples.jsonl") -> Journal:
    """Parse a journal's bytes; IntegrityError names the line. Only a half *last* line is forgiven."""
    size = data.rfind(b"\n") + 1
    lines = data[:size].splitlines()
    if not lines:
        raise IntegrityError(f"{name}: no whole line in it", remedy="start a new run")
    records = [_record(line, f"{name}, line {number}") for number, line in enumerate(lines, 1)]
    header = records[0]
    if not isinstance(header, Header):
        raise IntegrityError(f"{name}, line 1: not a header")
    if any(isinstance(record, Header) for record in records[1:]):
        raise IntegrityError(f"{name}: a second header; two journals were joined")
    return Journal(
        header,
        tuple(record for record in records if isinstance(record, StartRecord)),
        tuple(record for record in records if isinstance(record, IdentityRecord)),
        torn=size < len(data),
        size=size,
        besides=tuple(record for record in records if isinstance(record, BesideRecord)),
        batch=_batch(records, name),
    )


def _batch(records: Sequence[Entry], name: str) -> Batch | None:
    """Return the one batch: declared once, and before its first start."""
    declared = [at for at, record in enumerate(records) if isinstance(record, BatchRecord)]
    started = [at for at, record in enumerate(records) if isinstance(record, BatchStart)]
    if len(declared) > 1:
        raise IntegrityError(f"{name}, line {declared[1] + 1}: a second confirmation batch; there is one per candidate")
    if started and (not declared or started[0] < declared[0]):
        raise IntegrityError(f"{name}, line {started[0] + 1}: a start of a confirmation batch that was not declared")
    if not declared:
        return None
    record = records[declared[0]]
    starts = tuple(one for one in records if isinstance(one, BatchStart))
    return Batch(declared=record, starts=starts) if isinstance(record, BatchRecord) else None


def read_journal(path: Path | str) -> Journal:
    """Read a journal (IntegrityError names file and line)."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as err:
        raise IntegrityError(f"{path}: {err.strerror or err}") from err
    return parse_journal(data, name=str(path))


def read_recorded(path: Path) -> Journal:
    """Read a journal that a person named; UsageError for what can be none, before a byte of it is read."""
    size = path.stat().st_size if path.is_file() else 0
    if path.is_file() and size <= MAX_BYTES:
        return read_journal(path)
    other = "a folder" if path.is_dir() else "not a regular file" if path.exists() else "no such file"
    problem = f"{size} bytes, and no receipt holds more than {MAX_BYTES}" if size else other
    raise UsageError(f"{path}: {problem}", remedy="name a recorded samples.jsonl")


class JournalWriter:
    """The journal's single writer; a second one on the same file is refused (HostBusy).

    Opening an existing journal cuts off a half last line.

    Parameters
    ----------
    path : path
        ``samples.jsonl`` of the run; made if it is not there.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            os.close(self._handle)
            raise HostBusy(f"{self.path}: another process writes this journal", remedy="wait for it to end") from err
        self._drop_half_line()

    def _drop_half_line(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        self.dropped_bytes = len(data) - whole
        if self.dropped_bytes:
            os.ftruncate(self._handle, whole)
            os.fsync(self._handle)
        os.lseek(self._handle, whole, os.SEEK_SET)
        self.is_empty = whole == 0

    def append(self, record: Entry) -> None:
        """Write one line and sync it to the disk before returning."""
        value: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
        line = canonical_bytes(value) + b"\n"
        while line:
            line = line[os.write(self._handle, line) :]
        os.fsync(self._handle)
        if self.is_empty:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # the file's name is on the disk too
            finally:
                os.close(folder)
            self.is_empty = False

    def close(self) -> None:
        """Release the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

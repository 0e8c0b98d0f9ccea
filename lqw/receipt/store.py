"""The store: ``<root>/<host>/`` holds receipts, ``baseline.json`` and ``reference.json``; receipts are append-only.

The first receipt of a version is ``<version>.json``, attempt k ``<version>.attempt<k>.json``. No file is overwritten or
removed, so that every attempt stays on record, and a subject that was RED is not measured again until it is green.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import read_json, sha256_bytes, sha256_file
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Outcome
from lqw.receipt.schema import EarlierAttempt

if TYPE_CHECKING:
    from lqw.receipt.verify import Verification

__all__ = ["BASELINE", "REFERENCE", "Attempt", "Next", "Store", "create", "receipt_name"]

BASELINE = "baseline.json"
REFERENCE = "reference.json"
_RESERVED = re.compile(r"(baseline|reference)|.*\.attempt\d+")
_SAFE = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_ATTEMPT = re.compile(r"\.attempt([1-9]\d{0,5})\.json$")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One stored receipt, as it says of itself."""

    number: int
    path: Path
    sha256: str
    outcome: Outcome
    subject_sha256: str
    run_id: str
    is_settled: bool  # it carries a confirmation batch, whole or ended by a start that failed

    @property
    def entry(self) -> EarlierAttempt:
        """Return the form a later attempt carries in its receipt."""
        return EarlierAttempt(attempt=self.number, sha256=self.sha256, outcome=self.outcome)


@dataclass(frozen=True, slots=True)
class Next:
    """The attempt that a run of a version will be."""

    number: int
    earlier: tuple[EarlierAttempt, ...]


def receipt_name(version: str, attempt: int = 1) -> str:
    """Return a receipt's file name; UsageError for a version whose name another file of the store has."""
    if _RESERVED.fullmatch(version) or not _SAFE.fullmatch(version):
        text = f"release {version[:80]!r}: no file of a store can have that name, or another one has"
        raise UsageError(text, remedy="give the release another name")
    return f"{version}.json" if attempt == 1 else f"{version}.attempt{attempt}.json"


class Store:
    """A folder of receipts, by host.

    Parameters
    ----------
    root : path
        ``receipts/`` of a repository, or a run's own folder.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def folder(self, host: str) -> Path:
        """Return the folder of one host; UsageError for a name that no folder below the root can have."""
        if not _SAFE.fullmatch(host):
            raise UsageError(f"host {host[:80]!r}: not a host's name", remedy="use letters, digits, dots and dashes")
        return self.root / host

    def baseline(self, host: str) -> Path:
        """Return the path of a host's floors; the file may not be there yet."""
        return self.folder(host) / BASELINE

    def reference(self, host: str) -> Path:
        """Return the path of a host's token reference; the file may not be there yet."""
        return self.folder(host) / REFERENCE

    def records(self, host: str) -> Path:
        """Return the folder of a host's records: what two people decided, one file each."""
        return self.folder(host) / "records"

    def find(self, host: str, sha256: str) -> Path | None:
        """Return the stored receipt of that hash, or None."""
        names = (path for path in sorted(self.folder(host).glob("*.json")) if path.name not in (BASELINE, REFERENCE))
        return next((path for path in names if sha256_file(path) == sha256), None)

    def receipt(self, host: str, version: str, attempt: int = 1) -> Path:
        """Return where an attempt's receipt is, or will be."""
        return self.folder(host) / receipt_name(version, attempt)

    def attempts(self, host: str, version: str) -> tuple[Attempt, ...]:
        """Return the stored attempts at a version, oldest first; IntegrityError where one is missing or unreadable."""
        highest = 1 if self.receipt(host, version).is_file() else 0
        prefix = f"{version}.attempt"
        for path in self.folder(host).glob("*.json"):
            found = _ATTEMPT.search(path.name)
            if path.name.startswith(prefix) and found and path.name == receipt_name(version, int(found[1])):
                highest = max(highest, int(found[1]))
        return tuple(_attempt(self.receipt(host, version, number), number) for number in range(1, highest + 1))

    def red_of(self, host: str, subject_sha256: str, *, confirmed_by: str | None = None) -> Path | None:
        """Return a RED receipt of this very subject, under whatever version it was measured, that still stands.

        A RED whose third arm was not measured, or was cut off by the deadline, has no last word: it gives way to a
        receipt of the same run with a whole one, and is no obstacle to the run *confirmed_by*, which goes on with it.
        """
        mine = [
            _attempt(path, 0)
            for path in sorted(self.folder(host).glob("*.json"))
            if path.name not in (BASELINE, REFERENCE) and subject_sha256.encode() in path.read_bytes()
        ]
        mine = [one for one in mine if one.subject_sha256 == subject_sha256]
        settled = {one.run_id for one in mine if one.is_settled} | {confirmed_by}
        red = [one for one in mine if one.outcome is Outcome.RED]
        return next((one.path for one in red if one.is_settled or one.run_id not in settled), None)

    def next_attempt(self, host: str, version: str, subject_sha256: str | None = None) -> Next:
        """Return number and history of the attempt to come.

        Parameters
        ----------
        host, version : str
        subject_sha256 : str, optional
            From :func:`lqw.receipt.subject.subject_sha256`, where the binary's hash is known before anything starts.

        Raises
        ------
        UsageError
            This subject has been RED on this host: nothing is re-run until it is green.
        IntegrityError
            A stored attempt is missing or unreadable.
        """
        earlier = self.attempts(host, version)
        if subject_sha256 is not None:
            self.refuse_repeat(host, subject_sha256)
        return Next(len(earlier) + 1, tuple(one.entry for one in earlier))

    def refuse_repeat(self, host: str, subject_sha256: str, *, confirmed_by: str | None = None) -> None:
        """Raise UsageError if this subject has been RED on this host (see :meth:`red_of`)."""
        red = self.red_of(host, subject_sha256, confirmed_by=confirmed_by)
        if red is not None:
            raise UsageError(
                f"{red}: this very subject (same binary, settings and environment) was RED there; "
                "it is not measured again until it is green",
                remedy="mend the engine and gate the new build; a RED whose third arm was not measured, or cut off by "
                "the deadline, is settled by its own run alone: name the old build in params/earlier/ and --resume it",
            )

    def put(self, receipt: Path | str) -> Path:
        """Store a run's receipt as the attempt it says it is; return its new path.

        Raises
        ------
        IntegrityError
            It does not verify, is a replay, or does not name every stored attempt.
        UsageError
            The subject has been RED, the file is there already, or the folder cannot be written.
        """
        from lqw.receipt.verify import verify_receipt  # noqa: PLC0415 - that module looks into stores

        data = Path(receipt).read_bytes()
        verified = verify_receipt(data)
        if verified.exit_status is Exit.INVALID:
            raise IntegrityError(f"{receipt}: {verified.problems[0] if verified.problems else verified.outcome}")
        return self._put(data, read_json(receipt), verified)

    def _put(self, data: bytes, document: dict[str, Any], verified: Verification) -> Path:
        host, version, run = verified.host, verified.release, document["run"]
        if run["replayed"]:
            raise IntegrityError("a replayed run has measured nothing: its receipt is not stored")
        self.refuse_repeat(host, run["subject_sha256"], confirmed_by=self._confirmed_by(document, host, version))
        held = [one.entry.model_dump(mode="json") for one in self.attempts(host, version)]
        if held != run["earlier"]:
            raise IntegrityError(
                f"{self.receipt(host, version)}: the store holds {len(held)} attempts, the receipt names "
                f"{len(run['earlier'])}",
                remedy="judge the run again: lqw gate --resume",
            )
        path = self.receipt(host, version, run["attempt"])
        create(path, data)
        return path

    def _confirmed_by(self, document: dict[str, Any], host: str, version: str) -> str | None:
        """Return the run of a receipt that adds nothing but a third arm to what is stored of that run."""
        if document.get("batch") is None:
            return None
        run_id = str(document["header"]["run_id"])
        stored = [read_json(one.path) for one in self.attempts(host, version) if one.run_id == run_id]
        same = all(one[part] == document[part] for one in stored for part in ("header", "starts", "identities"))
        same = same and all(_goes_on(one.get("batch"), document["batch"]) for one in stored)
        return run_id if same else None


def _attempt(path: Path, number: int) -> Attempt:
    document = read_json(path)
    try:
        return Attempt(
            number=number,
            path=path,
            sha256=sha256_bytes(path.read_bytes()),
            outcome=Outcome(document["judgement"]["outcome"]),
            subject_sha256=str(document["run"]["subject_sha256"]),
            run_id=str(document["header"]["run_id"]),
            is_settled=_is_settled(document),
        )
    except (KeyError, TypeError, ValueError) as err:
        raise IntegrityError(f"{path}: not a receipt: {err!r}") from err


def _is_settled(document: dict[str, Any]) -> bool:
    """Return whether every model of the batch was measured whole, or ended by a start that failed: nothing is left."""
    batch = document.get("batch")
    if batch is None:
        return False
    declared, launches = batch["declared"], len(document["header"]["params"]["protocol"]["launches"])
    for model, releases in declared["against"].items():
        mine = [one for one in batch["starts"] if one["model"] == model]
        whole = len(mine) >= declared["tuples"] * (2 + len(releases)) * launches
        if not whole and all(one["failure"] is None for one in mine):
            return False
    return True


def _goes_on(before: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    """Return whether a batch is the one before with further starts."""
    if before is None:
        return True
    ran = before["starts"]
    return bool(now["declared"] == before["declared"] and now["starts"][: len(ran)] == ran)


def create(path: Path, data: bytes) -> None:
    """Write a new file whole or not at all, and never over another one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with temporary.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        try:
            path.hardlink_to(temporary)  # unlike a rename, this fails where the name is taken
        finally:
            temporary.unlink()
    except FileExistsError as err:
        raise UsageError(f"{path}: is there already; receipts are never overwritten", remedy="keep it") from err
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}", remedy="name a store you may write to: --store DIR") from err

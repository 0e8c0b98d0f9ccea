"""The blessed model: per host two receipts, each judged by its own judge. Pure; reading is the caller's."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lqw.errors import Exit
from lqw.parity.commits import commit_of, same_commit
from lqw.parity.judge import judge_record, moment_of
from lqw.parity.serving import judge_serving
from lqw.parity.verdict import ParityVerdict, Refusal, Word, file_name, is_sha256, shown, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lqw.params.parity import BlessedSpec, ParityParams, ThresholdsSpec

__all__ = ["KINDS", "BlessedVerdict", "UnderTest", "judge_blessed", "judge_release"]

KINDS = ("m1", "serving")


@dataclass(frozen=True, slots=True)
class UnderTest:
    """The program a receipt must be of: the sha256 of its bytes where a host's are known, else its commit.

    Hosts of unlike processors run unlike binaries of one commit; a run on one host knows the other's commit only.
    """

    binaries: Mapping[str, str]  # host → sha256
    commit: str = ""
    model_sha256: str = ""  # of the blessed model, where the release measures it too

    def stale(self, host: str, receipt: dict[str, Any], kind: str) -> str | None:
        """Return why *receipt* is not of the program under test, or None."""
        provenance = receipt if kind == "serving" else receipt.get("provenance")
        sha256 = self.binaries.get(host)
        if sha256 is not None:
            measured = provenance.get("binary_sha256") if isinstance(provenance, dict) else None
            if measured == sha256:
                return None
            return f"the receipt is of binary {told(measured)[:12]}, the one under test is {sha256[:12]}"
        words = str(receipt.get("commit" if kind == "serving" else "apr_version") or "")
        named = words if kind == "serving" else commit_of(words, words)
        if same_commit(named, self.commit):
            return None
        other = told(named or "(absent)")[:40]
        return f"the receipt is of commit {other}, the one under test is {self.commit or 'unknown'}"


@dataclass(frozen=True, slots=True)
class BlessedVerdict:
    """Every receipt of every host: ``cells[host, kind]``; ``faults`` are of the blessing itself."""

    model: str
    cells: dict[tuple[str, str], ParityVerdict]
    faults: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Return PASS, RED (a receipt is missing or did not pass) or FAIL (the blessing itself is no good)."""
        if self.faults:
            return "FAIL"
        return "PASS" if all(cell.word is Word.PASS for cell in self.cells.values()) and self.cells else "RED"

    @property
    def exit_status(self) -> Exit:
        """Return 0 for PASS, 1 for everything else."""
        return Exit.PASS if self.word == "PASS" else Exit.RED

    @property
    def blocks(self) -> tuple[str, ...]:
        """Return what keeps a release from its tag, each by host and name; empty exactly where the word is PASS."""
        cells = [f"{host}: {cell.line}" for (host, _), cell in self.cells.items() if cell.word is not Word.PASS]
        return (*self.faults, *cells) or (() if self.cells else ("no receipt was judged",))

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one line per receipt, worst news unhidden, then the sum."""
        good = sum(cell.word is Word.PASS for cell in self.cells.values())
        cells = [f"{host}: {cell.line}" for (host, _), cell in self.cells.items()]
        total = f"{self.word} {self.model or '(no model)'}: {good} of {len(self.cells)} receipts pass"
        return (*cells, *self.faults, total)

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``--json``."""
        hosts: dict[str, dict[str, Any]] = {}
        for (host, kind), cell in self.cells.items():
            hosts.setdefault(host, {})[kind] = cell.to_json()
        return {
            "schema": "lqw-parity-blessed-verdict/1",
            "model": self.model,
            "verdict": self.word,
            "hosts": hosts,
            "faults": list(self.faults),
            "exit": int(self.exit_status),
        }


def _file_of(receipt: dict[str, Any], kind: str) -> object:
    inner = receipt.get("model" if kind == "serving" else "cell")
    if not isinstance(inner, dict):
        return None
    path = inner.get("path" if kind == "serving" else "file")
    return file_name(path) if isinstance(path, str) else None


def _foreign(receipt: object, host: str, file: str, kind: str) -> str | None:
    """Return why a receipt that passed its judge is not this cell's, or None."""
    if not isinstance(receipt, dict):
        return "not a JSON object"
    if receipt.get("host") != host:
        return f"the receipt is of host {shown(receipt.get('host', '(absent)'))}, not of {host}"
    if not is_sha256(_model_sha256(receipt, kind)):
        return "the receipt does not say which model bytes it is of: no sha256"
    if file and _file_of(receipt, kind) != file:
        return f"the receipt is of file {shown(_file_of(receipt, kind))}, not of {file}"
    return None


def _ahead(receipt: dict[str, Any], day: str) -> str | None:
    """Return why a receipt's day cannot be: it lies after the day on which it is judged, by more than zones explain."""
    try:
        taken = moment_of("generated_at", receipt)
    except Refusal as refused:
        return str(refused)
    last = dt.date.fromisoformat(day) + dt.timedelta(days=1)
    if taken is None or taken.astimezone(dt.UTC).date() <= last:
        return None
    return f"the receipt is dated {taken.date()}, which is after {day}: some clock was wrong, so take it again"


def _model_sha256(receipt: object, kind: str) -> str | None:
    inner = receipt.get("model" if kind == "serving" else "provenance") if isinstance(receipt, dict) else None
    value = inner.get("sha256" if kind == "serving" else "model_sha256") if isinstance(inner, dict) else None
    return value if isinstance(value, str) else None


def judge_blessed(
    blessed: BlessedSpec,
    thresholds: ThresholdsSpec,
    read: Callable[[str], object],
    *,
    under_test: UnderTest | None = None,
    hosts: Sequence[str] | None = None,
    day: str | None = None,
) -> BlessedVerdict:
    """Judge the blessed model on every host it is blessed for.

    Parameters
    ----------
    blessed, thresholds
        The two parameter files.
    read : callable
        Receipt path → parsed JSON, as :func:`lqw.parity.files.read_receipt`: ``FileNotFoundError`` where there is
        none (MISSING, which is RED), a text where it is unreadable (FAIL).
    under_test : UnderTest, optional
        The program under test; a receipt of another one is STALE and does not count.
    hosts : sequence of str, optional
        Which hosts need receipts, where these are not those of the blessing.
    day : str, optional
        When (``YYYY-MM-DD``, UTC) they are judged: a receipt that is dated later does not count.
    """
    faults = []
    if not blessed.model.strip():
        faults.append("no model is blessed")
    wanted = blessed.hosts if hosts is None else hosts
    if not wanted:
        faults.append("no host is named: nothing would be judged")
    cells: dict[tuple[str, str], ParityVerdict] = {}
    bytes_of = {"the release": under_test.model_sha256} if under_test is not None and under_test.model_sha256 else {}
    for host in wanted if not faults else []:
        for kind in KINDS:
            cell, receipt = _cell(blessed, thresholds, read, host, kind)
            cell = _fresh(cell, receipt, host, blessed.file, under_test)
            if cell.word is Word.PASS and day and isinstance(receipt, dict) and (ahead := _ahead(receipt, day)):
                cell = replace(cell, word=Word.UNMEASURED, reasons=(ahead,))
            cells[host, kind] = cell
            if cell.word is Word.PASS and (sha256 := _model_sha256(receipt, kind)):
                bytes_of[f"{host} {kind}"] = sha256
    if len(set(bytes_of.values())) > 1:
        told = ", ".join(f"{where} {sha256[:12]}" for where, sha256 in bytes_of.items())
        faults.append(f"the receipts are of different model bytes: {told}")
    return BlessedVerdict(blessed.model, cells, tuple(faults))


def _fresh(cell: ParityVerdict, receipt: object, host: str, file: str, under_test: UnderTest | None) -> ParityVerdict:
    """Return the verdict of a receipt that is this host's, this file's and of the program under test, else why not."""
    foreign = _foreign(receipt, host, file, cell.kind) if cell.word is Word.PASS else None
    if foreign is not None:
        return replace(cell, word=Word.FAIL, reasons=(foreign,))
    if under_test is not None and isinstance(receipt, dict) and (old := under_test.stale(host, receipt, cell.kind)):
        return replace(cell, word=Word.STALE, reasons=(old, f"it said {cell.word}"))
    return cell


def _cell(
    blessed: BlessedSpec, thresholds: ThresholdsSpec, read: Callable[[str], object], host: str, kind: str
) -> tuple[ParityVerdict, object]:
    spec = blessed.receipts.get(host)
    path = None if spec is None else (spec.m1 if kind == "m1" else spec.serving)
    if path is None:
        return ParityVerdict(kind, blessed.model, Word.MISSING, None, ("no receipt is named",)), None
    try:
        receipt = read(path)
    except FileNotFoundError:
        return ParityVerdict(kind, blessed.model, Word.MISSING, None, (f"{path} does not exist",)), None
    if isinstance(receipt, str):
        return ParityVerdict(kind, blessed.model, Word.FAIL, None, (f"unreadable: {receipt}",)), None
    if kind == "m1":
        return judge_record(receipt, model=blessed.model, thresholds=thresholds), receipt
    return judge_serving(receipt, model=blessed.model), receipt


def judge_release(
    parity: ParityParams | None,
    read: Callable[[str], object],
    *,
    hosts: Sequence[str],
    under_test: UnderTest,
    day: str | None = None,
) -> BlessedVerdict:
    """Judge what a release needs before its tag: both receipts of its blessed model, on each of its hosts, fresh.

    Parameters
    ----------
    parity : ParityParams or None
        ``Params.parity``. None (the release names no blessed model) is a FAIL: nothing is claimed of the batched path.
    read : callable
        As in :func:`judge_blessed`; paths start at the root of the repository.
    hosts : sequence of str
        The release's.
    under_test : UnderTest
        Host → sha256 of the subject's binary, as its gate receipt has it (``EngineFacts.binary_sha256``), and the
        commit for hosts that are not in it (:func:`commit_of`).
    day : str, optional
        When the release was measured, as in :func:`judge_blessed`.

    Returns
    -------
    BlessedVerdict
        ``blocks`` names everything that is missing, stale, unmeasured or red; empty where nothing is.
    """
    if parity is None:
        return BlessedVerdict("", {}, ("the release names no blessed model: parity at the serving shape is not shown",))
    return judge_blessed(parity.blessed, parity.thresholds, read, under_test=under_test, hosts=hosts, day=day)

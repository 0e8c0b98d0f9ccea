"""Parity receipts of a release's blessed model: read at the gate, carried in its receipt, judged again from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lqw.outcomes import Arm, Purpose
from lqw.parity.blessed import BlessedVerdict, UnderTest, judge_release
from lqw.parity.commits import commit_of
from lqw.parity.verdict import ParityVerdict, Word
from lqw.verdict.results import Effect, GuardFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lqw.params import Params
    from lqw.samples import Header, StartRecord

__all__ = ["parity_findings", "parity_verdict", "read_documents", "under_test"]


def read_documents(params: Params, read: Callable[[str], object]) -> dict[str, Any] | None:
    """Return path → content of every parity receipt the release's hosts name; None where no model is blessed.

    What does not exist is left out; what is unreadable is its message, a text, as *read* returns it
    (:func:`lqw.parity.files.read_receipt`).
    """
    if params.parity is None:
        return None
    named = [params.parity.blessed.receipts.get(host) for host in params.release.hosts]
    out: dict[str, Any] = {}
    for path in [path for spec in named if spec is not None for path in (spec.m1, spec.serving) if path is not None]:
        try:
            out[path] = read(path)
        except FileNotFoundError:
            continue
    return out


def under_test(params: Params, header: Header, starts: Iterable[StartRecord]) -> UnderTest:
    """Return the program a run measured: this host's binary, and the commit that other hosts' receipts must be of."""
    engine = next((start.engine for start in starts if start.arm is Arm.SUBJECT and start.engine is not None), None)
    model = header.models.get(params.release.blessed or "", "")
    if engine is None:
        return UnderTest({}, model_sha256=model)
    return UnderTest({params.host.name: engine.binary_sha256}, commit_of(engine.version, engine.build), model)


def parity_verdict(
    params: Params, header: Header, starts: Iterable[StartRecord], documents: Mapping[str, Any]
) -> BlessedVerdict:
    """Judge the receipts a run carries, each fresh for the program it measured."""

    def read(path: str) -> object:
        if path not in documents:
            raise FileNotFoundError(path)
        return documents[path]

    return judge_release(
        params.parity,
        read,
        hosts=params.release.hosts,
        under_test=under_test(params, header, starts),
        day=header.started_utc[:10],
    )


def parity_findings(
    params: Params, header: Header, starts: Iterable[StartRecord], documents: Mapping[str, Any] | None
) -> list[GuardFinding]:
    """Return one finding per receipt of a release that names a blessed model; none where it names none.

    A red receipt makes the run RED; a missing, stale or unmeasured one leaves it UNDECIDED, since taking the receipt
    mends it. An adopt run only flags them: it claims nothing of a release.
    """
    if params.parity is None:
        return []
    verdict = parity_verdict(params, header, starts, documents or {})
    out = [
        GuardFinding(guard="parity", effect=_effect(header, cell), subject=f"{host} {kind}", text=cell.line)
        for (host, kind), cell in verdict.cells.items()
    ]
    blocks: Effect = "flag" if header.purpose is Purpose.ADOPT else "undecided"
    return out + [GuardFinding(guard="parity", effect=blocks, subject="run", text=text) for text in verdict.faults]


def _effect(header: Header, cell: ParityVerdict) -> Effect:
    if cell.word is Word.PASS:
        return "none"
    if header.purpose is Purpose.ADOPT:
        return "flag"
    return "red" if cell.word is Word.FAIL else "undecided"

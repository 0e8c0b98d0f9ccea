"""What lies beside a receipt: the run folder's files, the store's earlier attempts, and the floors it was judged by."""

from __future__ import annotations

from functools import lru_cache
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import read_json, sha256_bytes, sha256_file
from lqw.correctness import parse_reference, reference_to_json
from lqw.errors import IntegrityError, UsageError
from lqw.ratchet import parse_baseline, point_of
from lqw.receipt.compare import differences
from lqw.receipt.inputs import standing_for
from lqw.receipt.problems import Problem
from lqw.receipt.store import BASELINE, REFERENCE, receipt_name
from lqw.receipt.thirdarm import find_among
from lqw.verdict import standing_to_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from lqw.metrics import RowId
    from lqw.ratchet import Baseline
    from lqw.ratchet.baseline import Point
    from lqw.receipt.schema import Receipt
    from lqw.receipt.thirdarm import Find
    from lqw.verdict import Judgement

__all__ = ["NOTEBOOK_FOLDER", "beside_notes", "beside_problems", "held_beside", "named_previous"]

NOTEBOOK_FOLDER = "notebooks"
RUN_FILE = "run.json"  # of a run folder: names the store it was judged against


def beside_problems(path: Path, receipt: Receipt, judgement: Judgement, sha256: str) -> Iterator[Problem]:
    """Yield files beside *path* that are other than the receipt says. Absent ones are no problem here.

    Parameters
    ----------
    path : path
    receipt : Receipt
    judgement : Judgement
        Recomputed.
    sha256 : str
        Of the receipt's bytes.
    """
    folder = path.resolve().parent
    for name, wanted in sorted(receipt.artefacts.items()):
        file = _artefact(folder, name)
        if file.is_file() and (found := sha256_file(file)) != wanted:
            yield Problem(f"artefacts.{name}", wanted, f"{found} (the file beside it)", "beside")
    if (folder / BASELINE).is_file():
        yield from _name_problems(path.resolve(), receipt)
        yield from _source_problems(folder, receipt)
        yield from _point_problems(folder / BASELINE, judgement, sha256)


def beside_notes(path: Path | None, receipt: Receipt) -> Iterator[str]:
    """Yield, in words, which files whose sha256 a receipt carries could not be compared with it.

    Parameters
    ----------
    path : path or None
        The receipt's; None where only its bytes are at hand.
    receipt : Receipt
    """
    folder = None if path is None else path.resolve().parent
    absent = [name for name in sorted(receipt.artefacts) if folder is None or not _artefact(folder, name).is_file()]
    if absent:
        yield f"files of the run folder, which are not beside it: {', '.join(absent)}"
    yield "programs and GGUF files themselves: their sha256 are the host's word, the bytes are not here"
    if receipt.previous is not None and folder is not None:
        names = named_previous(receipt, {one.name for one in folder.glob("*.json")})
        if receipt.previous not in {sha256_file(folder / name) for name in names}:
            yield f"the receipt it follows ({receipt.previous[:12]}): not beside it"


def held_beside(source: Path | str | bytes) -> Find:
    """Return a search in the store of a receipt: the folder it lies in, or the one that its run folder names."""
    folder = None if isinstance(source, bytes) else _store_of(Path(source).resolve().parent)
    if folder is None:
        return lambda _release, _sha256: None
    return find_among({one.name for one in folder.glob("*.json")}, lambda name: (folder / name).read_bytes())


def _store_of(folder: Path) -> Path | None:
    if (folder / BASELINE).is_file():
        return folder
    try:
        said = read_json(folder / RUN_FILE)
        return Path(str(said["store"])) / str(said["host"])
    except (IntegrityError, KeyError, OSError, TypeError):
        return None  # neither a store nor a run's folder


def named_previous(receipt: Receipt, names: Container[str]) -> list[str]:
    """Return which of a store's file names the receipt that *receipt* follows may have: the attempts of its release."""
    references = receipt.standing.get("references") or {}
    points = [one.get(point) for one in references.values() for point in ("last", "floor")]
    releases = {point["release"] for point in points if point and point.get("receipt_sha256") == receipt.previous}
    out: list[str] = []
    for release in sorted(releases):
        try:
            kept = takewhile(names.__contains__, (receipt_name(release, at) for at in count(1)))
            out += kept
        except UsageError:
            continue  # no file can have that release's name
    return out


def _artefact(folder: Path, name: str) -> Path:
    return folder / (f"{NOTEBOOK_FOLDER}/{name}" if name.endswith(".ipynb") else name)


def _name_problems(path: Path, receipt: Receipt) -> Iterator[Problem]:
    """In a store, folder and file are named by host, version and attempt, and earlier attempts are there."""
    host, version = receipt.header.host.name, str(receipt.header.plan.get("release"))
    if path.parent.name != host:
        yield Problem("header.host.name", host, f"{path.parent.name} (the folder it lies in)", "beside")
    try:
        named = receipt_name(version, receipt.run.attempt)
        files = {one.attempt: path.parent / receipt_name(version, one.attempt) for one in receipt.run.earlier}
    except UsageError as err:
        yield Problem("header.plan.release", version, err.message, "beside")
        return
    if path.name != named:
        yield Problem("run.attempt", named, f"{path.name} (its own file name)", "beside")
    for at, earlier in enumerate(receipt.run.earlier):
        file = files[earlier.attempt]
        found = sha256_file(file) if file.is_file() else "no such file"
        if found != earlier.sha256:
            yield Problem(f"run.earlier.{at}.sha256", earlier.sha256, f"{found} ({file.name})", "beside")


def _source_problems(folder: Path, receipt: Receipt) -> Iterator[Problem]:
    """Compare standing and reference with the files they were cut from, where those are still the same files.

    After a PASS they are not: the baseline has moved on, and only its history can tell.
    """
    baseline, reference = folder / BASELINE, folder / REFERENCE
    try:
        data = baseline.read_bytes()
        if sha256_bytes(data) == receipt.sources.baseline:
            standing = standing_for(_parsed(data), receipt.header, receipt.starts)
            yield from differences(receipt.standing, standing_to_json(standing), "standing")
        data = reference.read_bytes() if reference.is_file() else b""
        if sha256_bytes(data) == receipt.sources.reference:
            yield from differences(receipt.reference, _reference(data), "reference")
    except IntegrityError as err:
        yield Problem("sources", err.message, "files that can be read", "beside")


def _point_problems(baseline: Path, judgement: Judgement, sha256: str) -> Iterator[Problem]:
    """Yield every floor, last value and session of the baseline that names this receipt and is not what it measured."""
    try:
        data = baseline.read_bytes()
        epochs = _parsed(data).epochs
    except IntegrityError as err:
        yield Problem("sources.baseline", err.message, "a baseline that can be read: restore it from git", "beside")
        return
    if sha256.encode() not in data:
        return
    results = {one.row: one for one in judgement.rows}
    wanted: dict[RowId, Point] = {}
    for row, entry in ((row, entry) for epoch in epochs for row, entry in epoch.rows.items()):
        named = (("floor", entry.floor), ("last", entry.last), ("best_ever", entry.best_ever))
        for place, point in (
            *named,
            ("floor_before", entry.floor_before),
            *(("history", one) for one in entry.history),
        ):
            if point is None or point.receipt_sha256 != sha256:
                continue
            result = results.get(row)
            if result is None or not result.d:
                yield Problem(f"{BASELINE}.{row}.{place}", str(point.value), "no value: the row has none", "beside")
                continue
            if row not in wanted:
                wanted[row] = point_of(result, release=judgement.release, receipt_sha256=sha256)
            if point == wanted[row]:
                continue  # the usual case, to the last digit
            told, must = point.model_dump(mode="json"), wanted[row].model_dump(mode="json")
            yield from (
                Problem(one.field, one.recorded, one.recomputed, "beside")
                for one in differences(told, must, f"{BASELINE}.{row}.{place}")
            )


@lru_cache(maxsize=4)
def _parsed(data: bytes) -> Baseline:
    """Return a baseline, frozen; the receipts of one store are verified one after another."""
    return parse_baseline(data)


@lru_cache(maxsize=4)
def _reference(data: bytes) -> dict[str, Any]:
    """Return what a reference file says, to be read only, as :func:`_parsed` does a baseline."""
    return reference_to_json(parse_reference(data))

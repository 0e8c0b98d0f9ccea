"""Makes the recorded cases of ``lqw selftest`` from runs: ``python -m lqw.testing.cases DEMO_FOLDER|RECEIPTS [OUT]``.

RECEIPTS is ``receipts/h200``: a real apr whose prefill was forced to one token a step, on a GPU. DEMO_FOLDER is what
``lqw demo`` leaves (``runs/demo/<stamp>``): a folder per release with its ``samples.jsonl``. The floor is adopted from
the first release's journal, by the code a gate uses; the expected rows are written by hand below, not copied from a
verdict: a fixture made from what the gate says proves nothing.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import canonical_bytes, loads_strict, read_json, write_atomic
from lqw.correctness import IdentityTask, reference_from, reference_to_json
from lqw.errors import UsageError
from lqw.journal import parse_journal, read_journal
from lqw.ratchet import adopt, baseline_to_json
from lqw.receipt import Inputs, params_of, rejudge
from lqw.receipt.inputs import epoch_of
from lqw.verdict import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EXPECTED", "from_demo", "from_receipts", "write_case"]

FLOOR = "1.0.0"
SICK_ROWS = ("ttft@128", "ttft@512", "prefill@512", "ttft_cached@512", "agg@4")
"""What ``-ub 1`` slows down: every prompt, and four streams, whose tokens no longer share a batch. Decode and memory
rows must not be named."""

SLOW_ROWS = ("ttft@850", "ttft@4096", "prefill@850", "prefill@4096")
"""What apr's own one-token prefill slows down (``APR_QWEN35_SESSION_PREFILL=per-token``): all prompts, nothing else."""

EXPECTED: dict[str, dict[str, Any]] = {
    "healthy": {"exit": 0, "outcome": "PASS", "red_rows": [], "void_rows": []},
    "one-token-prefill": {"exit": 1, "outcome": "RED", "red_rows": SICK_ROWS, "void_rows": []},
    "different-tokens": {"exit": 3, "outcome": "UNDECIDED", "red_rows": []},
    "empty": {"exit": 3, "outcome": "UNDECIDED", "red_rows": []},
    "tampered": {"exit": 4, "outcome": "INVALID"},
    "real-apr-per-token": {"exit": 1, "outcome": "RED", "red_rows": SLOW_ROWS, "void_rows": []},
}


def write_case(folder: Path, floor: bytes, journal: bytes, expected: dict[str, Any]) -> None:
    """Write one case: the journal, the floor and the tokens of *floor* (a journal too), what must come out."""
    base = parse_journal(floor, name="the floor's journal")
    params = params_of(base.header)
    judged = rejudge(Inputs(base.header, base.starts, base.identities, Standing()))
    key = epoch_of(base.header, params, base.starts)
    if key is None:
        raise UsageError(f"{folder.name}: no comparator ran in its floor", remedy="name a whole adopt run")
    moved = adopt(None, judged.judgement, key, host=params.host.name, receipt_sha256="0" * 64)
    if not moved.changed:
        said = judged.judgement.sentence
        raise UsageError(f"{folder.name}: its floor gives none: {said}", remedy="name a whole adopt run")
    reference = reference_from(base.identities, base.starts, task=IdentityTask.from_header(base.header))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "samples.jsonl").write_bytes(journal)
    write_atomic(folder / "baseline.json", canonical_bytes(baseline_to_json(moved.baseline)))
    write_atomic(folder / "reference.json", canonical_bytes(reference_to_json(reference)))
    write_atomic(folder / "expected.json", canonical_bytes(expected))


def from_demo(demo: Path, out: Path) -> list[str]:
    """Make every case from the runs of *demo*; return the names of the cases that were made.

    The folders ``1.1.0`` and ``1.2.0-one-token-prefill`` are those of ``lqw demo``; ``different-tokens``, where there
    is one, is a run of a subject whose answers differ (``lqw gate --run DEMO/different-tokens``); ``empty`` is the
    healthy journal's header alone, ``tampered`` the healthy journal without its last request.
    """
    healthy = (demo / "1.1.0" / "samples.jsonl").read_bytes()
    journals = {
        "healthy": healthy,
        "one-token-prefill": (demo / "1.2.0-one-token-prefill" / "samples.jsonl").read_bytes(),
        "empty": healthy[: healthy.index(b"\n") + 1],
        "tampered": _without_last_request(healthy),
    }
    different = demo / "different-tokens" / "samples.jsonl"
    if different.is_file():
        journals["different-tokens"] = different.read_bytes()
    params = params_of(read_journal(demo / "1.1.0" / "samples.jsonl").header)
    model = params.release.models[0].name
    for name, journal in journals.items():
        expected = {k: _rows(model, v) if k.endswith("_rows") else v for k, v in EXPECTED[name].items()}
        if name == "different-tokens":
            expected["void_rows"] = _rows(model, params.protocol.rows)
        write_case(out / name, (demo / FLOOR / "samples.jsonl").read_bytes(), journal, expected)
    return sorted(journals)


def from_receipts(folder: Path, out: Path) -> list[str]:
    """Make the case of the real apr from the receipts of ``receipts/h200``: they hold every sample of their runs."""
    floor, slow = _journal_of(folder / "0.72.3-floor.json"), _journal_of(folder / "0.72.3-per-token.json")
    name, expected = "real-apr-per-token", EXPECTED["real-apr-per-token"]
    model = params_of(parse_journal(slow).header).release.models[0].name
    rows = {k: _rows(model, v) if k.endswith("_rows") else v for k, v in expected.items()}
    write_case(out / name, floor, slow, rows)
    return [name]


def _journal_of(receipt: Path) -> bytes:
    """Return the journal a receipt was made of: its header, then its starts in the order they ran."""
    held = read_json(receipt)
    records = sorted([*held["identities"], *held["starts"]], key=lambda one: one["position"])
    return b"".join(canonical_bytes(one) + b"\n" for one in (held["header"], *records))


def _rows(model: str, shorts: Sequence[str]) -> list[str]:
    return sorted(f"{model}/{short}" for short in shorts)


def _without_last_request(journal: bytes) -> bytes:
    """Return the journal with the last request of its last start left out, as one who hides a bad number would."""
    lines = journal.splitlines()
    start = loads_strict(lines[-1])
    start["requests"] = start["requests"][:-1]
    return b"\n".join([*lines[:-1], canonical_bytes(start)]) + b"\n"


if __name__ == "__main__":
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("tests/fixtures/selftest")  # noqa: PLR2004
    given = Path(sys.argv[1])
    make = from_receipts if (given / "baseline.json").is_file() else from_demo
    print("\n".join(make(given, place)))  # noqa: T201 - a script

"""``lqw verify RECEIPT…``: judge receipts again from their samples alone; no GPU, no notebook, no engine."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.receipt import Verification

__all__ = ["plain", "verify"]

MOST = 12  # problems that are printed; all are in --json
WIDTH = 400  # characters of one line

Paths = Annotated[
    list[Path], typer.Argument(help="Receipt files. A folder or nothing at all is an error, never a pass.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
ParamsFolder = Annotated[
    Path | None,
    typer.Option("--params", help="Folder of signing.yaml and signers/; default: params/ of the receipt's repository."),
]


def verify(paths: Paths, as_json: AsJson = False, params: ParamsFolder = None) -> None:
    """Recompute each receipt's verdict from its raw samples; the exit status is that of the worst.

    0 PASS or FLOOR, 1 RED, 2 not a file, 3 UNDECIDED, 4 INVALID: something in the receipt does not follow from it.
    """
    from lqw.errors import UsageError
    from lqw.receipt.signing import verify_signed

    if not paths:
        raise UsageError("no receipt was named", remedy="lqw verify receipts/<host>/<version>.json")
    done = [(path, verify_signed(path, params)) for path in paths]
    if as_json:
        typer.echo(json.dumps([_json(path, one) for path, one in done], indent=1))
    else:
        for path, one in done:
            for line in _lines(path, one):
                typer.echo(line)
    raise typer.Exit(int(worst([one for _, one in done])))


def worst(verified: list[Verification]) -> int:
    """Return the exit status of several receipts: INVALID before RED before UNDECIDED before PASS; none is an error."""
    from lqw.errors import Exit

    order = (Exit.INVALID, Exit.RED, Exit.UNDECIDED, Exit.PASS)
    found = {one.exit_status for one in verified}
    return next((status for status in order if status in found), Exit.INTERNAL)


def plain(text: object) -> str:
    r"""Return *text* as one harmless line: control, escape and direction characters shown as ``\xNN``, ``\uNNNN``.

    A receipt may come from anybody; nothing in it may move the cursor, colour the terminal or turn the line around.
    """
    shown = "".join(
        character
        if unicodedata.category(character)[0] != "C" and character not in "\u2028\u2029"
        else _escaped(character)
        for character in str(text)[: WIDTH + 1]
    )
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _lines(path: Path, one: Verification) -> Iterator[str]:
    said = one.judgement
    yield plain(f"{path}: {one.outcome} (exit {int(one.exit_status)})")
    yield f"  {one.counts}"
    for problem in one.problems[:MOST]:
        yield plain(f"  differs: {problem}")
    if len(one.problems) > MOST:
        yield f"  and {len(one.problems) - MOST} more differences (--json lists all)"
    if said is not None:
        yield plain(f"  {'the samples alone would say: ' if one.problems else ''}{said.sentence}")
        yield plain(f"  release {one.release} on {one.host}, sha256 {one.receipt_sha256}")
    for text in one.signed_by:
        yield plain(f"  signed by {text}")
    for text in one.not_checked:
        yield plain(f"  not checked: {text}")


def _json(path: Path, one: Verification) -> dict[str, Any]:
    from lqw.verdict import judgement_to_json

    return {
        "path": str(path),
        "outcome": str(one.outcome),
        "exit_status": int(one.exit_status),
        "counts": one.counts.model_dump(),
        "problems": [
            {"field": p.field, "recorded": p.recorded, "recomputed": p.recomputed, "check": p.check}
            for p in one.problems
        ],
        "signed_by": list(one.signed_by),
        "not_checked": list(one.not_checked),
        "receipt_sha256": one.receipt_sha256,
        "judgement": None if one.judgement is None else judgement_to_json(one.judgement),
    }

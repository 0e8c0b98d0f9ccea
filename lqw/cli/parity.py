"""``lqw parity judge | serving | blessed``: exit 0 pass, 1 red, 2 environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lqw.errors import Exit
    from lqw.parity import ParityVerdict

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Parity receipts: cosine records, serving witnesses, the blessed model.")

THRESHOLDS = "params/parity/thresholds.yaml"
BLESSED = "params/parity/blessed.yaml"

Json = Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")]
Model = Annotated[str, typer.Option("--model", help="Whose receipt it must be, such as qwen3.5-9b.")]
Thresholds = Annotated[Path | None, typer.Option("--thresholds", help=f"The floors [{THRESHOLDS}].")]


def _root() -> Path:
    """Return the nearest folder upwards that holds params/parity, else that of the library's checkout."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / "params" / "parity").is_dir())
    return next(found, Path(__file__).resolve().parents[2])


def _end(lines: tuple[str, ...], form: dict[str, Any], status: Exit, *, as_json: bool) -> None:
    print(json.dumps(form, ensure_ascii=False, indent=2) if as_json else "\n".join(lines))
    raise typer.Exit(int(status))


def _named(model: str) -> str:
    from lqw.errors import UsageError

    if not model.strip():
        raise UsageError("--model is blank", remedy="name the model, such as --model qwen3.5-9b")
    return model.strip()


def _one(path: Path, kind: str, model: str) -> object | ParityVerdict:
    """Return the receipt's JSON, or the FAIL of an unreadable one."""
    from lqw.parity import ParityVerdict, Word
    from lqw.parity.files import read_receipt

    try:
        receipt = read_receipt(path)
    except FileNotFoundError:
        receipt = f"{path}: no such file"
    if isinstance(receipt, str):
        return ParityVerdict(kind, model, Word.FAIL, None, (f"unreadable: {receipt}",))
    return receipt


@app.command()
def judge(record: Path, model: Model, *, thresholds: Thresholds = None, as_json: Json = False) -> None:
    """Judge a cosine record (apr parity FILE --json, raw or in a v2 envelope)."""
    from lqw.parity import ParityVerdict, judge_record
    from lqw.parity.files import load_thresholds

    floors = load_thresholds(thresholds or _root() / THRESHOLDS)
    receipt = _one(record, "m1", _named(model))
    verdict = (
        receipt if isinstance(receipt, ParityVerdict) else judge_record(receipt, model=_named(model), thresholds=floors)
    )
    _end((verdict.line,), verdict.to_json(), verdict.exit_status, as_json=as_json)


@app.command()
def serving(witness: Path, model: Model, *, as_json: Json = False) -> None:
    """Judge a serving witness: the batch the server formed against the single stream."""
    from lqw.parity import ParityVerdict, judge_serving

    receipt = _one(witness, "serving", _named(model))
    verdict = receipt if isinstance(receipt, ParityVerdict) else judge_serving(receipt, model=_named(model))
    _end((verdict.line,), verdict.to_json(), verdict.exit_status, as_json=as_json)


@app.command()
def blessed(
    *,
    blessed_file: Annotated[Path | None, typer.Option("--blessed", help=f"The blessing [{BLESSED}].")] = None,
    thresholds: Thresholds = None,
    root: Annotated[Path | None, typer.Option(help="Where receipt paths start [the repository].")] = None,
    binary_sha256: Annotated[str | None, typer.Option(help="Only receipts of this binary count.")] = None,
    as_json: Json = False,
) -> None:
    """Judge both receipts of the blessed model on every host; a missing one is RED."""
    from lqw.parity import judge_blessed
    from lqw.parity.files import load_blessed, load_thresholds, read_receipt

    base = root or _root()
    spec = load_blessed(blessed_file or base / BLESSED)
    floors = load_thresholds(thresholds or base / THRESHOLDS)
    verdict = judge_blessed(spec, floors, lambda path: read_receipt(base / path), binary_sha256=binary_sha256)
    _end(verdict.lines, verdict.to_json(), verdict.exit_status, as_json=as_json)

"""``lqw parity judge | serving | blessed | record | witness``: exit 0 pass, 1 red, 2 environment."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lqw.cli.options import compute_named
from lqw.cli.parity_record import record
from lqw.cli.parity_shared import (
    PROMPTS,
    THRESHOLDS,
    Gguf,
    Host,
    Json,
    Model,
    Thresholds,
    end,
    floors_of,
    host_of,
    named,
    prompt_of,
    ready,
    root_of,
)

if TYPE_CHECKING:
    from lqw.parity import ParityVerdict

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Parity receipts: cosine records, serving witnesses, the blessed model.")
app.command()(record)

BLESSED = "params/parity/blessed.yaml"
MAX_STREAMS = 256


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

    floors = floors_of(thresholds)
    receipt = _one(record, "m1", named(model))
    verdict = (
        receipt if isinstance(receipt, ParityVerdict) else judge_record(receipt, model=named(model), thresholds=floors)
    )
    end((verdict.line,), verdict.to_json(), verdict.exit_status, as_json=as_json)


@app.command()
def serving(witness: Path, model: Model, *, as_json: Json = False) -> None:
    """Judge a serving witness: the batch the server formed against the single stream."""
    from lqw.parity import ParityVerdict, judge_serving

    receipt = _one(witness, "serving", named(model))
    verdict = receipt if isinstance(receipt, ParityVerdict) else judge_serving(receipt, model=named(model))
    end((verdict.line,), verdict.to_json(), verdict.exit_status, as_json=as_json)


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
    from lqw.errors import UsageError
    from lqw.parity import UnderTest, judge_blessed
    from lqw.parity.files import load_blessed, load_thresholds, reader_below
    from lqw.parity.hardware import utc_now
    from lqw.parity.verdict import is_sha256

    if binary_sha256 is not None and not is_sha256(binary_sha256):
        raise UsageError(f"--binary-sha256 {binary_sha256!r}: no sha256", remedy="64 digits: sha256sum the program")
    base = root or root_of()
    home = base if (base / "params/parity").is_dir() else root_of()
    spec = load_blessed(blessed_file or home / BLESSED)
    floors = load_thresholds(thresholds or home / THRESHOLDS)
    under_test = None if binary_sha256 is None else UnderTest(dict.fromkeys(spec.hosts, binary_sha256))
    verdict = judge_blessed(spec, floors, reader_below(base), under_test=under_test, day=utc_now()[:10])
    end(verdict.lines, verdict.to_json(), verdict.exit_status, as_json=as_json)


@app.command()
def witness(
    model: Model,
    *,
    out: Annotated[Path, typer.Option(help="Where the witness goes, such as receipts/parity/HOST/MODEL.serving.json.")],
    host: Host,
    gguf: Gguf,
    engine: Annotated[str, typer.Option(help="The adapter, such as llama_server or embedded.")] = "embedded",
    c: Annotated[str, typer.Option("--c", help="Requests at once, one band each.")] = "1,4,8,16",
    tokens: Annotated[int, typer.Option(min=16, help="Tokens of every answer.")] = 64,
    prompt: Annotated[str, typer.Option(help=f"Its name in {PROMPTS}.")] = "code",
    binary: Annotated[str | None, typer.Option(help="The engine's program, where it has one.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to start it with.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Take it of the engine that listens here; nothing is started.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="That engine's log, where its batches are told there.")] = None,
    compute: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Take a serving witness of an engine, write it, and judge it."""
    from lqw.canonical import canonical_bytes, write_atomic
    from lqw.engines.base import Prompt
    from lqw.errors import UsageError
    from lqw.params import EngineSpec
    from lqw.parity import judge_serving
    from lqw.parity.start import Wanted, attached, find_model, started
    from lqw.parity.verdict import names_model
    from lqw.parity.witness import take_witness

    bands, text, on, called = _bands(c), prompt_of(prompt), compute_named(compute), host_of(host)
    path, sha256 = find_model(gguf, Path("runs/models"))
    if not names_model(path.name, named(model)):
        raise UsageError(f"--model {model}: {path.name} is not called so", remedy="name the model as its file does")
    settings: dict[str, bool | int | float | str] = {} if threads is None else {"threads": threads}
    spec = EngineSpec(engine=engine, binary=binary, settings=settings)
    log_path = out.with_name(f".{out.name}.log")
    ready(out)
    wanted = Wanted(spec, path, max(bands), tokens + len(text.encode()), on, log_path)
    context = nullcontext(attached(engine, port, on, log, (path, sha256))) if port is not None else started(wanted)
    with context as target:
        ids = target.tokenize(text)
        form = take_witness(
            target,
            Prompt(tuple(ids), text),
            bands,
            tokens=tokens,
            host=called,
            model={"path": path.name, "sha256": sha256},
        )
    log_path.unlink(missing_ok=True)
    write_atomic(out, canonical_bytes(form))
    verdict = judge_serving(form, model=named(model))
    lines = [_band_line(band, form["reference"]["ids"]) for band in form["bands"]]
    end((*lines, verdict.line), verdict.to_json(), verdict.exit_status, as_json=as_json)


def _band_line(band: dict[str, Any], reference: list[int]) -> str:
    equal = sum(slot["ids"] == reference for slot in band["slots"])
    return f"c={band['c']} formed {band['m_formed']}: {equal} of {band['c']} answers equal the single stream's"


def _bands(c: str) -> list[int]:
    from lqw.errors import UsageError

    words = [word.strip() for word in c.split(",")]
    if not all(word.isdecimal() and word.isascii() and 0 < int(word) <= MAX_STREAMS for word in words):
        raise UsageError(f"--c {c!r}: not a list of whole numbers up to {MAX_STREAMS}", remedy="such as --c 1,4,8,16")
    return [int(word) for word in words]

"""``lqw baseline adopt | rebase | retire | apply | show``: floors are measured here, and lowered by records only."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lqw.cli.gate import Host, JsonLog, Params, Quiet, Resume, Run, Store

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The floors of a host, per epoch.")

Root = Annotated[Path, typer.Option("--store", help="The folder of receipts, one folder per host in it.")]
Evidence = Annotated[Path, typer.Option("--evidence", help="The stored receipt that shows it.")]
Reason = Annotated[Path, typer.Option("--reason", help="A text file: why; at least 200 characters.")]
Author = Annotated[str, typer.Option("--author", help="Who asks for it; as in params/signers.")]
Approver = Annotated[str, typer.Option("--approver", help="Somebody else, who agrees; as in params/signers.")]
SignersFolder = Annotated[Path | None, typer.Option("--params", help="Folder of signing.yaml and signers/.")]


@app.command()
def adopt(
    params: Params,
    *,
    host: Host = None,
    store: Store = None,
    run: Run = None,
    resume: Resume = None,
    quiet: Quiet = False,
    json_log: JsonLog = False,
) -> None:
    """Measure the floor of a release, and take its tokens as reference. Refused where the epoch has its floors."""
    from lqw.cli.gate import execute
    from lqw.outcomes import Purpose

    execute(
        Purpose.ADOPT,
        params,
        host=host,
        store=store,
        run=run,
        resume=resume,
        journal=None,
        quiet=quiet,
        json_log=json_log,
    )


@app.command()
def rebase(
    host: str,
    row: Annotated[str, typer.Argument(help="model/metric@size, as lqw baseline show prints it.")],
    *,
    evidence: Evidence,
    reason: Reason,
    author: Author,
    approver: Approver,
    expires: Annotated[str | None, typer.Option("--expires", help="Day (ISO) on which the old floor returns.")] = None,
    permanent: Annotated[bool, typer.Option("--permanent", help="It does not return.")] = False,
    store: Root = Path("receipts"),
) -> None:
    """Write the record that lowers one floor to what the evidence measured; two people sign it before it is applied."""
    from lqw.pipeline.records import write_rebase
    from lqw.receipt.store import Store as Receipts

    said = _said(reason, author, approver) | {"expires": expires, "permanent": permanent}
    _told(write_rebase(Receipts(store), host, _row(row), evidence, said))


@app.command()
def retire(
    host: str,
    rows: Annotated[list[str], typer.Argument(help="Rows that are measured no more.")],
    *,
    evidence: Evidence,
    reason: Reason,
    author: Author,
    approver: Approver,
    store: Root = Path("receipts"),
) -> None:
    """Write the record that takes rows out of the gate; their best value stays on file."""
    from lqw.pipeline.records import write_retire
    from lqw.receipt.store import Store as Receipts

    said = _said(reason, author, approver)
    _told(write_retire(Receipts(store), host, [_row(row) for row in rows], evidence, said))


@app.command("retire-host")
def retire_host(
    host: str,
    *,
    release: Annotated[str, typer.Option("--release", help="The first release that is not measured on it.")],
    evidence: Evidence,
    reason: Reason,
    author: Author,
    approver: Approver,
    store: Root = Path("receipts"),
) -> None:
    """Write the record by which a release may leave out a host of the one before; it is signed, and not applied."""
    from lqw.pipeline.records import write_retire_host
    from lqw.receipt.store import Store as Receipts

    said = _said(reason, author, approver)
    _told(write_retire_host(Receipts(store), host, release, evidence, said), then="commit it with the release")


@app.command("apply")
def applied(record: Path, *, params: SignersFolder = None) -> None:
    """Carry out a record of the store, once both signatures that its host needs lie beside it."""
    from lqw.pipeline.records import apply_record

    for line in apply_record(record, params=params):
        print(line)


@app.command()
def show(host: str, store: Root = Path("receipts")) -> None:
    """Print floors, last values and what was given up since the first floor, row by row and in total."""
    import datetime as dt

    from lqw.errors import UsageError
    from lqw.pipeline.floors import floors_tables
    from lqw.ratchet import parse_baseline
    from lqw.receipt.store import Store as Receipts

    path = Receipts(store).baseline(host)
    if not path.is_file():
        raise UsageError(f"{path}: no such file", remedy=f"lqw baseline adopt PARAMS --host {host}")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    for shown in floors_tables(parse_baseline(path.read_bytes(), name=str(path)), day=today):
        print(shown)


def _row(text: str) -> Any:
    from lqw.errors import UsageError
    from lqw.metrics import RowId

    try:
        return RowId.parse(text)
    except ValueError as err:
        raise UsageError(f"row {text!r}: {err}", remedy="write it as lqw baseline show does: model/ttft@4096") from err


def _said(reason: Path, author: str, approver: str) -> dict[str, Any]:
    import datetime as dt

    from lqw.errors import UsageError

    try:
        text = reason.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"{reason}: {err}", remedy="name a text file that holds the reason") from err
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return {"reason": text, "author": author, "approver": approver, "created": today}


def _told(place: Path, *, then: str = "") -> None:
    print(f"written: {place}; it changes nothing yet")
    print(f"  author and approver: lqw sign {place}")
    print(f"  then: {then or f'lqw baseline apply {place}'}")

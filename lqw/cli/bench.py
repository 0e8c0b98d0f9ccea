"""``lqw bench ENGINE`` (also ``lqw-bench``): one engine's rows as a table; no rival, no floor, no verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["bench", "main"]

Engine = Annotated[str | None, typer.Argument(help="embedded, llama_server, apr; none with --url.", show_default=False)]
Model = Annotated[str | None, typer.Option("--model", help="GGUF file; with --url: the server's name of the model.")]
Binary = Annotated[Path | None, typer.Option("--binary", help="The engine's program, where the adapter needs one.")]
Url = Annotated[
    str | None, typer.Option("--url", help="An OpenAI-compatible server that runs already: http://HOST:PORT")
]
Chat = Annotated[bool, typer.Option("--chat", help="With --url: /v1/chat/completions instead of /v1/completions.")]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="A file, or a name in params/protocols/; default: thirteen on a GPU, else thirteen-short."
    ),
]
Starts = Annotated[int, typer.Option("--starts", min=1, max=50, help="Fresh starts of each launch; with --url, turns.")]
Compute = Annotated[str | None, typer.Option("--compute", help="cpu or cuda; default: cuda where there is a GPU.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="The adapter's words: --set threads=2; repeatable.")]
Lock = Annotated[Path | None, typer.Option("--lock", help="The machine's lock file, held while it measures.")]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline", min=1.0, help="Seconds after which everything ends; default: the protocol's own."),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write JSON to this file (- for stdout, instead of a table).")
]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write CSV to this file.")]
Journal = Annotated[
    Path | None, typer.Option("--journal", help="Write the raw records of every start, one JSON object a line.")
]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write Markdown to this file.")]


def bench(
    engine: Engine = None,
    *,
    model: Model = None,
    binary: Binary = None,
    url: Url = None,
    chat: Chat = False,
    protocol: Protocol = None,
    starts: Starts = 1,
    compute: Compute = None,
    settings: Settings = None,
    lock: Lock = None,
    deadline: Deadline = None,
    json_file: Json = None,
    csv_file: Csv = None,
    markdown: Markdown = None,
    journal: Journal = None,
) -> None:
    """Measure one engine alone and print its rows, each with a value or the reason why it has none.

    Exit 0: every row has a value (GPU memory is not asked of a CPU). 3: some have none. 2: nothing was started. 75: the
    GPU is busy.
    """
    from lqw.cli.options import compute_named
    from lqw.errors import Exit, UsageError
    from lqw.host.lock import HostLock
    from lqw.pipeline.bench import compute_of, engine_spec, of_engine, of_server, protocol_path

    if (engine is None) == (url is None):
        raise UsageError("name an ENGINE or --url, one of them", remedy="lqw bench embedded")
    where = compute_of(engine) if compute is None else compute_named(compute)
    path = protocol_path(protocol, where)
    with HostLock(lock):
        if url is not None:
            found = of_server(url, path, model=model, chat=chat, starts=starts, progress=_progress, deadline_s=deadline)
        else:
            spec = engine_spec(str(engine), binary, settings or [])
            found = of_engine(
                spec, path, model=model, starts=starts, compute=where, progress=_progress, deadline_s=deadline
            )
    print(file=sys.stderr)
    if journal is not None:
        journal.write_text("".join(f"{record.model_dump_json()}\n" for record in found.starts))
    _show(found.body, json_file, csv_file, markdown)
    if not found.complete:
        raise typer.Exit(int(Exit.UNDECIDED))


def _progress(event: dict[str, Any]) -> None:
    words = " ".join(str(value) for name, value in event.items() if name != "event")
    print(f"\r{event['event']} {words}".ljust(60), end="", file=sys.stderr, flush=True)


def _show(body: dict[str, Any], json_file: Path | None, csv_file: Path | None, markdown: Path | None) -> None:
    import json

    from rich.console import Console
    from rich.table import Table

    from lqw.report.bench import COLUMNS, bench_cells, bench_csv, bench_markdown

    text = json.dumps(body, indent=1)
    if json_file is not None and str(json_file) == "-":
        print(text)
    else:
        table = Table(title=f"{body['engine']}\n{body['model']}\n{body['host']}", title_justify="left")
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in ("row", "beside it") else "right")
        for row in body["rows"]:
            table.add_row(*bench_cells(row))
        console = Console(highlight=False)
        console.print(table, markup=False)
        console.print(body["client"], markup=False)
        if json_file is not None:
            json_file.write_text(text + "\n")
    if csv_file is not None:
        csv_file.write_text(bench_csv(body["rows"]))
    if markdown is not None:
        markdown.write_text(bench_markdown(body))


def main() -> None:
    """Enter from the console script ``lqw-bench``."""
    from lqw.cli.app import run

    sys.exit(run(["bench", *sys.argv[1:]]))

"""``lqw selftest``: the proof that this gate can say PASS, RED and neither."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["selftest"]

Into = Annotated[Path | None, typer.Option("--into", help="Keep the judged runs here.")]
Live = Annotated[
    bool, typer.Option("--live", help="The RED case on a real apr and a real GPU, about five minutes; 2: cannot.")
]
Host = Annotated[str | None, typer.Option("--host", help="With --live: a file of params/hosts; default: found.")]
Apr = Annotated[Path | None, typer.Option("--apr", help="With --live: apr; default: as the host says, runs/engines.")]
Llama = Annotated[Path | None, typer.Option("--llama-server", help="With --live: the comparator; default likewise.")]
Model = Annotated[Path | None, typer.Option("--model", help="With --live: a GGUF; default: a synthetic 0.8B is made.")]


def selftest(
    *,
    into: Into = None,
    live: Live = False,
    host: Host = None,
    apr: Apr = None,
    llama_server: Llama = None,
    model: Model = None,
) -> None:
    """Judge recorded journals with the real notebooks: healthy, sick, different tokens, empty. Under a minute.

    With --live, measure: a real apr whose prefill is forced to one token a step must go RED, and the same apr unslowed
    must not. Exit 0: so it was. 1: it was not. 2: there is no apr, no llama-server or no GPU here, each named.
    """
    import tempfile

    from lqw.errors import Exit, UsageError
    from lqw.pipeline.selftest import cases_folder, run_cases

    if live:
        from lqw.cli.live import live as prove
        from lqw.pipeline.live_parts import Asked

        prove(Asked(host, apr, llama_server, model), into)
    if any((host, apr, llama_server, model)):
        raise UsageError("--host, --apr, --llama-server and --model belong to --live", remedy="add --live")
    with tempfile.TemporaryDirectory(prefix="lqw-selftest-") as scratch:
        results = run_cases(cases_folder(), into or Path(scratch))
    for result in results:
        state = "FAIL" if result.problems else "ok"
        print(f"{state:4}  {result.name:28} {result.seconds:5.1f} s  {result.said.split(' | ')[0]}")
        for problem in result.problems:
            print(f"        {problem}")
    bad = sum(bool(result.problems) for result in results)
    print(f"selftest: {len(results)} cases, {bad} failed")
    raise typer.Exit(int(Exit.RED if bad else Exit.PASS))

"""``lqw selftest``: the proof that this gate can say PASS, RED and neither."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["selftest"]


def selftest(
    into: Annotated[Path | None, typer.Option("--into", help="Keep the judged runs here.")] = None,
) -> None:
    """Judge recorded journals with the real notebooks: healthy, sick, different tokens, empty. Under a minute."""
    import tempfile

    from lqw.errors import Exit
    from lqw.pipeline.selftest import cases_folder, run_cases

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

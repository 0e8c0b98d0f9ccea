"""The command line of ``lqw verify``; what it does is :func:`lqw.cli.judging.judged`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["verify"]

Paths = Annotated[
    list[Path] | None, typer.Argument(help="Receipt files. A folder or nothing at all is an error, never a pass.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
ParamsFolder = Annotated[
    Path | None,
    typer.Option("--params", help="Folder of signing.yaml and signers/; default: params/ of the receipt's repository."),
]
Repo = Annotated[Path, typer.Option("--repo", help="A folder of the repository.")]
File = typer.Option(help="Write it there; - is standard output.")


def verify(
    paths: Paths = None,
    *,
    tag: Annotated[str | None, typer.Option("--tag", help="Judge a release in git: may it be tagged?")] = None,
    history: Annotated[bool, typer.Option("--history", help="Judge the store's history in git.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every receipt of the repository's store.")] = False,
    repo: Repo = Path(),
    at: Annotated[str | None, typer.Option("--at", help="With --tag: the commit to judge.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="With --history: only what came after.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="With --tag: commit whose params/ say who may sign.")
    ] = None,
    day: Annotated[str | None, typer.Option("--day", help="With --tag: ISO day for expiries; today.")] = None,
    as_json: AsJson = False,
    junit: Annotated[Path | None, File] = None,
    markdown: Annotated[Path | None, File] = None,
    link: Annotated[str, typer.Option(help="Where the comment links to.")] = "",
    github: Annotated[bool, typer.Option("--github", help="Annotations, and a summary of the step.")] = False,
    params: ParamsFolder = None,
) -> None:
    """Recompute verdicts from raw samples; the exit status is that of the worst, with --all INVALID or none.

    0 PASS or FLOOR, 1 RED, 2 nothing that can be judged was named, 3 UNDECIDED, 4 INVALID: it does not follow.
    """
    from lqw.cli.judging import judged

    raise typer.Exit(
        judged(
            paths,
            tag=tag,
            history=history,
            every=every,
            repo=repo,
            at=at,
            since=since,
            policy=policy,
            day=day,
            as_json=as_json,
            junit=junit,
            markdown=markdown,
            link=link,
            github=github,
            params=params,
        )
    )

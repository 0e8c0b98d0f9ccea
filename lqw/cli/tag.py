"""``lqw tag vX`` and ``lqw hooks install``: a release tag only after its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lqw.cli.options import today

__all__ = ["app", "tag"]

app = typer.Typer(no_args_is_help=True, help="Git hooks of this clone.")

Repo = Annotated[Path, typer.Option("--repo", help="A folder of the repository.")]
At = Annotated[str | None, typer.Option("--at", help="The commit to tag; HEAD without it.")]
Policy = Annotated[
    str | None, typer.Option("--policy", help="Commit whose params/ say who may sign; default: the judged one.")
]


def tag(
    name: Annotated[str, typer.Argument(help="Such as v0.69.4.")],
    *,
    repo: Repo = Path(),
    at: At = None,
    policy: Policy = None,
) -> None:
    """Verify the release, then make an annotated tag that names its receipts; otherwise no tag, and the verdict's exit.

    1 RED, 2 no release's name or a tag that is there, 3 UNDECIDED, 4 INVALID.
    """
    from lqw.cli.plain import plain
    from lqw.release.git import Repository
    from lqw.release.tagging import make_tag

    verdict = make_tag(Repository(repo), name, at=at, policy=policy, day=today())
    typer.echo(plain(verdict.sentence))
    for one in verdict.hosts:
        if one.verified is not None:
            typer.echo(plain(f"  {one.host}: {one.path}, sha256 {one.verified.receipt_sha256}"))
    typer.echo(f"tagged; publish it with: git push origin {name}")


@app.command()
def install(repo: Repo = Path()) -> None:
    """Write .git/hooks/pre-push, which refuses a v* tag that no verdict allows. Another hook there is left alone."""
    from lqw.release.git import Repository
    from lqw.release.tagging import install_hook

    typer.echo(f"{install_hook(Repository(repo))}: v* tags are verified before they leave this clone")


@app.command("pre-push", hidden=True)
def pre_push(
    remote: Annotated[str, typer.Argument()] = "",
    url: Annotated[str, typer.Argument()] = "",
    *,
    policy: Policy = None,
) -> None:
    """Read git's lines from standard input; exit 0 to let the push go on."""
    import sys

    from lqw.release.git import Repository
    from lqw.release.tagging import check_push

    del remote, url
    for name in check_push(Repository(), sys.stdin, policy=policy, day=today()):
        typer.echo(f"lqw: {name} verified", err=True)

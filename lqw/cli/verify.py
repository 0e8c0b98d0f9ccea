"""``lqw verify RECEIPT… | --all | --tag vX | --history``: judge again what is recorded, without GPU or engine."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.receipt import Verification
    from lqw.release.page import Page

__all__ = ["plain", "verify"]

MOST = 12  # problems that are printed; all are in --json
WIDTH = 400  # characters of one line

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
    import gc
    import os

    from lqw.errors import UsageError

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no matrix is multiplied here, and starting threads takes time
    if not every:
        gc.disable()  # what one verdict leaves behind ends with the process
    if sum([bool(paths), tag is not None, history, every]) != 1:
        raise UsageError(
            "name receipts, or one of --tag, --history, --all", remedy="lqw verify receipts/HOST/1.1.0.json"
        )
    done: list[tuple[Path, Verification]] = []
    if tag is not None:
        page = _tag(tag, repo, at, policy, day)
    elif history:
        page = _history(repo, since)
    else:
        from lqw.release.many import stored_receipts, verify_many
        from lqw.release.page import page_of_receipts

        done = verify_many(paths or stored_receipts(repo), params)
        page = page_of_receipts(done, stored=every)
    of_git = tag is not None or history
    if markdown is not None or junit is not None or github:
        _show(page, junit=junit, markdown=markdown, link=link, github=github)
    if as_json:
        typer.echo(json.dumps(_page_json(page) if of_git else [_json(*one) for one in done], indent=1))
    elif markdown != Path("-") and junit != Path("-"):
        for line in _page_lines(page) if of_git else _all_lines(done):
            typer.echo(line)
        if every:
            typer.echo(plain(page.sentence))
    raise typer.Exit(int(page.exit_status))


def _tag(name: str, repo: Path, at: str | None, policy: str | None, day: str | None) -> Page:
    import datetime as dt

    from lqw.cli.tag import today
    from lqw.errors import UsageError
    from lqw.release.git import Repository
    from lqw.release.page import page_of_tag
    from lqw.release.tag import verify_tag

    try:
        when = today() if day is None else dt.date.fromisoformat(day).isoformat()
    except ValueError as err:
        raise UsageError(f"--day {day}: {err}", remedy="such as 2026-12-02") from err
    return page_of_tag(verify_tag(Repository(repo), name, at=at, policy=policy, day=when))


def _history(repo: Path, since: str | None) -> Page:
    from lqw.release.git import Repository
    from lqw.release.history import verify_history
    from lqw.release.page import page_of_history

    return page_of_history(verify_history(Repository(repo), since=since))


def _page_json(page: Page) -> dict[str, Any]:
    from lqw.release.page import page_to_json

    return page_to_json(page)


def _page_lines(page: Page) -> Iterator[str]:
    from lqw.release.page import text_lines

    return (plain(line) for line in text_lines(page))


def _show(page: Page, *, junit: Path | None, markdown: Path | None, link: str, github: bool) -> None:
    import os

    from lqw.report.ci import comment_md, github_commands, page_junit

    text = comment_md(page, link=link or (_run_link() if github else ""))
    if markdown is not None:
        _write(markdown, text)
    if junit is not None:
        _write(junit, page_junit(page))
    if github:
        for line in github_commands(page):
            typer.echo(line)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as out:
                out.write(text)


def _run_link() -> str:
    import os

    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""


def _write(path: Path, text: str) -> None:
    from lqw.canonical import write_atomic
    from lqw.errors import UsageError

    if path == Path("-"):
        typer.echo(text, nl=False)
        return
    try:
        write_atomic(path, text.encode())
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}", remedy="name a file that can be written") from err


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


def _all_lines(done: list[tuple[Path, Verification]]) -> Iterator[str]:
    for path, one in done:
        yield from _lines(path, one)


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

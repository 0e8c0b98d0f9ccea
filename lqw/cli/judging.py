"""``lqw verify RECEIPT… | --all | --tag vX | --history``: judge again what is recorded, without GPU or engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.cli.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lqw.receipt import Verification
    from lqw.release.page import Page

__all__ = ["judged"]

MOST = 12  # problems that are printed; all are in --json


def judged(
    paths: list[Path] | None = None,
    *,
    tag: str | None = None,
    history: bool = False,
    every: bool = False,
    repo: Path = Path(),
    at: str | None = None,
    since: str | None = None,
    policy: str | None = None,
    day: str | None = None,
    as_json: bool = False,
    junit: Path | None = None,
    markdown: Path | None = None,
    link: str = "",
    github: bool = False,
    params: Path | None = None,
) -> int:
    """Judge, print what was found, and return the exit status; the options are those of :mod:`lqw.cli.verify`.

    Raises
    ------
    UsageError
        Not one thing to judge was named, or it is not there.
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
        print(json.dumps(_page_json(page) if of_git else [_json(*one) for one in done], indent=1))
    elif markdown != Path("-") and junit != Path("-"):
        for line in _page_lines(page) if of_git else _all_lines(done):
            print(line)
        if every:
            print(plain(page.sentence))
    return int(page.exit_status)


def _tag(name: str, repo: Path, at: str | None, policy: str | None, day: str | None) -> Page:
    import datetime as dt

    from lqw.cli.options import today
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
            print(line)
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
        print(text, end="")
        return
    try:
        write_atomic(path, text.encode())
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}", remedy="name a file that can be written") from err


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

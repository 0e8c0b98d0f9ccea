"""Where a file of a repository may lie: in it, and not behind a link that leads out of it."""

from __future__ import annotations

from pathlib import Path

from lqw.errors import IntegrityError

__all__ = ["refuse_escape", "repository_of"]


def repository_of(path: Path | str) -> Path | None:
    """Return the root of the git work tree that a path lies in, by name and not by where links lead, or None."""
    place = _absolute(Path(path))
    return next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), None)


def refuse_escape(path: Path | str, root: Path | str | None = None) -> None:
    """Raise IntegrityError where a file that lies in *root* is really outside of it.

    Parameters
    ----------
    path : path
        A file that may not be there yet.
    root : path, optional
        Default: the git work tree around the path; outside of one there is nothing to escape from.
    """
    base = repository_of(path) if root is None else Path(root)
    if base is None:
        return
    real, inside = Path(path).resolve(), base.resolve()
    if not real.is_relative_to(inside):
        raise IntegrityError(
            f"{path}: a link leads out of {base} (to {real}); what is committed is the link, not the file",
            remedy="commit the file itself",
        )


def _absolute(path: Path) -> Path:
    """Return an absolute path with ``..`` taken away by name: links are not followed."""
    parts: list[str] = []
    for part in (path if path.is_absolute() else Path.cwd() / path).parts:
        if part == "..":
            parts[1:] = parts[1:-1]
        else:
            parts.append(part)
    return Path(*parts)

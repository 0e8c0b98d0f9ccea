"""The proof that a notebook really ran: from the executed notebook, cell by cell, and from its artefact.

papermill's return value is not one: a kernel that dies in the last cell leaves a notebook marked "completed", and
``sys.exit(0)`` in a cell ends it early with status 0 (PITFALLS 51, 52).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lqw.canonical import loads_strict, read_json, sha256_file
from lqw.errors import Exit, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EXPECTED_END", "artefact_problems", "end_of", "notebook_problems"]

EXPECTED_END: dict[str, Exit] = {
    "RatchetRed": Exit.RED,
    "Undecided": Exit.UNDECIDED,
    "NothingMeasured": Exit.UNDECIDED,
    "IntegrityError": Exit.INVALID,
}
"""Errors the last cell of 40_verdict may end in, and the exit status each one claims."""

_PAPERMILL_MARKERS = "papermill-error-cell-tag"
_INJECTED = "injected-parameters"


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells, without those papermill adds to mark an error."""
    return [
        cell
        for cell in notebook.get("cells", [])
        if cell.get("cell_type") == "code" and _PAPERMILL_MARKERS not in cell.get("metadata", {}).get("tags", [])
    ]


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _errors(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for output in cell.get("outputs", []) if output.get("output_type") == "error"]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = loads_strict(path.read_bytes(), name=path.name)
    except (OSError, IntegrityError):
        return None
    return value if isinstance(value, dict) else None


def end_of(executed: Path) -> tuple[str, str] | None:
    """Return name and text of the error the last code cell ended in, or None."""
    cells = _cells(_read(executed) or {})
    errors = _errors(cells[-1]) if cells else []
    return (str(errors[-1].get("ename", "")), str(errors[-1].get("evalue", ""))) if errors else None


def notebook_problems(source: Path, executed: Path, *, may_raise: Sequence[str] = ()) -> list[str]:
    """Return everything that speaks against *executed* being a whole run of *source*; empty means proven.

    Parameters
    ----------
    source : Path
        The committed notebook.
    executed : Path
        What papermill left.
    may_raise : sequence of str
        Names of the errors that the last code cell may end in; everything before it must be clean.
    """
    name = source.stem
    notebook, original = _read(executed), _read(source)
    if notebook is None or original is None:
        return [f"{name}: {'executed notebook' if notebook is None else 'notebook'} is missing or unreadable"]
    cells = _cells(notebook)
    if not cells:
        return [f"{name}: no code cell"]
    problems = _source_problems(name, _cells(original), cells)
    for number, cell in enumerate(cells, start=1):
        last = number == len(cells)
        problems += _cell_problems(f"{name} cell {number}", cell, number, may_raise if last else ())
    ended = notebook.get("metadata", {}).get("papermill", {})
    if not ended.get("end_time"):
        problems.append(f"{name}: papermill recorded no end")
    if ended.get("exception") and not _errors(cells[-1]):
        problems.append(f"{name}: papermill recorded an exception that no cell shows")
    return problems


def _source_problems(name: str, original: list[dict[str, Any]], cells: list[dict[str, Any]]) -> list[str]:
    ran = [_source(cell) for cell in cells if _INJECTED not in cell.get("metadata", {}).get("tags", [])]
    if ran != [_source(cell) for cell in original]:
        return [f"{name}: what ran is not the committed notebook"]
    return []


def _cell_problems(where: str, cell: dict[str, Any], number: int, may_raise: Sequence[str]) -> list[str]:
    problems = []
    if cell.get("execution_count") != number:
        problems.append(f"{where}: execution count {cell.get('execution_count')}, not {number}")
    errors = _errors(cell)
    unexpected = [error for error in errors if error.get("ename") not in may_raise]
    problems += [f"{where}: {error.get('ename')}: {str(error.get('evalue'))[:300]}" for error in unexpected]
    record = cell.get("metadata", {}).get("papermill", {})
    wanted = "failed" if errors and not unexpected else "completed"
    if record.get("status") != wanted or not record.get("end_time"):
        problems.append(f"{where}: status {record.get('status')!r}, not {wanted!r}")
    elif bool(record.get("exception")) != bool(errors):
        problems.append(f"{where}: papermill recorded exception {record.get('exception')!r}")
    return problems


def artefact_problems(path: Path, *, schema: str, run_id: str, folder: Path) -> list[str]:
    """Return what is wrong with an artefact: schema, run id, or inputs that are no longer what it was made from."""
    try:
        body = read_json(path)
    except IntegrityError as err:
        return [str(err.message)]
    if not isinstance(body, dict):
        return [f"{path.name}: not an object"]
    problems = []
    if body.get("schema") != schema:
        problems.append(f"{path.name}: schema {body.get('schema')!r}, not {schema!r}")
    if body.get("run_id") != run_id:
        problems.append(f"{path.name}: of run {body.get('run_id')!r}, not {run_id!r}")
    inputs = body.get("inputs")
    if not isinstance(inputs, dict) or not inputs:
        return [*problems, f"{path.name}: names no inputs"]
    for name, recorded in inputs.items():
        input_path = folder / str(name)
        if Path(str(name)).name != name or not input_path.is_file():
            problems.append(f"{path.name}: input {name!r} is not in the run folder")
        elif sha256_file(input_path) != recorded:
            problems.append(f"{path.name}: input {name} has changed since")
    return problems

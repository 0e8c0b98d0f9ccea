"""One engine's rows as a table: for a terminal, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from lqw.report.words import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["COLUMNS", "bench_cells", "bench_csv", "bench_markdown"]

COLUMNS = ("row", "value", "between starts", "starts", "beside it")


def bench_cells(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Return the cells of one row of the JSON form; a row without a value has its reason instead."""
    failure, sd = row["failure"], row["sd_fraction"]
    shown = value(row["value"], row["unit"]) if failure is None else str(failure["reason"])
    spread = "–" if sd is None else f"± {sd:.1%}"
    beside = [] if failure is None else [str(failure["detail"])]
    if (server := row.get("server_prompt_ms")) is not None:
        beside.append(f"the server's own prompt time {value(server, 'ms')}")
    if (whole := row.get("whole_batch_tok_s")) is not None:
        beside.append(f"whole batch {value(whole, 'tok/s')}")
    beside += row.get("flags", ())
    return str(row["row"]), shown, spread, str(row["starts"]), "; ".join(beside)


def bench_markdown(body: Mapping[str, Any]) -> str:
    """Return the table with a line of facts above it."""
    lines = [f"**{body['engine']}** · {body['model']} · {body['host']}", ""]
    lines += [f"| {' | '.join(COLUMNS)} |", "|---|---:|---:|---:|---|"]
    for row in body["rows"]:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in bench_cells(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", str(body["client"]), ""])


def bench_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV: numbers bare, in the unit beside them; no value is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "value", "unit", "sd_fraction", "starts", "reason", "detail"])
    for row in rows:
        why = row["failure"] or {"reason": "", "detail": ""}
        cells = [row["row"], row["value"], row["unit"], row["sd_fraction"], row["starts"], why["reason"], why["detail"]]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return out.getvalue()

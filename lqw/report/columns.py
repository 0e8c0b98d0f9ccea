"""Rows × engines, from receipts: ``python -m lqw.report.columns RECEIPT…`` prints a Markdown table for each model.

The comparator's values are those of the first receipt; each receipt adds its subject with ratio and paired SD, then the
engines beside that it declares. Ratios are subject over comparator in the row's own unit: above 1× is slower for a
latency, faster for a rate. What has no number has its reason.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lqw.errors import UsageError
from lqw.metrics.digits import percent
from lqw.report import words
from lqw.report.beside import beside_tables
from lqw.report.gather import gather_receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.report.facts import Facts
    from lqw.verdict.results import RowResult

__all__ = ["columns_md"]


def columns_md(receipts: Sequence[Path]) -> str:
    """Return the tables of these receipts.

    Raises
    ------
    UsageError
        None was given, or one does not verify.
    """
    facts = [gather_receipt(path) for path in receipts]
    broken = [str(path) for path, one in zip(receipts, facts, strict=True) if one.judgement is None or one.problems]
    if broken or not facts:
        said = ", ".join(broken) or "no receipt"
        raise UsageError(f"{said}: nothing to take numbers from", remedy="name receipts that lqw verify accepts")
    models = dict.fromkeys(model for one in facts for model in one.models)
    return "\n\n".join("\n".join(_table(model, facts)) for model in models) + "\n"


def _table(model: str, facts: Sequence[Facts]) -> list[str]:
    heads, columns = [model, "comparator"], [_comparator(model, facts)]
    for one in facts:
        heads += [one.release, "ratio", "SD of pairs"]
        columns += _subject(model, one)
        for table in (found for found in beside_tables(one) if found.model == model):
            for at, name in enumerate(table.heads[3:], 3):
                heads.append(f"{name} (beside)")
                columns.append({cells[0]: cells[at] for cells in table.cells})
    rows = dict.fromkeys(row.short for one in facts for row in one.planned if row.model == model)
    lines = [[short, *(column.get(short, "–") for column in columns)] for short in rows]
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)]


def _of(model: str, facts: Facts) -> list[RowResult]:
    return [row for row in facts.rows if row.row.model == model]


def _comparator(model: str, facts: Sequence[Facts]) -> dict[str, str]:
    out: dict[str, str] = {}
    for one in facts:
        for row in _of(model, one):
            if row.comparator is not None:
                out.setdefault(row.row.short, words.value(row.comparator, row.row.kind.unit))
    return out


def _subject(model: str, facts: Facts) -> list[dict[str, str]]:
    values: dict[str, str] = {}
    ratios: dict[str, str] = {}
    spreads: dict[str, str] = {}
    for row in _of(model, facts):
        short = row.row.short
        values[short] = words.value(row.subject, row.row.kind.unit) if row.subject is not None else str(row.verdict)
        if row.d:
            ratios[short] = words.ratio(math.exp(row.row.kind.sign * statistics.fmean(row.d)))
        if len(row.d) > 1:
            spreads[short] = percent(statistics.stdev(row.d))
    return [values, ratios, spreads]


if __name__ == "__main__":
    sys.stdout.write(columns_md([Path(word) for word in sys.argv[1:]]))

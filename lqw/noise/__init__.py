"""Noise: pairs, pooled and shrunk variance, sequential boundaries, and the registry of methods (STATISTICS §1–3)."""

from lqw.noise.band import band_table
from lqw.noise.boundaries import pass_boundaries, red_boundaries
from lqw.noise.methods import METHODS
from lqw.noise.pairs import complete_pairs, pair_rows
from lqw.noise.rows import Call, Reference, Row, RowBand, RowData, RowReferences, Spread, json_form

__all__ = [
    "METHODS",
    "Call",
    "Reference",
    "Row",
    "RowBand",
    "RowData",
    "RowReferences",
    "Spread",
    "band_table",
    "complete_pairs",
    "json_form",
    "pair_rows",
    "pass_boundaries",
    "red_boundaries",
]

"""Noise: pairs, pooled and shrunk variance, sequential boundaries, and the registry of methods (STATISTICS §1–3)."""

from lqw.noise.rows import Call, Reference, Row, RowBand, RowData, RowReferences, Spread, json_form

__all__ = ["Call", "Reference", "Row", "RowBand", "RowData", "RowReferences", "Spread", "json_form"]

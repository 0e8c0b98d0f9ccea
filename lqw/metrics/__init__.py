"""Metrics: what a row is (:mod:`.registry`) and how its value follows from raw stamps (:mod:`.values`)."""

from lqw.metrics.registry import METRICS, Family, Metric, RowId

__all__ = ["METRICS", "Family", "Metric", "RowId"]

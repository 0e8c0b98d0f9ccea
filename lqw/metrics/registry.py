"""The metrics of MEASUREMENT, their families, units and orientation. A new metric is one entry here and its formula."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = ["METRICS", "Combine", "Family", "Metric", "RowId"]


class Family(StrEnum):
    """Rows whose variances are shrunk together (STATISTICS §2)."""

    RATE = "rate"
    LATENCY = "latency"
    MEMORY = "memory"


class Combine(StrEnum):
    """How the requests of one start become the start's one value."""

    GEOMEAN = "geomean"
    MEDIAN = "median"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Metric:
    """One kind of row.

    ``sign`` is +1 where larger is better and −1 where smaller is better; it is applied once, when log
    ratios are formed, and nowhere else. ``step`` is the kind of workload step the value is taken from.
    ``sized`` says whether the row id carries ``@N`` (prompt tokens or streams).
    """

    name: str
    family: Family
    sign: int
    unit: str
    step: str
    sized: bool
    title: str

    @property
    def combine(self) -> Combine:
        """Return the rule of STATISTICS §1 for this family."""
        return {
            Family.RATE: Combine.GEOMEAN,
            Family.LATENCY: Combine.MEDIAN,
            Family.MEMORY: Combine.MAX,
        }[self.family]


METRICS: MappingProxyType[str, Metric] = MappingProxyType(
    {
        m.name: m
        for m in (
            Metric("ttft", Family.LATENCY, -1, "ms", "cold", True, "Time to first token, cold prompt"),
            Metric("prefill", Family.RATE, +1, "tok/s", "cold", True, "Prefill rate"),
            Metric("decode", Family.RATE, +1, "tok/s", "decode", False, "Decode rate, one stream"),
            Metric("agg", Family.RATE, +1, "tok/s", "agg", True, "Aggregate decode rate over parallel streams"),
            Metric("agg_whole", Family.RATE, +1, "tok/s", "agg", True, "Aggregate rate, first request to last token"),
            Metric("ttft_cached", Family.LATENCY, -1, "ms", "cached", True, "Time to first token, cached prefix"),
            Metric("vram_peak", Family.MEMORY, -1, "bytes", "memory", False, "Peak GPU memory"),
            Metric("rss_peak", Family.MEMORY, -1, "bytes", "memory", False, "Peak host memory (RssAnon)"),
        )
    }
)


@dataclass(frozen=True, slots=True, order=True)
class RowId:
    """``model/metric@size``: the name of a row everywhere."""

    model: str
    metric: str
    size: int | None = None

    def __str__(self) -> str:
        """Return the id as it stands in every artefact."""
        return f"{self.model}/{self.short}"

    @property
    def short(self) -> str:
        """Return the id without its model: ``ttft@512``."""
        return self.metric if self.size is None else f"{self.metric}@{self.size}"

    @property
    def kind(self) -> Metric:
        """Return the registry entry."""
        return METRICS[self.metric]

    @property
    def step_id(self) -> str:
        """Return the workload step that the row is taken from, as protocols and samples name it: ``cold@512``."""
        return self.kind.step if self.size is None else f"{self.kind.step}@{self.size}"

    @classmethod
    def parse(cls, text: str) -> RowId:
        """Parse ``model/metric@size``; ValueError says what is wrong."""
        model, slash, short = text.rpartition("/")
        if not slash or not model:
            raise ValueError(f"row id {text!r} is not model/metric[@size]")
        name, at, size = short.partition("@")
        metric = METRICS.get(name)
        if metric is None:
            raise ValueError(f"unknown metric {name!r}; known: {', '.join(METRICS)}")
        if metric.sized != bool(at) or (at and not (size.isdecimal() and size.isascii() and int(size) > 0)):
            wanted = f"{name}@N with N a positive whole number" if metric.sized else f"{name} without @"
            raise ValueError(f"row {short!r}: write {wanted}")
        return cls(model, name, int(size) if at else None)

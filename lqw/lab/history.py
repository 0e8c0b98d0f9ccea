"""What the lab looks back on: past releases as pairs and references, stacked so that a method judges all at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.errors import UsageError
from lqw.noise.batch import Batch, batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lqw.metrics import RowId
    from lqw.noise.rows import Call, RowData, RowReferences
    from lqw.plan import Policy

__all__ = ["Group", "History", "Release"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Release:
    """One judged release.

    Attributes
    ----------
    name, host : str
    rows : tuple of RowData
        Measured rows that were not void, every pair of each.
    references : mapping of RowId to RowReferences
        What the release was judged against *then*; another method is asked the same question, with the same floors.
    folded : mapping of RowId to float
        ln T of rows whose target a released version had met.
    policy : Policy
        Of the recorded decision.
    planned : int
        Rows of the manifest: the level is shared among them.
    pairs : mapping of str to int
        Complete pairs measured, per model.
    pair_minutes : mapping of str to float
        What one pair of the model took.
    recorded : mapping of RowId to Call
        What the gate said of each row; empty where it said nothing.
    slower : frozenset of RowId or None
        Rows that are known to be slower than their floor, because they were made so; None where nobody knows.
    """

    name: str
    host: str
    rows: tuple[RowData, ...]
    references: Mapping[RowId, RowReferences]
    folded: Mapping[RowId, float]
    policy: Policy
    planned: int
    pairs: Mapping[str, int]
    pair_minutes: Mapping[str, float]
    recorded: Mapping[RowId, Call]
    slower: frozenset[RowId] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Releases that measured the same rows, as one batch with a leading axis of releases.

    ``index`` is each one's place in the history, ``models`` the model number of every row, ``available`` the complete
    pairs, shape (releases, models).
    """

    index: tuple[int, ...]
    rows: tuple[RowId, ...]
    planned: int
    batch: Batch
    models: NDArray[np.int64]
    model_names: tuple[str, ...]
    available: Floats


@dataclass(frozen=True)
class History:
    """Releases, oldest first. ``synthetic`` says that no engine ever ran for them; it is shown wherever they are."""

    releases: tuple[Release, ...]
    source: str
    synthetic: bool

    def __post_init__(self) -> None:
        """Refuse an empty history: an analyst must not look at nothing and see no flips."""
        if not any(release.rows for release in self.releases):
            raise UsageError(f"{self.source}: no measured row in it", remedy="name receipts of gate runs")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Return the releases stacked by equal rows: shrinkage is over exactly the rows a release measured."""
        places: dict[tuple[tuple[RowId, ...], int], list[int]] = {}
        for at, release in enumerate(self.releases):
            if release.rows:
                places.setdefault((tuple(row.row for row in release.rows), release.planned), []).append(at)
        return tuple(self._group(index, rows, planned) for (rows, planned), index in places.items())

    def _group(self, index: Sequence[int], rows: tuple[RowId, ...], planned: int) -> Group:
        releases = [self.releases[at] for at in index]
        names = tuple(dict.fromkeys(row.model for row in rows))
        return Group(
            index=tuple(index),
            rows=rows,
            planned=planned,
            batch=_stacked([batch_of(one.rows, one.references, one.folded) for one in releases]),
            models=np.array([names.index(row.model) for row in rows]),
            model_names=names,
            available=np.array([[one.pairs.get(name, 0) for name in names] for one in releases], dtype=float),
        )


_FILL = {"session_ss": 0.0, "session_df": 0.0}


def _stacked(batches: Sequence[Batch]) -> Batch:
    """Stack batches of equal rows; what is shorter is padded as :class:`Batch` wants it."""
    arrays = {}
    for field in fields(Batch):
        if field.name == "wanted":  # rows of interest to a simulation; a history wants all
            continue
        parts = [np.asarray(getattr(batch, field.name)) for batch in batches]
        if field.name == "family":
            arrays[field.name] = parts[0]
            continue
        shape = np.max([part.shape for part in parts], axis=0)
        whole = np.full((len(parts), *shape), _FILL.get(field.name, np.nan))
        for at, part in enumerate(parts):
            whole[at][tuple(slice(size) for size in part.shape)] = part
        arrays[field.name] = whole
    return Batch(**arrays)

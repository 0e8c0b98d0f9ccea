"""The bundled history: forty releases of five models made of numbers from a seed. No engine ran; every view says so.

It is made, not stored. Rows are those of a GPU host, noise that of workloads long enough for three pairs to suffice
most of the time; what was planted in it is known, so that a method can be held against the truth.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from lqw.lab.compare import judge_history
from lqw.lab.history import History, Release
from lqw.metrics import RowId
from lqw.noise.methods import METHODS
from lqw.noise.rows import Call, Reference, RowData, RowReferences, Spread
from lqw.plan import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["PAIR_SD", "PLANTED", "POLICY", "synthetic_history"]

MODELS = ("0.8b", "2b", "4b", "9b", "27b")
PAIR_SD: Mapping[str, float] = MappingProxyType(
    {
        "ttft@850": 0.02, "ttft@4096": 0.015, "ttft@32768": 0.004, "prefill@850": 0.02, "prefill@4096": 0.015,
        "prefill@32768": 0.004, "decode": 0.015, "agg@1": 0.015, "agg@4": 0.022, "agg@16": 0.018,
        "ttft_cached@4096": 0.026, "vram_peak": 0.001, "rss_peak": 0.003,
    }
)  # fmt: skip
"""Standard deviation of one pair's log ratio, per row; small models scatter twice as much as the largest."""

MODEL_FACTOR = (1.6, 1.3, 1.1, 1.0, 0.8)
PAIR_MINUTES = (1.2, 1.4, 1.8, 2.2, 4.0)
SESSION_SD = 0.003

PLANTED: Mapping[int, Mapping[str, float]] = MappingProxyType(
    {
        11: {"9b/ttft@4096": -0.12, "9b/prefill@4096": -0.12},  # a tenth slower, one model
        18: {"2b/decode": -0.05},  # half of the margin: a method may say either
        24: {"27b/agg@16": -0.30},
        30: {"4b/ttft_cached@4096": -0.15},  # a loss in the loudest row
        35: {"0.8b/decode": 0.20},  # a gain
    }
)
"""What is wrong, or better, in the release of that number: log ratios. All other releases equal the floor."""

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")


def synthetic_history(releases: int = 40, *, seed: int = 20) -> History:
    """Return the history; equal arguments give equal numbers on any machine.

    Parameters
    ----------
    releases : int
        How many were gated, after one floor.
    seed : int
        Of everything random in it.
    """
    rng = np.random.default_rng(seed)
    rows = [RowId.parse(f"{model}/{short}") for model in MODELS for short in PAIR_SD]
    sd = np.array([PAIR_SD[row.short] * MODEL_FACTOR[MODELS.index(row.model)] for row in rows])
    level = rng.normal(-0.05, 0.2, len(rows))
    floor = _session(rng, level, sd, POLICY.floor_pairs)
    floors = {row: _reference(floor[i], "1.0", "floor") for i, row in enumerate(rows)}
    last: dict[RowId, Reference] = {}
    spreads: list[list[Spread]] = [[] for _ in rows]
    out = []
    for number in range(1, releases + 1):
        planted = PLANTED.get(number, {})
        d = _session(rng, level + np.array([planted.get(str(row), 0.0) for row in rows]), sd, POLICY.looks[-1])
        name = f"1.{number}"
        references = {
            row: RowReferences(floor=floors[row], last=last.get(row), history=tuple(spreads[i][-6:]))
            for i, row in enumerate(rows)
        }
        out.append(_release(name, rows, d, references, planted))
        if not planted:
            last = {row: _reference(d[i, : POLICY.looks[0]], name, name) for i, row in enumerate(rows)}
            for i, row in enumerate(rows):
                spreads[i].append(Spread(ss=last[row].ss, df=last[row].df, release=name))
    bare = History(tuple(out), f"synthetic history, seed {seed}", synthetic=True)
    judged = judge_history(bare, METHODS[POLICY.method], POLICY)
    recorded = [{row: said.call for row, said in one.rows.items()} for one in judged if one is not None]
    return replace(bare, releases=tuple(map(_with_record, out, recorded)))


def _with_record(release: Release, recorded: dict[RowId, Call]) -> Release:
    return replace(release, recorded=recorded)


def _session(rng: np.random.Generator, level: Floats, sd: Floats, pairs: int) -> Floats:
    shifted = level + rng.normal(0.0, SESSION_SD, level.shape) * (sd > SESSION_SD)
    return np.asarray(shifted[:, None] + rng.normal(0.0, 1.0, (len(level), pairs)) * sd[:, None])


def _reference(d: Floats, release: str, receipt: str) -> Reference:
    mean = float(d.mean())
    return Reference(
        value=mean,
        n=len(d),
        ss=float(((d - mean) ** 2).sum()),
        df=len(d) - 1,
        release=release,
        receipt_sha256=receipt,
        d=tuple(d.tolist()),
    )


def _release(
    name: str, rows: list[RowId], d: Floats, references: dict[RowId, RowReferences], planted: Mapping[str, float]
) -> Release:
    pairs = int(d.shape[1])
    ones = (1.0,) * pairs
    data = tuple(
        RowData(row, tuple(range(1, pairs + 1)), tuple(d[i].tolist()), ones, ones) for i, row in enumerate(rows)
    )
    return Release(
        name=name,
        host="synthetic",
        rows=data,
        references=references,
        folded={},
        policy=POLICY,
        planned=len(rows),
        pairs=dict.fromkeys(MODELS, pairs),
        pair_minutes=dict(zip(MODELS, PAIR_MINUTES, strict=True)),
        recorded={},
        slower=frozenset(RowId.parse(row) for row, effect in planted.items() if effect < 0),
    )

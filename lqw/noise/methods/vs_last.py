"""Against the last release only: gate-v1's test, with L for a reference and the whole level on it.

What a gate without an anchored floor does. Each release may lose a little more than the one before: a drift of −2 % a
release passes nearly for ever (STATISTICS §3). A row without a last release is compared with its floor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.methods import gate_v1

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["decide"]


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row against the last release; see :data:`lqw.noise.methods.Method`."""
    first = np.isnan(batch.last)
    none = np.full_like(batch.last, np.nan)
    one = replace(
        batch,
        floor=np.where(first, batch.floor, batch.last),
        n_floor=np.where(first, batch.n_floor, batch.n_last),
        last=none,
        n_last=np.full_like(batch.n_last, np.nan),
    )
    out = gate_v1.decide(one, policy, look=look, m=m)
    return replace(
        out,
        se_last=np.where(first, np.nan, out.se_floor),
        t_last=np.where(first, np.nan, out.t_red),
        threshold_last=np.where(first, np.nan, out.threshold),
        red_floor=out.red_floor & first,
        red_last=out.red_floor & ~first,
        passed=out.passed & ~np.isnan(batch.floor),
    )

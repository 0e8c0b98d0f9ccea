"""Fixed band: RED below F − ln(1/(1−w)), whatever the noise. One look decides.

What most gates do. It knows nothing of a row's noise: narrow enough to catch a loss it cries wolf (5 %: a false RED in
half of all releases), wide enough to keep quiet it misses (STATISTICS §2).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.methods import gate_v1

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["decide", "five_percent", "ten_percent"]


def decide(batch: Batch, policy: Policy, *, look: int, m: int, width: float) -> Bands:
    """Judge by a band of *width* (a fraction); noise fields are gate-v1's, for the reader, and decide nothing."""
    noise = gate_v1.decide(batch, policy, look=look, m=m)
    delta, delta_last = noise.estimate - batch.floor, noise.estimate - batch.last
    threshold = np.full_like(noise.threshold, np.log1p(-width))
    red_floor, red_last = delta < threshold, delta_last < threshold
    return replace(
        noise,
        threshold=threshold,
        threshold_last=threshold,
        lower=delta,
        red_floor=red_floor,
        red_last=red_last,
        passed=~red_floor & ~red_last & ~np.isnan(batch.floor),
    )


five_percent = partial(decide, width=0.05)
ten_percent = partial(decide, width=0.10)

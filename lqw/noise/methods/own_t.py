"""Own-row t: the plain two-sample t of a textbook, with the variance that this run's pairs of this row show alone.

``t = (D − F) / (s·sqrt(1/n + 1/n_F))``, ν = n − 1, no pooling, no shrinkage, no session term; the looks and levels are
gate-v1's. At three pairs two degrees of freedom ask for a t of 113: almost nothing is ever RED (STATISTICS §2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lqw.noise.methods.gate_v1 import Noise, student

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["decide"]


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row by its own scatter; see :data:`lqw.noise.methods.Method`."""
    estimate = np.nansum(batch.d, axis=-1) / batch.n
    v = np.broadcast_to(np.maximum(batch.n - 1, 1), estimate.shape)
    s2 = np.nansum((batch.d - estimate[..., None]) ** 2, axis=-1) / v
    noise = Noise(estimate, s2, v, np.sqrt(s2), v)
    return student(batch, replace(policy, tau=0.0), noise, look=look, m=m)

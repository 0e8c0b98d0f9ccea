"""Registry of methods: how a row is called RED, PASS or OPEN. A new one is one module here and one line below.

Every method has the signature of :data:`Method`: arrays in, :class:`lqw.noise.batch.Bands` out, for one release or for
thousands of simulated ones at once. The gate uses ``gate-v1``; the others exist to be compared with it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from lqw.errors import UsageError
from lqw.noise.methods import bayes, bca, fixed_band, gate_v1, mann_whitney, own_t, permutation, vs_last

if TYPE_CHECKING:
    from lqw.noise.batch import Bands, Batch
    from lqw.plan import Policy

__all__ = ["METHODS", "Method", "method_of"]


class Method(Protocol):
    """Judge all rows of a batch at look number *look* (from 0) of ``policy.looks``, in a manifest of *m* rows."""

    def __call__(self, batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
        """Return estimates, thresholds and calls, arrays of shape (..., rows)."""


METHODS: MappingProxyType[str, Method] = MappingProxyType(
    {
        "gate-v1": gate_v1.decide,
        "fixed-band-5": fixed_band.five_percent,
        "fixed-band-10": fixed_band.ten_percent,
        "own-t": own_t.decide,
        "mann-whitney": mann_whitney.decide,
        "bca-bootstrap": bca.decide,
        "permutation": permutation.decide,
        "bayes": bayes.decide,
        "vs-last": vs_last.decide,
    }
)


def method_of(policy: Policy) -> Method:
    """Return the method that ``policy.method`` names."""
    method = METHODS.get(policy.method)
    if method is None:
        raise UsageError(f"unknown method {policy.method!r}", remedy=f"one of: {', '.join(METHODS)}")
    return method

"""gate-v1, the gate's own method: pooled and shrunk variance, sequential one-sided t (STATISTICS §2–3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Bands, Batch, effect_floor, pooled_prior
from lqw.noise.boundaries import pass_boundaries, red_boundaries
from lqw.noise.quantiles import critical_t
from lqw.noise.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.plan import Policy

__all__ = ["decide", "noise_of"]

Floats = NDArray[np.float64]


def noise_of(batch: Batch, policy: Policy) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return (D, s², v, s̃, ν): row means, pooled variances and their shrunk forms, arrays (..., rows)."""
    estimate = np.nansum(batch.d, axis=-1) / batch.n
    own = np.nansum((batch.d - estimate[..., None]) ** 2, axis=-1)
    prior_ss, prior_df = pooled_prior(batch.session_ss, batch.session_df, batch.n - 1)
    s2 = (own + prior_ss) / np.maximum(batch.n - 1 + prior_df, 1)
    v = np.broadcast_to(batch.n - 1 + prior_df, s2.shape)
    sd, nu = np.empty_like(s2), np.empty_like(s2)
    for code in np.unique(batch.family):
        rows = batch.family == code
        memory = bool(batch.is_memory[rows][0])
        shrunk = shrink(s2[..., rows], v[..., rows], sd_floor=policy.sd_floor_memory if memory else policy.sd_floor)
        sd[..., rows], nu[..., rows] = np.sqrt(shrunk.s2), shrunk.nu
    return estimate, s2, v, sd, nu


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row at one look; see :data:`lqw.noise.methods.Method`."""
    estimate, s2, v, sd, nu = noise_of(batch, policy)
    two = ~np.isnan(batch.n_last)
    c_floor = _critical(batch.n_floor, two, policy, look, m)
    c_last = _critical(batch.n_last, two, policy, look, m)
    b = _per_reference(batch.n_floor, lambda n: pass_boundaries(policy.looks, n, gamma=policy.gamma)[look])
    se_floor = _standard_error(sd, batch.n, batch.n_floor, policy)
    se_last = _standard_error(sd, batch.n, batch.n_last, policy)
    t_red, u_pass, t_last = (critical_t(z, nu) for z in (c_floor, b, c_last))
    least = effect_floor(batch, policy)
    threshold = -np.maximum(t_red * se_floor, least)
    threshold_last = -np.maximum(t_last * se_last, least)
    lower = estimate - batch.floor - u_pass * se_floor
    red_floor = estimate - batch.floor < threshold
    red_last = estimate - batch.last < threshold_last
    passed = ~red_floor & ~red_last & (lower > np.log1p(-policy.margin))
    return Bands(
        estimate, s2, v, sd, nu, se_floor, t_red, u_pass, threshold, lower, se_last, t_last, threshold_last,
        red_floor, red_last, passed,
    )  # fmt: skip


def _standard_error(sd: Floats, n: Floats, n_reference: Floats, policy: Policy) -> Floats:
    return np.asarray(np.sqrt(sd**2 * (1 / n + 1 / n_reference) + 2 * policy.tau**2), dtype=float)


def _critical(n_reference: Floats, two: NDArray[np.bool_], policy: Policy, look: int, m: int) -> Floats:
    def at(share: int) -> Floats:
        def value(n: int) -> float:
            return red_boundaries(policy.looks, n, m=m, alpha=policy.alpha, gamma=policy.gamma, references=share)[look]

        return _per_reference(n_reference, value)

    return np.where(two, at(2), at(1))


def _per_reference(n_reference: Floats, value: Callable[[int], float]) -> Floats:
    out = np.full(n_reference.shape, np.nan)
    for n in np.unique(n_reference[~np.isnan(n_reference)]):
        out[n_reference == n] = value(int(n))
    return out

"""gate-v1, the gate's own method: pooled and shrunk variance, sequential one-sided t (STATISTICS §2–3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Bands, Batch, effect_floor, pooled_prior
from lqw.noise.levels import levels_at
from lqw.noise.quantiles import critical_t
from lqw.noise.shrink import shrink

if TYPE_CHECKING:
    from lqw.plan import Policy

__all__ = ["Noise", "decide", "noise_of", "student"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """Row means and their noise, arrays of shape (..., rows): D, s² with v degrees of freedom, s̃ with ν."""

    estimate: Floats
    s2: Floats
    v: Floats
    sd: Floats
    nu: Floats


def noise_of(batch: Batch, policy: Policy) -> Noise:
    """Return the rows' means, their pooled variances and the shrunk forms of these."""
    estimate = np.nansum(batch.d, axis=-1) / batch.n
    own = np.nansum((batch.d - estimate[..., None]) ** 2, axis=-1)
    prior_ss, prior_df = pooled_prior(batch.session_ss, batch.session_df, batch.n - 1)
    s2 = (own + prior_ss) / np.maximum(batch.n - 1 + prior_df, 1)
    v = np.broadcast_to(batch.n - 1 + prior_df, s2.shape)
    sd, nu = np.empty_like(s2), np.empty_like(s2)
    for code in sorted(set(batch.family.tolist())):  # np.unique would import numpy.ma first
        rows = batch.family == code
        memory = bool(batch.is_memory[rows][0])
        shrunk = shrink(s2[..., rows], v[..., rows], sd_floor=policy.sd_floor_memory if memory else policy.sd_floor)
        sd[..., rows], nu[..., rows] = np.sqrt(shrunk.s2), shrunk.nu
    return Noise(estimate, s2, v, sd, nu)


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:
    """Judge every row at one look; see :data:`lqw.noise.methods.Method`."""
    return student(batch, policy, noise_of(batch, policy), look=look, m=m)


def student(batch: Batch, policy: Policy, noise: Noise, *, look: int, m: int) -> Bands:
    """Judge by Student's t on *noise*: RED and PASS where the boundaries of this look are crossed."""
    levels = levels_at(batch, policy, look=look, m=m)
    se_floor = _standard_error(noise.sd, batch.n, batch.n_floor, policy)
    se_last = _standard_error(noise.sd, batch.n, batch.n_last, policy)
    t_red, u_pass, t_last = (critical_t(z, noise.nu) for z in (levels.red_floor, levels.passing, levels.red_last))
    least = effect_floor(batch, policy)
    threshold = -np.maximum(t_red * se_floor, least)
    threshold_last = -np.maximum(t_last * se_last, least)
    lower = noise.estimate - batch.floor - u_pass * se_floor
    red_floor = noise.estimate - batch.floor < threshold
    red_last = noise.estimate - batch.last < threshold_last
    passed = ~red_floor & ~red_last & (lower > np.log1p(-policy.margin))
    return Bands(
        noise.estimate, noise.s2, noise.v, noise.sd, noise.nu, se_floor, t_red, u_pass, threshold, lower,
        se_last, t_last, threshold_last, red_floor, red_last, passed,
    )  # fmt: skip


def _standard_error(sd: Floats, n: Floats, n_reference: Floats, policy: Policy) -> Floats:
    return np.asarray(np.sqrt(sd**2 * (1 / n + 1 / n_reference) + 2 * policy.tau**2), dtype=float)

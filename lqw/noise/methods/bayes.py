"""Bayesian: the conjugate posterior of a row's log ratio against its reference.

Normal likelihood with unknown mean and variance, normal–inverse-χ² prior (Gelman et al., Bayesian Data Analysis, 3rd
edition, section 3.3): ``θ | σ² ~ N(0, σ²/κ0)``, ``σ² ~ Inv-χ²(ν0, σ0²)``. The variance's prior is what the reference's
batch and the earlier sessions showed (ν0 = their degrees of freedom, σ0² = their pooled variance); the prior of the
change θ says "none" with the weight of a tenth of a pair, κ0 = 0.1. The observation is ``D − R`` with the weight of
``κ = 1/(1/n + 1/n_R)`` pairs and ``n − 1`` degrees of freedom of its own. Then

    κ_n = κ0 + κ,   μ_n = κ(D − R)/κ_n,   ν_n = ν0 + n,
    ν_n σ_n² = ν0σ0² + SS + (κ0κ/κ_n)(D − R)²,   θ | data ~ t_{ν_n}(μ_n, σ_n²/κ_n)

RED where P(θ < ln(1 − δ)) exceeds 1 − α_row, PASS where P(θ > ln(1 − M)) exceeds 99 %. A posterior knows of no looks:
nothing is spent, and the chance of a false RED over all looks is whatever it turns out to be. There is no session
term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Bands, Batch, effect_floor, pooled_prior
from lqw.noise.boundaries import BETA, row_alpha
from lqw.noise.quantiles import t_isf

if TYPE_CHECKING:
    from lqw.plan import Policy

__all__ = ["PRIOR_PAIRS", "decide", "posterior"]

Floats = NDArray[np.float64]

PRIOR_PAIRS = 0.1
"""κ0: how many pairs' worth of "nothing has changed" is believed beforehand."""


def posterior(  # noqa: PLR0917 - the formula's own
    change: Floats, n: Floats, n_reference: Floats, ss: Floats, prior_ss: Floats, prior_df: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return (μ_n, scale, ν_n) of Student's t that θ follows, arrays (..., rows)."""
    weight = 1 / (1 / n + 1 / n_reference)
    kappa = PRIOR_PAIRS + weight
    nu = prior_df + n
    sigma2 = (prior_ss + ss + PRIOR_PAIRS * weight / kappa * change**2) / nu
    return weight * change / kappa, np.sqrt(sigma2 / kappa), np.broadcast_to(nu, np.shape(change))


def decide(batch: Batch, policy: Policy, *, look: int, m: int) -> Bands:  # noqa: ARG001 - a posterior knows no looks
    """Judge every row by its posterior; see :data:`lqw.noise.methods.Method`."""
    two = np.where(np.isnan(batch.n_last), 1.0, 2.0)
    level = row_alpha(policy.alpha, m) / two
    estimate = np.nansum(batch.d, axis=-1) / batch.n
    ss = np.nansum((batch.d - estimate[..., None]) ** 2, axis=-1)
    prior_ss, prior_df = pooled_prior(batch.session_ss, batch.session_df, batch.n - 1)
    least = effect_floor(batch, policy)
    mean, scale, nu = posterior(estimate - batch.floor, batch.n, batch.n_floor, ss, prior_ss, prior_df)
    last, scale_last, nu_last = posterior(estimate - batch.last, batch.n, batch.n_last, ss, prior_ss, prior_df)
    t_red, u_pass, t_last = t_isf(level, nu), t_isf(BETA, nu), t_isf(level, nu_last)
    lower = mean - u_pass * scale
    red_floor, red_last = mean + t_red * scale < -least, last + t_last * scale_last < -least
    v = np.maximum(np.broadcast_to(batch.n - 1 + prior_df, ss.shape), 1.0)
    s2 = (ss + prior_ss) / v
    return Bands(
        estimate=estimate,
        s2=s2,
        v=v,
        sd=np.sqrt(s2),
        nu=nu,
        se_floor=scale,
        t_red=t_red,
        u_pass=u_pass,
        threshold=(estimate - batch.floor) - (mean + t_red * scale + least),  # D − F below it is RED
        lower=lower,
        se_last=scale_last,
        t_last=t_last,
        threshold_last=(estimate - batch.last) - (last + t_last * scale_last + least),
        red_floor=red_floor,
        red_last=red_last,
        passed=~red_floor & ~red_last & (lower > np.log1p(-policy.margin)),
    )

"""A world to simulate: how noisy its rows are, in what way, and what is planted in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lqw.metrics import Family
from lqw.noise.batch import FAMILIES, Batch
from lqw.noise.quantiles import norm_isf

if TYPE_CHECKING:
    from lqw.plan import Policy

__all__ = ["World", "batch_from", "draw"]

Floats = NDArray[np.float64]

Spread = Literal["even", "lognormal"]
Tails = Literal["normal", "t3"]
MIDDLE = 1.959964  # standard deviations to either side that hold 95 %
GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 spread evenly over any stretch
T3_SD = 3**0.5  # of Student's t with three degrees of freedom


@dataclass(frozen=True, slots=True)
class World:
    """What is true of the rows. Standard deviations are of natural logarithms.

    Attributes
    ----------
    rows, models : int
        Rows of the manifest, spread evenly over models; rates and latencies take turns.
    sigma : tuple of float
        Smallest and largest standard deviation of one pair's log ratio.
    spread : str
        ``even``: rows lie evenly between on a log scale. ``lognormal``: σ is lognormal, and sigma its middle 95 %.
    tails : str
        ``normal``, or ``t3``: Student's t with three degrees of freedom at the same standard deviation.
    shared : float
        Share of the variance that the rows of one model have in common in each pair.
    session, session_shared : float
        What a session moves a ratio by: each row on its own, and all rows alike. Floor batch and run are two sessions.
    """

    rows: int = 60
    models: int = 5
    sigma: tuple[float, float] = (0.03, 0.03)
    spread: Spread = "even"
    tails: Tails = "normal"
    shared: float = 0.0
    session: float = 0.0
    session_shared: float = 0.0

    @property
    def sd(self) -> Floats:
        """Return the rows' standard deviations, shape (rows,): neighbours differ, so that every model has all sizes."""
        low, high = np.log(self.sigma)
        place = (np.arange(self.rows) + 0.5) / self.rows
        if self.spread == "lognormal":
            sd = np.exp((low + high) / 2 + (high - low) / 2 * norm_isf(1 - place) / MIDDLE)
        else:
            sd = np.exp(low + (high - low) * place)
        return np.asarray(sd[np.argsort(np.arange(self.rows) * GOLDEN % 1)], dtype=float)

    @property
    def model_of(self) -> NDArray[np.int64]:
        """Return the number of each row's model, shape (rows,)."""
        return np.arange(self.rows) * self.models // self.rows

    @property
    def family_of(self) -> NDArray[np.int64]:
        """Return the index of each row's family, shape (rows,)."""
        both = np.array([FAMILIES.index(Family.RATE), FAMILIES.index(Family.LATENCY)])
        return both[np.arange(self.rows) % 2]

    def pairs(self, rng: np.random.Generator, releases: int, n: int) -> Floats:
        """Draw one session of *n* pairs for each release: shape (releases, rows, n), all rows at log ratio 0."""
        own = self._noise(rng, (releases, self.rows, n))
        if self.shared:
            luck = self._noise(rng, (releases, self.models, n))[:, self.model_of]
            own = np.sqrt(1 - self.shared) * own + np.sqrt(self.shared) * luck
        moved = self.session * rng.standard_normal((releases, self.rows, 1))
        moved = moved + self.session_shared * rng.standard_normal((releases, 1, 1))
        return np.asarray(self.sd[:, None] * own + moved)

    def beside(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw *n* tuples of two releases measured side by side: the one against the other, shape (rows, n).

        They are two subjects in one session against one comparator start, which falls out with what the session moves.
        A pair's noise is half the subject's and half the comparator's, so two subjects scatter as a pair does.
        """
        one, other = replace(self, session=0.0, session_shared=0.0).pairs(rng, 2, n)
        return np.asarray((one - other) / np.sqrt(2))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.standard_normal(shape) if self.tails == "normal" else rng.standard_t(3, shape) / T3_SD


def draw(world: World, policy: Policy, rng: np.random.Generator, releases: int) -> Batch:
    """Draw floors and runs of equal releases, each with its own floor and no last release."""
    floor = world.pairs(rng, releases, policy.floor_pairs)
    return batch_from(world, policy, world.pairs(rng, releases, policy.looks[-1]), floor)


def batch_from(world: World, policy: Policy, d: Floats, floor_d: Floats) -> Batch:
    """Return runs *d* against floors *floor_d*, both of shape (releases, rows, pairs)."""
    mean = floor_d.mean(axis=-1)
    none = np.full(world.rows, np.nan)
    return Batch(
        d=d,
        n=np.full(d.shape[:2], float(policy.looks[-1])),
        family=world.family_of,
        floor=mean,
        n_floor=np.full(world.rows, float(policy.floor_pairs)),
        last=none,
        n_last=none,
        session_ss=((floor_d - mean[..., None]) ** 2).sum(axis=-1)[..., None],
        session_df=np.full((world.rows, 1), policy.floor_pairs - 1.0),
        floor_d=floor_d,
        last_d=np.full((world.rows, 0), np.nan),
    )

"""A share of simulated releases, with the error that the number of simulations leaves in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import special

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Mean", "Rate", "mean_of", "rate_of"]

TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``of`` simulated releases."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """Return the estimate."""
        return self.hits / self.of

    @property
    def error(self) -> float:
        """Return its standard error, ``sqrt(p(1 − p)/N)``."""
        return math.sqrt(self.share * (1 - self.share) / self.of)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the exact 95 % interval (Clopper & Pearson 1934); it holds at 0 of N too."""
        low = 0.0 if self.hits == 0 else float(special.betaincinv(self.hits, self.of - self.hits + 1, TAIL))
        high = 1.0 if self.hits == self.of else float(special.betaincinv(self.hits + 1, self.of - self.hits, 1 - TAIL))
        return low, high

    def exceeds(self, bound: float, tail: float = 1e-3) -> bool:
        """Return whether so many hits would come by luck in fewer than *tail* of all cases if *bound* were true."""
        return self.hits > 0 and float(special.betainc(self.hits, self.of - self.hits + 1, bound)) < tail

    def below(self, bound: float, tail: float = 1e-3) -> bool:
        """Return whether so few hits would come by luck in fewer than *tail* of all cases if *bound* were true."""
        return Rate(self.of - self.hits, self.of).exceeds(1 - bound, tail)

    def __str__(self) -> str:
        """Return percent with the standard error: ``0.35 % ± 0.13``."""
        return f"{100 * self.share:.2f} % ± {100 * self.error:.2f}"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over simulated releases and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        """Return ``3.25 ± 0.01``."""
        return f"{self.value:.2f} ± {self.error:.2f}"


def rate_of(flags: NDArray[np.bool_]) -> Rate:
    """Return the share of true *flags*."""
    return Rate(int(flags.sum()), int(flags.size))


def mean_of(values: NDArray[np.float64]) -> Mean:
    """Return the mean of one value per release."""
    return Mean(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))

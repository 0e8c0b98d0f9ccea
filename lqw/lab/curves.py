"""What a method costs and what it catches, simulated with the noise the history measured.

Simulated releases take the gate's own looks (:func:`lqw.noise.looks.take_looks`): floor batch, session term, shrinkage
and stopping are all in it. All points and methods share their draws, so that they differ by what they do, not by luck;
each release draws from its own number, so that it makes no difference in which slices they are simulated.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lqw.noise.batch import Batch
from lqw.noise.boundaries import pass_boundaries
from lqw.noise.looks import take_looks
from lqw.noise.quantiles import critical_t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lqw.lab.history import History
    from lqw.metrics import RowId
    from lqw.noise.methods import Method
    from lqw.plan import Policy

__all__ = ["LOSSES", "NOISE_FACTORS", "Curves", "Noise", "Simulation", "measured_noise", "pairs_to_pass"]

Floats = NDArray[np.float64]

LOSSES = (0.0, 0.02, 0.05, 0.08, 0.10, 0.15, 0.20, 0.30)
"""True losses of one row per model at which detection is asked for."""

NOISE_FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Multiples of the measured noise at which the gate's false RED is asked for: a host gets louder, too."""

MOST_PAIRS = 200
SLICE = 2  # releases of the first slice: the resampling methods take up to 0.3 s for them
GROWTH, MOST_SLICE = 4, 64  # a slice's time is guessed from that of one not much smaller; its arrays stay below 100 MB


@dataclass(frozen=True, slots=True)
class Noise:
    """The measured noise of the newest whole release's rows.

    ``sd`` is the SD of one pair's log ratio, pooled within every session the history knows, shape (rows,).
    """

    rows: tuple[RowId, ...]
    sd: Floats
    planned: int
    floor_pairs: int
    family: NDArray[np.int64]
    models: NDArray[np.int64]
    model_names: tuple[str, ...]
    pair_minutes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Curves:
    """Shares of simulated releases.

    Attributes
    ----------
    red, missed : float arrays, shape (losses,)
        A row with the loss is RED; it passes in silence. The rest is undecided.
    false_red : float array, shape (noise factors,)
        Some row of an unchanged release is RED.
    pairs, minutes : float
        Mean pairs per model and minutes per release, unchanged release, measured noise.
    undecided : float
        Unchanged releases that end without a verdict, measured noise.
    releases : int
        Simulated releases behind each point of ``false_red``; ``red`` and ``missed`` have one row per model in each.
    """

    red: Floats
    missed: Floats
    false_red: Floats
    pairs: float
    minutes: float
    undecided: float
    releases: int

    def count(self, asked: int) -> str:
        """Return how many releases these shares are of: ``60 of 400`` while a simulation goes on, then ``400``."""
        return f"{self.releases} of {asked}" if self.releases < asked else f"{self.releases}"


def measured_noise(history: History) -> Noise:
    """Return the noise of the rows that the newest measured release has, over all releases that measured the same."""
    group = max(history.groups, key=lambda one: one.index[-1])
    newest = history.releases[group.index[-1]]
    d = group.batch.d
    n = np.sum(~np.isnan(d), axis=-1)
    mean = np.nansum(d, axis=-1, keepdims=True) / n[..., None]
    ss = np.nansum((d - mean) ** 2, axis=(0, -1))
    sd = np.sqrt(ss / np.maximum((n - 1).sum(axis=0), 1))
    floors = [ref.floor.n for ref in newest.references.values() if ref.floor is not None]
    return Noise(
        rows=group.rows,
        sd=np.asarray(sd),
        planned=group.planned,
        floor_pairs=min(floors, default=newest.policy.floor_pairs),
        family=group.batch.family,
        models=group.models,
        model_names=group.model_names,
        pair_minutes=newest.pair_minutes,
    )


class Simulation:
    """Unchanged and slower releases, simulated a slice at a time; what is known so far is in :attr:`curves`.

    Parameters
    ----------
    noise : Noise
    method, policy
        As in :data:`lqw.noise.methods.Method`.
    """

    def __init__(self, noise: Noise, method: Method, policy: Policy) -> None:
        self._noise, self._method, self._policy = noise, method, policy
        self._parts: list[Curves] = []
        self._slice, self._pace = SLICE, math.inf  # releases, seconds a release of the slice before
        self.releases = 0

    def go_on(self, *, most: int, seconds: float = math.inf) -> None:
        """Simulate up to *most* releases in all, about *seconds* long, but one at least.

        No further slice is begun that would end late at the pace of the one before. That guess is too slow, if
        anything: a part of a slice's time is the same for any size.
        """
        now = time.perf_counter()
        until, slices = now + seconds, 0
        while self.releases < most:
            fit = min((until - now) / self._pace, MOST_SLICE) if self._parts else SLICE
            size = int(min(max(fit, 0 if slices else 1), self._slice, most - self.releases))
            if size < 1:
                return
            self._parts.append(_simulate(self._noise, self._method, self._policy, self.releases, self.releases + size))
            self.releases += size
            slices += 1
            before, now = now, time.perf_counter()
            self._pace = max((now - before) / size, 1e-6)
            self._slice = max(self._slice, min(GROWTH * size, MOST_SLICE))

    @property
    def curves(self) -> Curves:
        """Return the shares over all releases so far; at least one slice must be simulated."""
        weights = [one.releases for one in self._parts]

        def mean(field: str) -> Any:
            return np.average([getattr(one, field) for one in self._parts], axis=0, weights=weights)

        shares = {f.name: mean(f.name) for f in fields(Curves) if f.name != "releases"}
        return Curves(**shares, releases=self.releases)


def _simulate(noise: Noise, method: Method, policy: Policy, first: int, end: int) -> Curves:
    """Return the curves of the releases of these numbers."""
    points = [(0.0, factor) for factor in NOISE_FACTORS] + [(loss, 1.0) for loss in LOSSES]
    numbers = np.arange(first, end)
    drawn = _draw(noise, policy, numbers)
    bad = np.zeros((len(numbers), len(noise.rows)), dtype=bool)
    for model in range(len(noise.model_names)):
        of = np.flatnonzero(noise.models == model)
        bad[np.arange(len(numbers)), of[numbers % len(of)]] = True
    effect = np.concatenate([np.where(bad, math.log1p(-loss), 0.0) for loss, _ in points])
    scale = np.repeat([factor for _, factor in points], len(numbers))
    looked = take_looks(
        _batch(noise, drawn, effect, scale, points=len(points)),
        method,
        policy,
        m=noise.planned,
        models=noise.models,
        available=np.full((len(effect), len(noise.model_names)), float(policy.looks[-1])),
    )
    shape = (len(points), len(numbers), -1)
    red, passed = looked.red.reshape(shape), looked.bands.passed.reshape(shape)
    still_open = looked.bands.open.reshape(shape)
    healthy, slower = slice(None, len(NOISE_FACTORS)), slice(len(NOISE_FACTORS), None)
    plain = NOISE_FACTORS.index(1.0)
    pairs = looked.pairs.reshape(shape)[plain]
    each = np.array([noise.pair_minutes.get(name, 0.0) for name in noise.model_names])
    unclear = still_open[plain].any(axis=-1) & ~red[plain].any(axis=-1)
    return Curves(
        red=red[slower][:, bad].mean(axis=-1),
        missed=passed[slower][:, bad].mean(axis=-1),
        false_red=red[healthy].any(axis=-1).mean(axis=-1),
        pairs=float(pairs.mean()),
        minutes=float((pairs * each).sum(axis=-1).mean()),
        undecided=float(unclear.mean()),
        releases=len(numbers),
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    floor: Floats  # standard normal, (releases, rows, floor pairs)
    pairs: Floats  # standard normal, (releases, rows, most pairs)
    session: Floats  # log ratio, (releases, rows): the difference of two sessions


def _draw(noise: Noise, policy: Policy, numbers: NDArray[np.int64]) -> _Drawn:
    """Return the draws of the releases of these numbers."""
    most = policy.looks[-1]
    each = noise.floor_pairs + 1 + most
    drawn = np.stack([np.random.default_rng(n).standard_normal((len(noise.rows), each)) for n in numbers.tolist()])
    floor, session, pairs = np.split(drawn, [noise.floor_pairs, noise.floor_pairs + 1], axis=-1)
    return _Drawn(floor, pairs, session[..., 0] * math.sqrt(2) * policy.tau)


def _batch(noise: Noise, drawn: _Drawn, effect: Floats, scale: Floats, *, points: int) -> Batch:
    """Return one batch of points × releases; all points share their draws."""
    sd = scale[:, None, None] * noise.sd[:, None]
    floor = np.tile(drawn.floor, (points, 1, 1)) * sd
    shift = np.tile(drawn.session, (points, 1)) + effect
    d = np.tile(drawn.pairs, (points, 1, 1)) * sd + shift[..., None]
    value = floor.mean(axis=-1)
    rows = len(noise.rows)
    return Batch(
        d=d,
        n=np.full(value.shape, float(d.shape[-1])),
        family=noise.family,
        floor=value,
        n_floor=np.full(rows, float(noise.floor_pairs)),
        last=np.full(rows, np.nan),
        n_last=np.full(rows, np.nan),
        session_ss=((floor - value[..., None]) ** 2).sum(axis=-1)[..., None],
        session_df=np.full((rows, 1), noise.floor_pairs - 1.0),
        floor_d=floor,
        last_d=np.full((rows, 0), np.nan),
    )


def pairs_to_pass(noise: Noise, policy: Policy) -> tuple[int | None, ...]:
    """Return, per row, the least pairs that exclude a loss of the margin if the row has not moved.

    By the gate's formula, ``u·se < ln(1/(1−M))`` with ``se² = σ²(1/n + 1/n_F) + 2τ²``; ``u`` is the policy's boundary
    to pass at its first look, with the degrees of freedom of floor and run (a run pools and shrinks: it has more). At
    least that look's pairs; None where no number up to 200 does.
    """
    need = -math.log1p(-policy.margin)
    n = np.arange(policy.looks[0], MOST_PAIRS + 1)
    first = pass_boundaries(policy.looks, noise.floor_pairs, gamma=policy.gamma)[0]
    u = critical_t(first, n + noise.floor_pairs - 2.0)
    out: list[int | None] = []
    for sd in noise.sd:
        enough = u * np.sqrt(sd**2 * (1 / n + 1 / noise.floor_pairs) + 2 * policy.tau**2) < need
        out.append(int(n[np.argmax(enough)]) if enough.any() else None)
    return tuple(out)

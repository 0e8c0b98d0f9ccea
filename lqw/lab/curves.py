"""What a method costs and what it catches, simulated with the noise the history measured.

Simulated releases take the gate's own looks (:func:`lqw.noise.looks.take_looks`): floor batch, session term, shrinkage
and stopping are all in it. All points and methods share their draws, so that they differ by what they do, not by luck.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

__all__ = ["LOSSES", "NOISE_FACTORS", "Curves", "Noise", "measured_noise", "pairs_to_pass", "simulate", "simulate_for"]

Floats = NDArray[np.float64]

LOSSES = (0.0, 0.02, 0.05, 0.08, 0.10, 0.15, 0.20, 0.30)
"""True losses of one row per model at which detection is asked for."""

NOISE_FACTORS = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Multiples of the measured noise at which the gate's false RED is asked for: a host gets louder, too."""

MOST_PAIRS = 200
CHUNK = 2  # releases between two looks at the clock: the resampling methods take 0.1 s for them


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


def simulate(noise: Noise, method: Method, policy: Policy, *, releases: int = 60, seed: int = 1) -> Curves:
    """Simulate unchanged and slower releases.

    Parameters
    ----------
    noise : Noise
    method, policy
        As in :data:`lqw.noise.methods.Method`.
    releases : int
        Simulated releases per point: 60 answer at once, 2,000 see 1 % well.
    seed : int
        Of the draws.
    """
    points = [(0.0, factor) for factor in NOISE_FACTORS] + [(loss, 1.0) for loss in LOSSES]
    rng = np.random.default_rng(seed)
    drawn = _draw(noise, policy, rng, releases)
    bad = np.zeros((releases, len(noise.rows)), dtype=bool)
    for model in range(len(noise.model_names)):
        of = np.flatnonzero(noise.models == model)
        turn = (np.arange(releases) + seed * releases) % len(of)  # chunks of one series take different rows
        bad[np.arange(releases), of[turn]] = True
    effect = np.concatenate([np.where(bad, math.log1p(-loss), 0.0) for loss, _ in points])
    scale = np.repeat([factor for _, factor in points], releases)
    looked = take_looks(
        _batch(noise, drawn, effect, scale, points=len(points)),
        method,
        policy,
        m=noise.planned,
        models=noise.models,
        available=np.full((len(effect), len(noise.model_names)), float(policy.looks[-1])),
    )
    shape = (len(points), releases, -1)
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
        releases=releases,
    )


def simulate_for(noise: Noise, method: Method, policy: Policy, *, seconds: float, most: int = 200) -> Curves:
    """Simulate as many releases as *seconds* allow, a chunk at least, *most* at most: a control answers at once.

    The draws do not depend on the clock, only their number does, and that is in ``releases``. A chunk is not begun
    that would end late if it took as long as the longest before it.
    """
    began = now = time.perf_counter()
    parts: list[Curves] = []
    longest = 0.0
    while not parts or (now + longest < began + seconds and len(parts) * CHUNK < most):
        parts.append(simulate(noise, method, policy, releases=CHUNK, seed=1 + len(parts)))
        before, now = now, time.perf_counter()
        longest = max(longest, now - before)
    return Curves(
        red=np.mean([one.red for one in parts], axis=0),
        missed=np.mean([one.missed for one in parts], axis=0),
        false_red=np.mean([one.false_red for one in parts], axis=0),
        pairs=float(np.mean([one.pairs for one in parts])),
        minutes=float(np.mean([one.minutes for one in parts])),
        undecided=float(np.mean([one.undecided for one in parts])),
        releases=CHUNK * len(parts),
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    floor: Floats  # standard normal, (releases, rows, floor pairs)
    pairs: Floats  # standard normal, (releases, rows, most pairs)
    session: Floats  # log ratio, (releases, rows): the difference of two sessions


def _draw(noise: Noise, policy: Policy, rng: np.random.Generator, releases: int) -> _Drawn:
    rows = len(noise.rows)
    floor = rng.standard_normal((releases, rows, noise.floor_pairs))
    session = rng.standard_normal((releases, rows)) * math.sqrt(2) * policy.tau
    return _Drawn(floor, rng.standard_normal((releases, rows, policy.looks[-1])), session)


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

"""Simulated releases, decided by the gate's own code: the looks, the method, the suite test, the too-good rule.

Nothing is decided here. :func:`lqw.noise.looks.take_looks`, :func:`lqw.verdict.suite.suite_calls` and
:func:`lqw.verdict.rows.too_good` are what the judge calls for one release; a test holds the two equal, release by
release. What a journal alone can show (guards on the comparator, tokens, the order of starts) is not simulated.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from lqw.noise.looks import Looked, take_looks
from lqw.noise.methods import method_of
from lqw.power.world import World, draw
from lqw.verdict.rows import too_good
from lqw.verdict.suite import Members, suite_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from lqw.noise.batch import Batch
    from lqw.plan import Policy

__all__ = ["Decided", "decide", "in_chunks", "joined", "simulate"]

T = TypeVar("T")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CHUNK = 100  # releases at once: what stays in a processor's cache is several times as fast


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided of simulated releases.

    Attributes
    ----------
    red, passed, suspect : bool arrays, shape (releases, rows)
        Row calls; a row that is none of them is undecided. ``suspect`` rows are too good to be believed.
    suite : bool array, shape (releases, rows)
        Whether the row's family is RED together.
    pairs : float array, shape (releases, models)
        Pairs that were measured of each model.
    used : float array, shape (releases, rows)
        Pairs after which the row was decided.
    """

    red: Bools
    passed: Bools
    suspect: Bools
    suite: Bools
    pairs: Floats
    used: Floats

    @property
    def red_release(self) -> Bools:
        """Return which releases are RED, shape (releases,)."""
        return np.asarray((self.red | self.suite).any(axis=-1))

    @property
    def pass_release(self) -> Bools:
        """Return which releases PASS, shape (releases,)."""
        return np.asarray(self.passed.all(axis=-1) & ~self.suite.any(axis=-1))


def decide(batch: Batch, world: World, policy: Policy) -> tuple[Decided, Looked]:
    """Decide simulated releases of which every pair up to the last look is known; the bands are there to look at."""
    method = method_of(policy)
    available = np.full((batch.d.shape[0], world.models), float(policy.looks[-1]))
    looked = take_looks(batch, method, policy, m=world.rows, models=world.model_of, available=available)
    bands = looked.bands
    delta = bands.estimate - batch.floor
    suspect = bands.passed & too_good(delta, bands.se_floor, bands.t_red, policy)
    used = np.asarray(policy.looks, dtype=float)[looked.look]
    suite = _suite(batch, looked, suspect, used, world)
    return Decided(bands.red, bands.passed & ~suspect, suspect, suite, looked.pairs, used), looked


def _suite(batch: Batch, looked: Looked, suspect: Bools, used: Floats, world: World) -> Bools:
    out = np.zeros(suspect.shape, dtype=bool)
    whole = Members(
        gating=~suspect,
        delta=looked.bands.estimate - batch.floor,
        se=looked.bands.se_floor,
        d=batch.d,
        n=used,
        floor_d=np.broadcast_to(batch.floor_d, (*suspect.shape, batch.floor_d.shape[-1])),
        n_floor=np.broadcast_to(batch.n_floor, suspect.shape),
        models=world.model_of,
    )
    families = [batch.family == code for code in np.unique(batch.family)]
    for of, call in zip(families, suite_calls([whole.of(family) for family in families]), strict=True):
        out[:, of] = call.red[:, None]
    return out


def simulate(
    world: World,
    policy: Policy,
    *,
    releases: int,
    seed: int,
    plant: Callable[[Batch, int], Batch] = lambda batch, first: batch,  # noqa: ARG005 - nothing is planted
) -> Decided:
    """Simulate releases.

    Parameters
    ----------
    world, policy
        What is true, and how it is decided; ``policy.method`` names the method.
    releases : int
    seed : int
        The same seed gives the same noise, whatever the method, the planted loss and the number of processors.
    plant : callable
        Puts a loss into a batch of drawn releases, of which the first has that number.
    """

    def one(first: int, count: int, rng: np.random.Generator) -> Decided:
        return decide(plant(draw(world, policy, rng, count), first), world, policy)[0]

    return joined(in_chunks(one, releases=releases, seed=seed))


def in_chunks(one: Callable[[int, int, np.random.Generator], T], *, releases: int, seed: int) -> list[T]:
    """Return ``one(first, count, rng)`` of every chunk of releases; a chunk's noise depends on its place alone."""
    starts = range(0, releases, CHUNK)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))

    def chunk(first: int, own: np.random.SeedSequence) -> T:
        return one(first, min(CHUNK, releases - first), np.random.default_rng(own))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(chunk, starts, seeds))


def joined(parts: list[Decided]) -> Decided:
    """Return chunks as one."""
    return Decided(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Decided)))

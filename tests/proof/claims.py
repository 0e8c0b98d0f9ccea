"""Claims of STATISTICS, each simulated with the gate's own code and held against its bound.

A bound is broken only where so many (or so few) hits would come by luck in fewer than one of a thousand cases: then the
binomial test, not the eye, says so. ``python -m tests.proof`` runs them all and writes docs/methodology/proof.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lqw.noise.methods import METHODS
from lqw.plan import Policy
from lqw.power.characteristics import characteristics, planted_row
from lqw.power.confirmed import confirmed
from lqw.power.history import advance, drift
from lqw.power.rates import Mean, Rate, mean_of, rate_of
from lqw.power.world import World

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
LOSS = float(np.log1p(-0.10))
EQUAL = World()
UNEQUAL = World(sigma=(0.014, 0.06), spread="lognormal")
WORLDS = {
    "equal σ = 3 %": EQUAL,
    "unequal σ, 95 % of rows within 1.4–6 %": UNEQUAL,
    "t₃ tails, unequal σ": replace(UNEQUAL, tails="t3"),
    "session shift τ = 1 %, all rows alike": replace(EQUAL, session_shared=0.01),
    "session shift τ = 1 %, each row on its own": replace(EQUAL, session=0.01),
}


@dataclass(frozen=True)
class Claim:
    """One figure: what it is, what was found, and the bound it is held to (None: a figure to know, not to hold)."""

    of: str
    what: str
    found: Rate | Mean
    bound: float | None = None
    most: bool = True  # the bound is the most that is allowed; else the least

    @property
    def broken(self) -> bool:
        """Return whether the simulation contradicts the bound."""
        if self.bound is None:
            return False
        if isinstance(self.found, Mean):
            room = 3 * self.found.error
            return self.found.value - room > self.bound if self.most else self.found.value + room < self.bound
        return self.found.exceeds(self.bound) if self.most else self.found.below(self.bound)

    @property
    def verdict(self) -> str:
        """Return how the figure stands to its bound, in words."""
        if self.bound is None:
            return ""
        if self.broken:
            return "**broken**"
        value = self.found.value if isinstance(self.found, Mean) else self.found.share
        inside = value <= self.bound if self.most else value >= self.bound
        return "holds" if inside else "beyond it, by what may be luck"

    @property
    def promise(self) -> str:
        """Return the bound as it is written."""
        if self.bound is None:
            return ""
        number = f"{self.bound:g}" if isinstance(self.found, Mean) else f"{self.bound:.1%}".replace("%", " %")
        return f"{'≤' if self.most else '≥'} {number}"


# STATISTICS §7: false RED before and after confirmation, then RED and silent PASS of a −10 % row, then mean pairs.
TABLE = {
    "equal σ = 3 %": (0.01, 0.01, 0.99, 0.01, 3.1),
    "unequal σ, 95 % of rows within 1.4–6 %": (0.01, 0.01, None, 0.01, 3.5),
    "t₃ tails, unequal σ": (0.03, 0.01, None, 0.01, 3.5),
    "session shift τ = 1 %, all rows alike": (None, 0.015, 0.90, 0.02, None),
    "session shift τ = 1 %, each row on its own": (None, 0.015, 0.90, 0.02, None),
}
MIDDLE = {"unequal σ, 95 % of rows within 1.4–6 %": 0.94, "t₃ tails, unequal σ": 0.94}


def nothing(at):
    """No release has changed."""
    return np.zeros((len(at), 1))


def one_row(world, loss=LOSS):
    """One row of each release is slower; all rows take turns."""

    def level(at):
        out = np.zeros((len(at), world.rows))
        out[np.arange(len(at)), planted_row(world, at)] = loss
        return out

    return level


def table(name, releases, seed):
    """One line of the table of §7."""
    world = WORLDS[name]
    before, after, least_red, most_silent, most_pairs = TABLE[name]
    equal = confirmed(world, POLICY, releases=releases, seed=seed, level=nothing)
    yield Claim(name, "equal release RED, before confirmation", rate_of(equal.decided.red_release), before)
    yield Claim(name, "equal release RED, after confirmation", rate_of(equal.red_release), after)
    slower = confirmed(world, POLICY, releases=releases, seed=seed, level=one_row(world))
    at = np.arange(releases)
    row = planted_row(world, at)
    red, passed, suite = (x[at, row] for x in (slower.decided.red, slower.decided.passed, slower.decided.suite))
    yield Claim(name, "−10 % on one row: RED before confirmation", rate_of(red), least_red, most=False)
    yield Claim(name, "−10 % on one row: RED after confirmation", rate_of(slower.red[at, row]), least_red, most=False)
    yield Claim(name, "−10 % on one row: undecided, which blocks", rate_of(~red & ~suite & ~passed))
    yield Claim(name, "−10 % on one row: silent PASS", rate_of(passed & ~suite), most_silent)
    if name in MIDDLE:
        calm = world.sd[row] <= 0.03
        yield Claim(name, "… rows with σ ≤ 3 %: RED", rate_of(red[calm]), MIDDLE[name], most=False)
        loud = world.sd[row] > np.quantile(world.sd, 2 / 3)
        yield Claim(name, "… loudest third of rows: RED", rate_of(red[loud]))
        yield Claim(name, "… loudest third of rows: silent PASS", rate_of((passed & ~suite)[loud]))
    yield Claim(name, "pairs until a row is decided, mean", mean_of(equal.decided.used.mean(axis=-1)), most_pairs)
    yield Claim(name, "pairs measured of a model, mean", mean_of(equal.decided.pairs.mean(axis=-1)))


def whatever_sigma(sigma, releases, seed):
    """Whatever σ is, a loss of 10 % passes silently in at most 1 % of cases."""
    world = World(sigma=(sigma, sigma))
    slower = confirmed(world, POLICY, releases=releases, seed=seed, level=one_row(world))
    at = np.arange(releases)
    row = planted_row(world, at)
    silent = rate_of((slower.decided.passed & ~slower.decided.suite)[at, row])
    yield Claim(f"every row σ = {sigma:.0%}".replace("%", " %"), "−10 % on one row: silent PASS", silent, 0.01)


def suite(loss, releases, seed, least=None):
    """All rows lose the same little."""
    of = f"all 60 rows −{loss:.0%}, σ = 3 %".replace("%,", " %,")
    found = confirmed(EQUAL, POLICY, releases=releases, seed=seed, level=lambda at: nothing(at) + np.log1p(-loss))
    yield Claim(of, "RED by rows alone", rate_of(found.decided.red.any(axis=-1)))
    yield Claim(of, "RED with the suite test", rate_of(found.decided.red_release), least, most=False)
    yield Claim(of, "RED after confirmation", rate_of(found.red_release), least, most=False)


GATES = {
    "gate-v1": ("gate-v1", lambda decided: decided.pass_release),
    "vs-last, undecided blocks": ("vs-last", lambda decided: decided.pass_release),
    "vs-last, only RED blocks": ("vs-last", lambda decided: ~decided.red_release),
}


def drifting(name, histories, releases, seed):
    """One row loses 2 % in every release."""
    method, shipped = GATES[name]
    policy = replace(POLICY, method=method)
    found = drift(EQUAL, policy, per_release=-0.02, releases=releases, histories=histories, seed=seed, shipped=shipped)
    of = f"one row −2 % a release: {name}"
    gate = method == "gate-v1"
    for release in (3, 5, 10, releases):
        held = gate and release >= 5
        what = f"row RED by release {release}"
        yield Claim(of, what, found.caught[release - 1], 0.99 if held else None, most=False)
    if gate:
        yield Claim(of, "release by which half are RED", Mean(float(found.median or releases), 0.0), 4.0)


RAISED = {
    "proven": "a fresh batch of a proven gain",
    "best-ever": "the best estimate ever, its few pairs counted",
    "best-ever-as-floor": "the best estimate ever, taken for a floor",
}


def advancing(rule, histories, releases, seed):
    """Equal releases in a row: what raises the floor must not make false alarms."""
    rates = advance(EQUAL, POLICY, rule=rule, releases=releases, histories=histories, seed=seed)
    for first in range(1, releases, 10):
        some = rates[first - 1 : first + 9]
        rate = Rate(sum(one.hits for one in some), sum(one.of for one in some))
        what = f"false RED of releases {first}–{first + len(some) - 1}"
        yield Claim(f"raised by {RAISED[rule]}", what, rate, 0.015 if rule == "proven" else None)


def methods(world_name, releases, seed):
    """Every method of the registry in the same noise."""
    for method in METHODS:
        policy = replace(POLICY, method=method)
        found = characteristics(WORLDS[world_name], policy, effect=-0.10, releases=releases, seed=seed)
        gate = method == "gate-v1"
        yield Claim(method, "equal release RED", found.false_red, 0.01 if gate else None)
        yield Claim(method, "−10 % on one row: RED", found.planted.red)
        yield Claim(method, "−10 % on one row: undecided", found.planted.undecided)
        yield Claim(method, "−10 % on one row: silent PASS", found.planted.silent, 0.01 if gate else None)
        yield Claim(method, "pairs measured of a model, mean", found.pairs)

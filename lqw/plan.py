"""The plan: every row that must exist, every start that must run, in an order drawn from a recorded seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lqw.canonical import sha256_json
from lqw.metrics import RowId
from lqw.outcomes import Arm, BatchArm, Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lqw.params import LaunchSpec, Params

__all__ = ["BATCH_TUPLES", "BatchKey", "Plan", "Policy", "StartKey", "batch_starts", "build_plan", "policy_of"]

BATCH_TUPLES = 7
"""How often a confirmation batch starts each of its arms (STATISTICS §3); written into its declaration."""


@dataclass(frozen=True, slots=True, order=True)
class StartKey:
    """Names one engine start of the plan: ``model/p03/subject/l0``; pairs count from 1, launches from 0."""

    model: str
    pair: int
    arm: Arm
    launch: int

    def __str__(self) -> str:
        """Return the form used in journal, logs and file names."""
        return f"{self.model}/p{self.pair:02d}/{self.arm}/l{self.launch}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The statistical constants a decision depends on (STATISTICS §2–3); all of them are in the receipt."""

    looks: tuple[int, ...]
    floor_pairs: int
    margin: float
    margin_class: str
    alpha: float = 0.01
    gamma: float = -2.0
    delta: float = 0.01
    delta_memory: float = 0.02
    tau: float = 0.005
    sd_floor: float = 0.005
    sd_floor_memory: float = 0.002
    one_token_detector: str = "gate"
    method: str = "gate-v1"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run must do. Equal params, purpose and library give an equal plan, byte for byte."""

    purpose: Purpose
    release: str
    host: str
    seed: int
    rows: tuple[RowId, ...]
    orders: dict[str, tuple[tuple[Arm, Arm], ...]]  # per model: who starts first in pair 1, 2, …
    policy: Policy
    params_sha256: str

    @property
    def max_pairs(self) -> int:
        """Return the most pairs any model may get."""
        return self.policy.floor_pairs if self.purpose is Purpose.ADOPT else self.policy.looks[-1]

    def pairs_at(self, look: int) -> int:
        """Return how many pairs a model has at look number *look* (from 0)."""
        return self.policy.floor_pairs if self.purpose is Purpose.ADOPT else self.policy.looks[look]

    @property
    def n_looks(self) -> int:
        """Return the number of looks: one when a floor is adopted."""
        return 1 if self.purpose is Purpose.ADOPT else len(self.policy.looks)

    def starts(self, model: str, pair: int, launches: list[LaunchSpec]) -> list[StartKey]:
        """Return the starts of one pair in running order: launch by launch, both arms one after the other."""
        order = self.orders[model][pair - 1]
        return [StartKey(model, pair, arm, index) for index in range(len(launches)) for arm in order]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that journal and receipt carry."""
        policy = {field: getattr(self.policy, field) for field in Policy.__dataclass_fields__}
        policy["looks"] = list(self.policy.looks)
        return {
            "purpose": str(self.purpose),
            "release": self.release,
            "host": self.host,
            "seed": self.seed,
            "rows": [str(row) for row in self.rows],
            "orders": {
                model: ["SC" if pair[0] is Arm.SUBJECT else "CS" for pair in pairs]
                for model, pairs in self.orders.items()
            },
            "policy": policy,
            "params_sha256": self.params_sha256,
        }

    @property
    def sha256(self) -> str:
        """Return the hash of the JSON form."""
        return sha256_json(self.to_json())


def policy_of(params: Params) -> Policy:
    """Return the policy that host and protocol declare."""
    return Policy(
        looks=tuple(params.protocol.looks),
        floor_pairs=params.protocol.floor_pairs,
        margin=params.host.margin.fraction,
        margin_class=params.host.margin.letter,
        one_token_detector=params.host.one_token_detector,
    )


def _orders(seed: int, model: str, pairs: int) -> tuple[tuple[Arm, Arm], ...]:
    """Draw balanced orders: in every two consecutive pairs each arm goes first once, which one is random.

    A blocked order (AAABBB) would let clock drift into the ratio; pure chance gives three equal orders in a
    row one time in four. Permuted blocks of two do neither.
    """
    rng = random.Random(f"{seed}/{model}")  # noqa: S311 - a schedule, not a secret
    forward, backward = (Arm.SUBJECT, Arm.COMPARATOR), (Arm.COMPARATOR, Arm.SUBJECT)
    out: list[tuple[Arm, Arm]] = []
    while len(out) < pairs:
        out += [forward, backward] if rng.random() < 0.5 else [backward, forward]  # noqa: PLR2004
    return tuple(out[:pairs])


def build_plan(params: Params, purpose: Purpose, *, params_sha256: str | None = None) -> Plan:
    """Return the plan of a run; pure, so that a verifier can rebuild and compare it.

    *params_sha256* is the hash of the params as they are recorded; by default that of their resolved form.
    """
    policy = policy_of(params)
    pairs = policy.floor_pairs if purpose is Purpose.ADOPT else policy.looks[-1]
    models = [model.name for model in params.release.models]
    return Plan(
        purpose=purpose,
        release=params.release.release,
        host=params.host.name,
        seed=params.release.seed,
        rows=tuple(RowId.parse(f"{model}/{short}") for model in models for short in params.protocol.rows),
        orders={model: _orders(params.release.seed, model, pairs) for model in models},
        policy=policy,
        params_sha256=params_sha256 or sha256_json(params.resolved()),
    )


@dataclass(frozen=True, slots=True, order=True)
class BatchKey:
    """Names one engine start of a confirmation batch: ``model/c03/earlier-1.0.0/l0``."""

    model: str
    pair: int  # number of the tuple, from 1
    arm: BatchArm
    release: str  # "" for the comparator
    launch: int

    def __str__(self) -> str:
        """Return the form used in logs and file names."""
        arm = f"{self.arm}-{self.release}" if self.arm is BatchArm.EARLIER else str(self.arm)
        return f"{self.model}/c{self.pair:02d}/{arm}/l{self.launch}"


def batch_starts(
    plan: Plan, model: str, earlier: Sequence[str], *, launches: int, tuples: int = BATCH_TUPLES
) -> list[BatchKey]:
    """Return every start of a model's batch in running order, drawn from the plan's seed.

    The tuples are blocks of a Latin square: over as many tuples as there are arms, each arm stands once in each place,
    and which square it is is drawn anew for every block. So drift within a tuple favours no arm.
    """
    rng = random.Random(f"{plan.seed}/{model}/batch")  # noqa: S311 - a schedule, not a secret
    arms = [(BatchArm.CANDIDATE, plan.release), (BatchArm.COMPARATOR, "")]
    arms += [(BatchArm.EARLIER, release) for release in sorted(earlier)]
    orders: list[list[tuple[BatchArm, str]]] = []
    while len(orders) < tuples:
        first = rng.sample(arms, len(arms))
        shifts = rng.sample(range(len(arms)), len(arms))
        orders += [first[shift:] + first[:shift] for shift in shifts]
    return [
        BatchKey(model, number, arm, release, launch)
        for number, order in enumerate(orders[:tuples], 1)
        for launch in range(launches)
        for arm, release in order
    ]

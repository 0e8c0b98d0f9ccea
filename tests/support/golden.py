"""A golden history: forty releases of sixty rows with planted faults, and what each must be called.

The noise is small (0.3 % a pair), so that what is planted decides and not the draw: every planted change lies three
standard errors or more on its side of the boundary. ``python -m tests.support.golden STORE`` writes the baseline that
the history ends in; ``lqw baseline show golden --store STORE`` prints it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from lqw.canonical import canonical_bytes, sha256_bytes, write_atomic
from lqw.outcomes import Arm, Outcome, Purpose, Reason
from lqw.ratchet import (
    ComparatorIdentity,
    EpochKey,
    HostClass,
    RebaseRecord,
    RetireRecord,
    adopt,
    advance,
    baseline_to_json,
    point_of,
    rebase,
    references_for,
    retire,
)
from lqw.receipt.store import Store
from lqw.verdict import judge
from tests.support import synthetic as syn

MODELS = ("alpha", "beta", "gamma", "delta")
ROWS = (
    *(f"ttft@{n}" for n in (128, 256, 512, 1024, 2048, 4096)),
    *(f"ttft_cached@{n}" for n in (256, 512, 1024, 2048, 4096)),
    "decode",
    "agg@1",
    "agg@4",
    "rss_peak",
)
SD = 0.003
REASON = (
    "The release trades a tenth of this row for an answer that is right: the faster kernel left out the last tile of "
    "odd lengths, which no test had seen before; the captain and the approver looked at both receipts, agreed that the "
    "loss is wanted, and ask for the old level back in the release that tiles again."
)


@dataclass(frozen=True)
class Step:
    """One release. *better* are factors in the good direction; *blocks* names every row that does not pass."""

    release: str
    outcome: str
    blocks: dict[str, str] = field(default_factory=dict)
    better: dict[str, float] = field(default_factory=dict)
    comparator: dict[str, float] = field(default_factory=dict)
    voids: tuple[str, ...] = ()
    dead: str = ""  # model whose subject dies in its second pair
    short: str = ""  # model that was measured with two pairs only
    loud: dict[str, float] = field(default_factory=dict)  # SD of a model's pairs
    blocked_order: bool = False
    driver: str = "560"
    models: tuple[str, ...] = MODELS
    improved: tuple[str, ...] = ()
    says: str = ""  # in the sentence
    then: str = ""  # what people do afterwards: batch, floor, rebase ROW, retire MODEL


def _all(models, verdict):
    return {f"{model}/{row}": verdict for model in models for row in ROWS}


LESS = {f"{model}/{row}": 0.977 for model in MODELS for row in ROWS}
THREE = ("alpha", "beta", "gamma")
TILES, SOLID, FAST = "beta/ttft@4096", "gamma/agg@1", "beta/agg@4"
NOW = {SOLID: 1.05, TILES: 0.9, FAST: 1.06}

STORY = (
    Step("1.1.0", "PASS"),
    Step("1.2.0", "PASS"),
    Step("1.3.0", "RED", {"beta/decode": "RED"}, {"beta/decode": 0.80}, says="decode of beta is 0.80× what 1.0.0 had"),
    Step("1.4.0", "PASS"),
    # a drift of 1.2 % a release: no step of it shows against the last release, the floor adds them up
    Step("1.5.0", "PASS", better={"alpha/ttft@2048": 0.988}),
    Step("1.6.0", "PASS", better={"alpha/ttft@2048": 0.988**2}),
    Step("1.7.0", "RED", {"alpha/ttft@2048": "RED"}, {"alpha/ttft@2048": 0.988**4}, says="ttft@2048 of alpha takes 1.05×"),
    Step("1.8.0", "PASS"),
    # a broad small loss that no row shows
    Step("1.9.0", "RED", {}, LESS, says="rows together are at 0.97"),
    Step("1.10.0", "PASS"),
    # a proven improvement, a fresh batch, and what then counts as a loss
    Step("1.11.0", "PASS", better={SOLID: 1.05}, improved=(SOLID,), then="batch"),
    Step("1.12.0", "PASS", better={SOLID: 1.05}),
    Step("1.13.0", "RED", {SOLID: "RED"}, says="agg@1 of gamma is 0.95× what 1.11.0 had"),
    Step("1.14.0", "PASS", better={SOLID: 1.05}),
    # too good, and why: a slow denominator; and a fast one, which is no RED
    Step("1.15.0", "UNDECIDED", {"delta/decode": "SUSPECT"}, {SOLID: 1.05, "delta/decode": 1.4}, says="too good"),
    Step("1.16.0", "UNDECIDED", {"alpha/decode": "SUSPECT"}, {SOLID: 1.05}, {"alpha/decode": 1 / 1.85}, says="0.54× its own"),
    Step("1.17.0", "UNDECIDED", {"alpha/decode": "SUSPECT"}, {SOLID: 1.05}, {"alpha/decode": 1.3}, says="1.30× its own"),
    Step("1.18.0", "PASS", better={SOLID: 1.05}),
    # rows without numbers
    Step("1.19.0", "UNDECIDED", {"beta/decode": "VOID"}, {SOLID: 1.05}, voids=("beta/decode",), says="VOID_CORRECTNESS"),
    Step("1.20.0", "UNDECIDED", _all(["gamma"], "FAILED"), {SOLID: 1.05}, dead="gamma", says="ENGINE_DIED"),
    Step("1.21.0", "UNDECIDED", _all(["delta"], "MISSING"), {SOLID: 1.05}, short="delta", says="15 rows MISSING"),
    Step("1.22.0", "INVALID", better={SOLID: 1.05}, blocked_order=True, says="must not be blocked by arm"),
    Step("1.23.0", "PASS", better={SOLID: 1.05}),
    # a driver change: no floor of the old epoch is carried over
    Step("1.24.0", "UNDECIDED", _all(MODELS, "MISSING_FLOOR"), {SOLID: 0.9}, driver="570",
         says="host.driver_major: '560' became '570'; measure the floor of 1.0.0, 1.11.0 again here", then="floor"),
    Step("1.25.0", "PASS", better={SOLID: 1.05}, driver="570"),
    Step("1.26.0", "RED", {"beta/agg@1": "RED"}, {SOLID: 1.05, "beta/agg@1": 0.9}, driver="570", says="what 1.0.0 had"),
    Step("1.27.0", "PASS", better={SOLID: 1.05}, driver="570"),
    # a loss that is wanted: a record lowers one floor, for a term
    Step("1.28.0", "RED", {TILES: "RED"}, {SOLID: 1.05, TILES: 0.9}, driver="570", then=f"rebase {TILES}"),
    Step("1.29.0", "PASS", better={SOLID: 1.05, TILES: 0.9}, driver="570"),
    Step("1.30.0", "RED", {TILES: "RED"}, {SOLID: 1.05, TILES: 0.8}, driver="570", says="what 1.28.0 took"),
    Step("1.31.0", "PASS", better={SOLID: 1.05, TILES: 0.9}, driver="570"),
    # a model that is measured no more needs a record
    Step("1.32.0", "UNDECIDED", better={SOLID: 1.05, TILES: 0.9}, driver="570", models=THREE,
         says="delta/ttft@128 has a floor but is no longer measured", then="retire delta"),
    Step("1.33.0", "PASS", better={SOLID: 1.05, TILES: 0.9}, driver="570", models=THREE),
    # a model forty times as loud as it ever was: the comparator cannot tell itself from itself
    Step("1.34.0", "UNDECIDED", {}, {SOLID: 1.05, TILES: 0.9}, driver="570", models=THREE, loud={"beta": 0.12},
         says="the run cannot tell two engines apart"),
    Step("1.35.0", "PASS", better={SOLID: 1.05, TILES: 0.9}, driver="570", models=THREE),
    Step("1.36.0", "PASS", better={SOLID: 1.05, TILES: 0.9, FAST: 1.06}, driver="570", models=THREE, improved=(FAST,)),
    # proven, but no batch was measured: the floor stays where it was, and the last release still holds the gain
    Step("1.37.0", "RED", {FAST: "RED"}, {SOLID: 1.05, TILES: 0.9}, driver="570", models=THREE,
         says="agg@4 of beta is 0.95× what 1.36.0 had, the last release"),
    Step("1.38.0", "RED", {"alpha/rss_peak": "RED"}, {**NOW, "alpha/rss_peak": 0.9}, driver="570", models=THREE,
         says="rss_peak of alpha needs 1.11× what 1.0.0 needed"),
    Step("1.39.0", "PASS", better=NOW, driver="570", models=THREE),
    Step("1.40.0", "PASS", better=NOW, driver="570", models=THREE),
)  # fmt: skip


def key_of(driver):
    """The epoch of a driver; nothing else of the key ever changes here."""
    host = HostClass(
        gpu="H200", vram_mib=143_771, power_limit_w=700, cpu_model="EPYC", cores=64, ram_gib=512, driver_major=driver,
        cuda_major="12",
    )  # fmt: skip
    comparator = ComparatorIdentity(
        engine="llama", version="b11549", build="gcc", binary_sha256="b" * 64, settings_sha256="5" * 64
    )
    models = {model: str(i) * 64 for i, model in enumerate(MODELS)}
    return EpochKey(host=host, comparator=comparator, models=models, protocol_sha256="9" * 64)


def _effects(better):
    """Factors on the metrics themselves: a better latency is a smaller one."""
    out = {}
    for name, factor in better.items():
        short = name.rpartition("/")[2]
        out[name] = factor if short == "decode" or short.startswith("agg") else 1 / factor
    return out


def _starts(plan, step, seed):
    rng = np.random.default_rng(seed)
    pairs = None if plan.purpose is Purpose.ADOPT or step.loud else 3
    starts = syn.starts_of(
        plan, rng, sd=SD, pairs=pairs, effects=_effects(step.better), comparator_effects=step.comparator
    )
    if step.loud:
        noisy = syn.starts_of(plan, rng, sd=max(step.loud.values()), pairs=pairs, effects=_effects(step.better))
        starts = [b if a.model in step.loud else a for a, b in zip(starts, noisy, strict=True)]
    if step.dead:
        died = syn.failed(Reason.ENGINE_DIED, "exit 139")
        starts = [
            s.model_copy(update={"failure": died, "requests": [], "memory": None})
            if (s.model, s.pair, s.arm) == (step.dead, 2, Arm.SUBJECT)
            else s
            for s in starts
        ]
    if step.short:
        starts = [s for s in starts if s.model != step.short or s.pair < 3]
    if step.blocked_order:
        blocked = sorted(starts, key=lambda s: (s.model, s.arm, s.pair))
        starts = [s.model_copy(update={"position": i}) for i, s in enumerate(blocked)]
    return starts


def _judged(step, baseline, purpose, seed):
    plan = syn.plan(
        purpose, models=step.models, rows=ROWS, margin=0.10, floor_pairs=10, release=step.release, seed=seed
    )
    standing = references_for(baseline, key_of(step.driver), plan.rows, day="2026-06-01")
    voids = {row: syn.failed(Reason.VOID_CORRECTNESS, "token 3 differs") for row in plan.rows if str(row) in step.voids}
    return judge(syn.evidence(plan, _starts(plan, step, seed), standing, voids=voids))


def receipt_of(release, purpose=Purpose.GATE):
    """The sha256 that stands for a receipt which nobody writes here."""
    return sha256_bytes(f"{purpose} {release}".encode())


def _adopted(step, baseline, seed):
    judgement = _judged(step, baseline, Purpose.ADOPT, seed)
    assert judgement.outcome is Outcome.FLOOR, judgement.sentence
    receipt = receipt_of(step.release, Purpose.ADOPT)
    return adopt(baseline, judgement, key_of(step.driver), host="golden", receipt_sha256=receipt).baseline


def _record(baseline, step, **more):
    return {
        "host": "golden",
        "epoch_sha256": key_of(step.driver).sha256,
        "reason": REASON,
        "evidence_receipt_sha256": receipt_of(step.release),
        "author": "Ada Byron",
        "approver": "Grace Hopper",
        "created": "2026-03-01",
        **more,
    }


def _then(step, baseline, judgement, seed):
    """What people do after a release."""
    action, _, what = step.then.partition(" ")
    if action == "batch":
        return _adopted(step, baseline, seed + 1000)
    if action == "floor":  # the floor-setting releases again, by the binary that set the last floor
        return _adopted(replace(step, release="1.0.0", better={SOLID: 1.05}), baseline, seed + 1000)
    if action == "rebase":
        result = next(row for row in judgement.rows if str(row.row) == what)
        point = point_of(result, release=step.release, receipt_sha256=receipt_of(step.release))
        held = baseline.epochs[-1].rows[result.row].floor
        record = RebaseRecord.model_validate(
            {
                **_record(baseline, step),
                "schema": "lqw-rebase/1",
                "row": what,
                "old_floor": math.exp(held.value),
                "new_floor": math.exp(point.value),
                "expires": "2027-03-01",
            }
        )
        return rebase(baseline, record, point, name="0001-rebase.json", record_sha256="1" * 64)
    if action == "retire":
        rows = tuple(f"{what}/{row}" for row in ROWS)
        record = RetireRecord.model_validate({**_record(baseline, step), "schema": "lqw-retire/1", "rows": rows})
        return retire(baseline, record, name="0002-retire.json", record_sha256="2" * 64)
    return baseline


@dataclass(frozen=True)
class Told:
    """One release as it was judged: the baseline before it, after it, and after what people then did."""

    step: Step
    judgement: object
    before: object
    after: object
    then: object


def play():
    """Return (baseline after the first floor, one Told per release)."""
    first = baseline = _adopted(Step("1.0.0", "FLOOR"), None, 0)
    out = []
    for seed, step in enumerate(STORY, start=1):
        judgement = _judged(step, baseline, Purpose.GATE, seed)
        receipt = receipt_of(step.release)
        after = advance(baseline, judgement, key_of(step.driver), receipt_sha256=receipt).baseline
        then = _then(step, after, judgement, seed)
        out.append(Told(step, judgement, baseline, after, then))
        baseline = then
    return first, out


if __name__ == "__main__":
    place = Store(Path(sys.argv[1])).baseline("golden")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, canonical_bytes(baseline_to_json(play()[1][-1].then)))
    print(place)  # noqa: T201 - a script

"""Journals made of numbers: starts whose values of every row are exactly what a test asks for."""

from __future__ import annotations

import math

import numpy as np

from lqw.metrics import RowId
from lqw.noise.rows import Reference, RowReferences
from lqw.outcomes import Arm, Purpose
from lqw.plan import Plan, Policy, _orders
from lqw.samples import Failure, MemoryPeaks, RequestSample, StartRecord
from lqw.verdict import ComparatorPoint, Evidence, Standing, judge

DEMO_ROWS = ("ttft@128", "ttft@512", "prefill@512", "decode", "agg@1", "agg@4", "ttft_cached@512", "rss_peak")
LEVEL = {
    "ttft@128": 370.0,
    "ttft@512": 1400.0,
    "prefill@512": 512 / 1.4,
    "decode": 45.0,
    "agg@1": 45.0,
    "agg@4": 90.0,
    "ttft_cached@512": 330.0,
    "rss_peak": 4.5e8,
    **{f"ttft@{n}": n / 0.366 for n in (256, 1024, 2048, 4096)},
    **{f"ttft_cached@{n}": 330.0 for n in (256, 1024, 2048, 4096)},
}
WINDOW_S = 0.5
TOKENS = 64


def plan(
    purpose=Purpose.GATE,
    *,
    models=("m",),
    rows=DEMO_ROWS,
    looks=(3, 5, 7, 9),
    floor_pairs=6,
    margin=0.40,
    release="1.1.0",
    seed=7,
    **policy,
):
    pairs = floor_pairs if purpose is Purpose.ADOPT else looks[-1]
    return Plan(
        purpose=purpose,
        release=release,
        host="demo",
        seed=seed,
        rows=tuple(RowId.parse(f"{model}/{short}") for model in models for short in rows),
        orders={model: _orders(seed, model, pairs) for model in models},
        policy=Policy(looks=looks, floor_pairs=floor_pairs, margin=margin, margin_class="D", **policy),
        params_sha256="0" * 64,
    )


def _request(step, prompt_tokens, ttft_ns, gaps_ns=(), *, stream=0):
    return RequestSample(
        step=step,
        role="timed",
        repeat=0,
        stream=stream,
        prompt_tokens=prompt_tokens,
        prompt_sha256="p" * 64,
        want_tokens=len(gaps_ns) + 1,
        due_ns=0,
        sent_ns=0,
        connect_ns=0,
        ttft_ns=ttft_ns,
        gaps_ns=list(gaps_ns),
        chunk_tokens=[1] * (len(gaps_ns) + 1),
    )


def _requests(values):
    out = []
    for short, value in values.items():
        row = RowId.parse(f"m/{short}")
        if row.metric == "ttft":
            out.append(_request(f"cold@{row.size}", row.size, round(value * 1e6)))
        elif row.metric == "prefill" and f"ttft@{row.size}" not in values:
            out.append(_request(f"cold@{row.size}", row.size, round(row.size / value * 1e9)))
        elif row.metric == "ttft_cached":
            out.append(_request(f"cached@{row.size}", row.size, round(value * 1e6)))
        elif row.metric in ("decode", "agg"):
            streams = row.size or 1
            gap = round(streams / value * 1e9)
            step = "decode" if row.size is None else f"agg@{row.size}"
            out += [_request(step, 64, 10_000_000, [gap] * TOKENS, stream=s) for s in range(streams)]
    return out


def start(model, pair, arm, position, values, *, launch=0, failure=None):
    rss = values.get("rss_peak")
    return StartRecord(
        model=model,
        pair=pair,
        arm=arm,
        launch=launch,
        position=position,
        started_utc="2026-01-01T00:00:00Z",
        origin_ns=position,
        wall_s=1.0,
        requests=[] if failure else _requests(values),
        memory=MemoryPeaks(rss_anon_bytes=None if rss is None else round(rss)),
        failure=failure,
    )


def row_values(rows, rng, sd, effects):
    """Values of one start: lognormal around LEVEL, *effects* multiply the metric itself (2.0 doubles a TTFT)."""
    out = {}
    for short in rows:
        noise = sd if short != "rss_peak" else min(sd, 0.003)
        size = short.partition("@")[2]
        if short.startswith("prefill") and f"ttft@{size}" in out:
            out[short] = int(size) / out[f"ttft@{size}"] * 1e3
        else:
            out[short] = LEVEL[short] * effects.get(short, 1.0) * math.exp(rng.normal(0.0, noise / math.sqrt(2)))
    return out


def starts_of(plan_, rng, *, sd=0.05, pairs=None, effects=None, comparator_effects=None):
    """Starts in the plan's order; *effects* act on the subject, per row (or per ``model/row``)."""
    out, position = [], 0
    shorts = tuple(dict.fromkeys(row.short for row in plan_.rows))
    for model, orders in plan_.orders.items():
        for pair, order in enumerate(orders[:pairs], start=1):
            for arm in order:
                given = (effects if arm is Arm.SUBJECT else comparator_effects) or {}
                mine = {k.rpartition("/")[2]: v for k, v in given.items() if "/" not in k or k.startswith(f"{model}/")}
                out.append(start(model, pair, arm, position, row_values(shorts, rng, sd, mine)))
                position += 1
    return out


def evidence(plan_, starts, standing=None, **more):
    return Evidence(plan=plan_, starts=starts, min_window_s=WINDOW_S, standing=standing or Standing(), **more)


def standing_of(judgement, *, receipt="f" * 64, targets_met=()):
    """Standing after adopting *judgement* as the floor."""
    references, comparator = {}, {}
    for row in judgement.rows:
        d, logs = np.array(row.d), np.log(row.comparator_values)
        references[row.row] = RowReferences(
            floor=Reference(
                value=float(d.mean()),
                n=len(d),
                ss=float(((d - d.mean()) ** 2).sum()),
                df=len(d) - 1,
                release=judgement.release,
                receipt_sha256=receipt,
                d=row.d,
            )
        )
        point = ComparatorPoint(
            release=judgement.release, mean=float(logs.mean()), sd=float(logs.std(ddof=1)), n=len(d)
        )
        comparator[row.row] = (point,)
    return Standing(references=references, comparator=comparator, targets_met=targets_met)


def floor(rng, *, sd=0.05, **options):
    """Return (judgement, standing) of an adopt run of release 1.0.0."""
    adopt = plan(Purpose.ADOPT, release="1.0.0", **options)
    judgement = judge(evidence(adopt, starts_of(adopt, rng, sd=sd)))
    return judgement, standing_of(judgement)


def failed(reason, detail="seen"):
    return Failure(reason=reason, detail=detail)

"""Receipts of all kinds of pages, made from invented starts that go through the real judge."""

from __future__ import annotations

import json
import math
import random
from itertools import count

from lqw.canonical import canonical_bytes, sha256_bytes
from lqw.correctness import CorrectnessResult, correctness_to_json
from lqw.correctness.result import Check
from lqw.metrics import RowId
from lqw.noise.rows import Reference, RowReferences, Spread
from lqw.outcomes import Arm, Purpose, Reason
from lqw.plan import Plan, Policy, _orders
from lqw.samples import EngineFacts, Failure, HostFacts, MemoryPeaks, RequestSample, StartRecord
from lqw.verdict import Evidence, judge
from lqw.verdict.evidence import ComparatorPoint, Standing, standing_to_json
from lqw.verdict.results import judgement_to_json

DEMO_ROWS = ("ttft@128", "ttft@512", "prefill@512", "decode", "agg@1", "agg@4", "ttft_cached@512", "rss_peak")
FULL_ROWS = (
    "ttft@850", "ttft@4096", "ttft@32768", "prefill@850", "prefill@4096", "prefill@32768", "decode", "agg@1", "agg@4",
    "agg@16", "ttft_cached@4096", "vram_peak", "rss_peak",
)  # fmt: skip
BASE = {"ttft": 2.7, "decode": 45.0, "agg": 44.0, "ttft_cached": 330.0, "rss_peak": 4.1e8, "vram_peak": 9.2e9}
TARGETS = {"prefill": 0.8, "decode": 0.9, "ttft_cached": 1.5}
HEX = "0123456789abcdef" * 4
HOST = HostFacts(
    name="demo", cpu_model="Intel Xeon Processor @ 2.80 GHz", cores=2, ram_gib=24, kernel="6.1.0", python="3.11.2"
)
MARGIN = "a shared two-core machine: neighbours move single requests by a factor of two"


def _level(row, factor):
    """Return the subject-independent level of a row in its unit; *factor* is oriented, larger is better."""
    scale = BASE["ttft"] * (row.size or 1) if row.metric in ("ttft", "prefill") else BASE[row.metric]
    if row.metric == "agg":
        scale *= (row.size or 1) ** 0.6
    if row.metric == "prefill":
        return 1e3 / BASE["ttft"] * factor
    return scale * factor if row.kind.sign > 0 else scale / factor


def _requests(rows, level):
    out = []
    for row in rows:
        step = row.kind.step if row.size is None else f"{row.kind.step}@{row.size}"
        if row.metric == "prefill" or row.kind.step == "memory":
            continue  # the ttft row of the same length carries a prefill row
        streams = row.size if row.metric == "agg" else 1
        value = level(row)
        for stream in range(streams):
            rate = value / streams if row.metric == "agg" else value
            many = row.metric in ("agg", "decode")
            gaps = [round(1e9 / rate)] * 255 if many else []
            ttft = 50_000_000 if many else round(value * 1e6)
            out.append(
                RequestSample(
                    step=step, role="timed", repeat=0, stream=stream, prompt_tokens=row.size or 64, prompt_sha256=HEX,
                    want_tokens=256 if many else 1, due_ns=0, sent_ns=1000, connect_ns=1000, ttft_ns=ttft,
                    gaps_ns=gaps, chunk_tokens=[1] * (len(gaps) + 1), end_ns=1000 + ttft + sum(gaps), status=200,
                )
            )  # fmt: skip
    return out


def engine(arm, settings=None):
    return EngineFacts(
        engine="llama-server" if arm is Arm.COMPARATOR else "embedded", version="b11549", build="11549 (5d113b0)",
        binary_sha256=HEX[::-1] if arm is Arm.SUBJECT else HEX, compute="cpu", env={"OMP_NUM_THREADS": "2"},
        command=["llama-server", "-m", "model.gguf", "-np", "1", "-c", "704", "--cache-ram", "0", "-t", "2"],
        settings={"n_ctx": 704, "total_slots": 1, "n_ubatch": 512, "flash_attn": "auto", **(settings or {})},
    )  # fmt: skip


def make_starts(plan, *, seed=1, noise=0.02, subject=lambda row: 1.0, comparator=1.0, pairs=3, failed=None, facts=None):
    rng, position, out = random.Random(seed), count(), []
    for model, orders in plan.orders.items():
        rows = [row for row in plan.rows if row.model == model]
        for pair in range(1, pairs + 1):
            drift = math.exp(rng.gauss(0, noise))
            for arm in orders[pair - 1]:
                def level(row, arm=arm, drift=drift):
                    own = subject(row) if arm is Arm.SUBJECT else 1.0
                    noisy = 0.0015 if row.metric.endswith("_peak") else noise
                    return _level(row, own * comparator * drift ** (noisy > 0.01) * math.exp(rng.gauss(0, noisy)))

                failure = failed(model, pair, arm) if failed else None
                memory = MemoryPeaks(
                    rss_anon_bytes=round(level(RowId(model, "rss_peak"))),
                    vram_bytes=round(level(RowId(model, "vram_peak"))),
                )
                out.append(
                    StartRecord(
                        model=model, pair=pair, arm=arm, launch=0, position=next(position),
                        started_utc="2026-01-05T02:11:00Z", origin_ns=0, ready_s=0.8, wall_s=10.4,
                        engine=(facts or {}).get(arm) or engine(arm), memory=memory,
                        requests=[] if failure else _requests(rows, level), failure=failure,
                    )
                )  # fmt: skip
    return out


def make_plan(*, models=("gemma3-270m",), rows=DEMO_ROWS, purpose=Purpose.GATE, release="1.1.0", margin=0.30):
    policy = Policy(looks=(3, 5, 7, 9), floor_pairs=6, margin=margin, margin_class="D", one_token_detector="report")
    pairs = 6 if purpose is Purpose.ADOPT else 9
    return Plan(
        purpose=purpose, release=release, host="demo", seed=20260105, policy=policy, params_sha256=HEX,
        rows=tuple(RowId.parse(f"{model}/{short}") for model in models for short in rows),
        orders={model: _orders(20260105, model, pairs) for model in models},
    )  # fmt: skip


def make_standing(plan, *, last=True):
    """Return a standing from an adopt run of the same rows."""
    models = list(plan.orders)
    adopt = make_plan(
        models=models, rows=[row.short for row in plan.rows if row.model == models[0]], purpose=Purpose.ADOPT,
        release="1.0.0", margin=plan.policy.margin,
    )  # fmt: skip
    floors = judge(Evidence(plan=adopt, starts=make_starts(adopt, seed=9, pairs=6), min_window_s=0.1))
    references, points = {}, {}
    for row in floors.rows:
        mean = sum(row.d) / len(row.d)
        ss = sum((x - mean) ** 2 for x in row.d)
        floor = Reference(value=mean, n=6, ss=ss, df=5, release="1.0.0", receipt_sha256=HEX, d=row.d)
        previous = floor.model_copy(update={"value": mean + 0.015, "release": "1.0.4", "receipt_sha256": HEX[::-1]})
        references[row.row] = RowReferences(
            floor=floor, last=previous if last else floor, history=(Spread(ss=ss, df=5, release="1.0.0"),)
        )
        logs = [math.log(x) for x in row.comparator_values]
        middle = sum(logs) / len(logs)
        sd = math.sqrt(sum((x - middle) ** 2 for x in logs) / (len(logs) - 1))
        points[row.row] = (ComparatorPoint(release="1.0.0", mean=middle, sd=sd, n=6),)
    return Standing(epoch_sha256=HEX, references=references, comparator=points)


def header(plan):
    margin = {"letter": plan.policy.margin_class, "fraction": plan.policy.margin, "reason": MARGIN}
    return {
        "kind": "header", "schema": "lqw-samples/1", "run_id": "20260105T021100-demo", "purpose": str(plan.purpose),
        "started_utc": "2026-01-05T02:11:00Z", "plan": plan.to_json(), "plan_sha256": plan.sha256,
        "params": {
            "path": f"{plan.release}.yaml", "host": {"name": "demo", "margin": margin},
            "files": {f"demo/{plan.release}.yaml": HEX, "hosts/demo.yaml": HEX},
        },
        "host": HOST.model_dump(mode="json"), "models": dict.fromkeys(plan.orders, HEX),
        "lqw_version": "0.1.0", "lqw_source_sha256": HEX,
    }  # fmt: skip


def make_receipt(plan, starts, *, standing=None, voids=None, correctness=None, problems=()):
    standing = standing or Standing()
    judgement = judge(
        Evidence(
            plan=plan, starts=starts, min_window_s=0.1, voids=voids or {}, standing=standing, targets=TARGETS,
            problems=problems,
        )
    )  # fmt: skip
    correctness = correctness or CorrectnessResult(
        checks=(Check("gemma3-270m", "reference", "single", "france", "ok", "24 of 24 tokens equal"),),
        compared=dict.fromkeys(plan.orders, "ids"),
    )
    return {
        "schema": "lqw-receipt/1", "header": header(plan), "starts": [s.model_dump(mode="json") for s in starts],
        "standing": standing_to_json(standing), "correctness": correctness_to_json(correctness),
        "judgement": judgement_to_json(judgement),
        "calibration": {"ttft_error_p50_ms": 0.11, "ttft_error_p99_ms": 1.42, "itl_error_p50_ms": 0.04,
                        "itl_error_p99_ms": 0.9, "cpu_share": 0.13},
    }  # fmt: skip


def write_run(folder, receipt, *, notebooks=None):
    folder.mkdir(parents=True, exist_ok=True)
    if receipt is not None:
        (folder / "receipt.json").write_bytes(canonical_bytes(receipt))
    for name, book in (notebooks or {}).items():
        (folder / "notebooks").mkdir(exist_ok=True)
        (folder / "notebooks" / f"{name}.ipynb").write_text(json.dumps(book))
    return folder


def code(source, *, n=1, outputs=()):
    return {"cell_type": "code", "execution_count": n, "metadata": {}, "source": source, "outputs": list(outputs),
            "id": f"c{n}{abs(hash(source)) % 9999}"}  # fmt: skip


def prose(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text, "id": f"m{abs(hash(text)) % 99999}"}


def notebook(*cells, ended=True):
    papermill = {"end_time": "2026-01-05T02:20:00" if ended else None, "duration": 12.5}
    return {"cells": list(cells), "metadata": {"papermill": papermill, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}  # fmt: skip


CHAIN = {
    "10_collect": notebook(
        prose("# Collecting\n\nA *pair* is one fresh start of each engine, in an order drawn from the seed."),
        code("run = steps.begin('collect', params, run_dir)", n=1),
        code("run.collect()", n=2, outputs=[{"output_type": "stream", "name": "stdout", "text": "6 starts\n"}]),
    ),
    "20_correctness": notebook(prose("# Correctness before speed\n\n## Tokens\n\nDifferent tokens void the rows."),
                               code("run.correctness()", n=1)),
    "30_noise_band": notebook(prose("# The band\n\nσ is pooled within sessions, then shrunk."), code("run.band()", n=1)),
    "40_verdict": notebook(prose("# The verdict"), code("steps.conclude(run)", n=1)),
}  # fmt: skip


def kinds(*, models=("gemma3-270m",), rows=DEMO_ROWS):
    """Return a receipt of each kind, by name."""
    plan = make_plan(models=models, rows=rows)
    standing = make_standing(plan)
    sick = make_plan(models=models, rows=rows, release="1.2.0-one-token-prefill")
    slow = lambda row: 0.53 if row.metric in ("ttft", "prefill") else 0.6 if row.metric == "ttft_cached" else 1.0  # noqa: E731
    first = models[0]
    ids = Failure(
        reason=Reason.VOID_CORRECTNESS,
        detail="france (single) reference: first difference at token 7 of 24: 7001 against 7069",
    )
    voids = {row: ids for row in plan.rows if row.model == first}
    bad = CorrectnessResult(
        voids=voids,
        checks=(
            Check(first, "self", "single", "france", "ok", "2 of 2 answers equal"),
            Check(first, "reference", "single", "france", "void", ids.detail, Reason.VOID_CORRECTNESS),
            Check(first, "cycle", "agg@4", "lists", "flag", "a 3-token cycle at the end"),
        ),
        compared=dict.fromkeys(models, "ids"),
    )
    adopt = make_plan(models=models, rows=rows, purpose=Purpose.ADOPT, release="1.0.0")
    odd = {Arm.SUBJECT: engine(Arm.SUBJECT, {"n_ubatch": 1})}
    dead = Failure(reason=Reason.FAILED_START, detail="exit status 1 after 0.4 s", log_tail=["error: no such file"])
    noisy = make_starts(plan, noise=0.1, seed=4, subject=lambda row: 0.77 if row.metric == "agg" else 1.0, pairs=9)
    return {
        "PASS": make_receipt(plan, make_starts(plan, seed=3), standing=standing),
        "RED": make_receipt(sick, make_starts(sick, seed=5, subject=slow, facts=odd), standing=standing),
        "UNDECIDED": make_receipt(plan, noisy, standing=standing),
        "VOID": make_receipt(plan, make_starts(plan, seed=6), standing=standing, voids=voids, correctness=bad),
        "FLOOR": make_receipt(adopt, make_starts(adopt, seed=7, pairs=6)),
        "INVALID": make_receipt(plan, make_starts(plan, seed=8), standing=standing, problems=("start 3: ttft edited",)),
        "FAILED": make_receipt(
            plan, make_starts(plan, seed=3, failed=lambda m, p, arm: dead if (p, arm) == (2, Arm.SUBJECT) else None),
            standing=standing,
        ),
    }  # fmt: skip


__all__ = ["CHAIN", "kinds", "make_plan", "make_receipt", "make_starts", "notebook", "sha256_bytes", "write_run"]

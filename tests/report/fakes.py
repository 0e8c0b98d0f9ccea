"""Receipts of every kind of page, from runs made of numbers that go through the real judges."""

from __future__ import annotations

import copy
import json
import math
from functools import cache

from lqw.correctness import IdentityTask, reference_from
from lqw.noise.rows import Reference, RowReferences, Spread
from lqw.outcomes import Arm, Purpose, Reason
from lqw.plan import StartKey
from lqw.receipt import Inputs, compose_receipt, epoch_of, rejudge, standing_for
from lqw.receipt.build import seal
from lqw.samples import Failure
from lqw.testing.synthetic import DEMO_ROWS, synthetic_params, synthetic_run
from lqw.verdict.evidence import ComparatorPoint, Standing

MODEL = "gemma3-270m"
HEX = "0123456789abcdef" * 4
FULL_MODELS = ("qwen3.5-0.8b", "qwen3.5-2b", "qwen3.5-4b", "qwen3.5-9b", "gemma4-e4b")
FULL_ROWS = (
    "ttft@850", "ttft@4096", "ttft@32768", "prefill@850", "prefill@4096", "prefill@32768", "decode", "agg@1", "agg@4",
    "agg@16", "ttft_cached@4096", "rss_peak", "ttft@512",
)  # fmt: skip
TARGETS = {"prefill": 0.8, "decode": 0.9, "ttft_cached": 1.5}
SLOW = {"ttft@128": 1.8, "ttft@512": 1.9, "ttft_cached@512": 1.7}


def make_params(release="1.1.0", *, models=(MODEL,), rows=DEMO_ROWS, margin=0.3, **more):
    return synthetic_params(
        release=release, models=models, rows=rows, host="demo", targets=TARGETS, margin=margin, **more
    )


def _references(judged):
    out, points = {}, {}
    for row in judged.rows:
        mean = sum(row.d) / len(row.d)
        ss = sum((x - mean) ** 2 for x in row.d)
        floor = Reference(value=mean, n=len(row.d), ss=ss, df=len(row.d) - 1, release="1.0.0", receipt_sha256=HEX)
        last = floor.model_copy(update={"value": mean + 0.015, "release": "1.0.4", "receipt_sha256": HEX[::-1]})
        out[row.row] = RowReferences(floor=floor, last=last, history=(Spread(ss=ss, df=floor.df, release="1.0.0"),))
        logs = [math.log(x) for x in row.comparator_values]
        middle = sum(logs) / len(logs)
        sd = math.sqrt(sum((x - middle) ** 2 for x in logs) / (len(logs) - 1))
        points[row.row] = (ComparatorPoint(release="1.0.0", mean=middle, sd=sd, n=len(logs)),)
    return Standing(references=out, comparator=points)


def floor_of(params):
    """Return what a release like *params* is judged against: floors, history, token reference."""
    run = synthetic_run(params, Purpose.ADOPT, seed=9, sd=0.03)
    judged = rejudge(Inputs(run.header, run.starts, run.identities, Standing())).judgement
    reference = reference_from(run.identities, run.starts, task=IdentityTask.from_header(run.header))
    return _references(judged), reference


def make_receipt(params, run, floor=None, besides=()):
    """Return the content of a receipt that verifies."""
    standing, reference = floor or (standing_for(None, run.header, run.starts), None)
    if floor:
        epoch = epoch_of(run.header, params, run.starts)
        standing = standing.model_copy(update={"epoch_sha256": epoch.sha256})
    data = compose_receipt(
        Inputs(
            run.header,
            run.starts,
            run.identities,
            standing,
            reference,
            run.calibration,
            batch=run.batch,
            besides=besides,
        ),
        finished_utc="2026-01-05T02:31:00Z",
        baseline_sha256=HEX if floor else None,
        reference_sha256=HEX if floor else None,
    )
    return json.loads(data)


def resealed(receipt):
    """Return the bytes of an edited receipt with its digest made anew."""
    return seal(receipt)


def _edited(receipt):
    """Make the subject of one start one percent faster, and the digest anew."""
    request = next(r for s in receipt["starts"] if s["arm"] == "subject" for r in s["requests"] if r["role"] == "timed")
    request["ttft_ns"] = round(request["ttft_ns"] * 0.99)
    return receipt


@cache
def _kinds():
    params, first = make_params(), make_params("1.0.0")
    sick = make_params("1.2.0-one-token-prefill", subject_settings={"threads": 2, "ubatch": 1})
    tight = make_params(margin=0.11)
    floor = floor_of(first)
    dead = Failure(reason=Reason.FAILED_START, detail="exit status 1 after 0.4 s", log_tail=["error: <no> such file"])

    def gate(params, **how):
        return synthetic_run(params, Purpose.GATE, **{"sd": 0.03, "seed": 3, **how})

    return {
        "PASS": make_receipt(params, gate(params), floor),
        "RED": make_receipt(sick, gate(sick, effects=SLOW, seed=5), floor),
        "UNDECIDED": make_receipt(tight, gate(tight, sd=0.12, pairs=9, seed=2), floor),
        "VOID": make_receipt(params, gate(params, answers=1), floor),
        "FLOOR": make_receipt(first, synthetic_run(first, Purpose.ADOPT, sd=0.03, seed=7)),
        "INVALID": _edited(make_receipt(params, gate(params), floor)),
        "FAILED": make_receipt(params, gate(params, failures={StartKey(MODEL, 2, Arm.SUBJECT, 0): dead}), floor),
    }


def kinds():
    """Return a receipt of each kind of page, by name, for the caller to spoil.

    FAILED is an UNDECIDED whose engine did not start once; INVALID a PASS in which one sample was edited by 1 %.
    """
    return copy.deepcopy(_kinds())


@cache
def _full():
    """Return a RED receipt of five models with thirteen rows each."""
    shape = {"models": FULL_MODELS, "rows": FULL_ROWS, "repeats": 1, "agg_tokens": 32}
    slow = {"qwen3.5-9b/ttft@4096": 1.6, "gemma4-e4b/agg@16": 0.6}
    sick = make_params("2.1.0", **shape)
    run = synthetic_run(sick, Purpose.GATE, sd=0.03, seed=3, effects=slow)
    return make_receipt(sick, run, floor_of(make_params("1.0.0", **shape)))


def full():
    """Return :func:`_full` for the caller to spoil."""
    return copy.deepcopy(_full())


def write_run(folder, receipt=None, *, notebooks=None, journal=None):
    """Write a run folder as the chain leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    if receipt is not None:
        (folder / "receipt.json").write_bytes(receipt if isinstance(receipt, bytes) else seal(receipt))
    if journal is not None:
        (folder / "samples.jsonl").write_bytes(b"".join(journal))
    for name, book in (notebooks or {}).items():
        (folder / "notebooks").mkdir(exist_ok=True)
        (folder / "notebooks" / f"{name}.ipynb").write_text(json.dumps(book))
    return folder


def code(source, *, n=1, outputs=()):
    return {"cell_type": "code", "execution_count": n, "metadata": {}, "source": source, "outputs": list(outputs),
            "id": f"code{n}"}  # fmt: skip


def prose(text, n=0):
    return {"cell_type": "markdown", "metadata": {}, "source": text, "id": f"prose{n}"}


def shown(html=None, text="", png=None, alt=None):
    data = {"text/plain": text} | ({"text/html": html} if html else {}) | ({"image/png": png} if png else {})
    return {"output_type": "display_data", "data": data, "metadata": {"alt": alt} if alt else {}}


def raised(name, text, *trace):
    return {"output_type": "error", "ename": name, "evalue": text, "traceback": [*trace, f"{name}: {text}"]}


def notebook(*cells, ended=True):
    papermill = {"end_time": "2026-01-05T02:20:00" if ended else None, "duration": 12.5}
    return {"cells": list(cells), "metadata": {"papermill": papermill, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}  # fmt: skip


def chain():
    """Return four executed notebooks."""
    said = {"output_type": "stream", "name": "stdout", "text": "6 starts\n"}
    return {
        "10_collect": notebook(
            prose("# Collecting\n\nA *pair* is one fresh start of each engine, in an order drawn from the seed."),
            code("run = steps.begin('collect')", n=1),
            code("steps.collect(run)", n=2, outputs=[said]),
        ),
        "20_correctness": notebook(prose("# Correctness before speed\n\n## Tokens\n\nOther tokens void."), code("a")),
        "30_noise_band": notebook(prose("# The band\n\nσ is pooled within sessions, then shrunk."), code("b")),
        "40_verdict": notebook(prose("# The verdict"), code("steps.conclude(run)")),
    }


def broken_chain():
    """Return a chain whose second notebook broke."""
    trace = raised("RuntimeError", "engine <b>died</b>", "\x1b[31mTraceback (most recent call last)\x1b[0m")
    broke = notebook(prose("# Correctness"), code("steps.tokens(run)", outputs=[trace]), ended=False)
    return {"10_collect": chain()["10_collect"], "20_correctness": broke}


def broken_run(folder):
    """Write the folder of a run that broke in its second notebook."""
    run = synthetic_run(make_params(), Purpose.GATE, pairs=1)
    return write_run(folder, notebooks=broken_chain(), journal=run.lines())

"""Every leaf of a receipt, and every way to change it; ``python -m tests.support.tamper`` writes docs/receipt/tamper.md."""

import copy
import tempfile
from collections import defaultdict
from pathlib import Path

from lqw.canonical import loads_strict
from lqw.errors import Exit
from lqw.outcomes import Outcome, Purpose
from lqw.receipt import verify_receipt
from lqw.receipt.beside import held_beside
from lqw.receipt.build import seal
from lqw.testing.batches import with_batch
from lqw.testing.receipts import adopt_floor, gate_receipt, receipt_of
from lqw.testing.synthetic import synthetic_params, synthetic_run

TABLE = Path(__file__).parents[2] / "docs" / "receipt" / "tamper.md"
HOW = ("value", "type", "removed", "duplicated")
ROWS = ("ttft@16", "decode")

# Facts that no number of the verdict follows from. With a digest made anew (no signature yet) an edit of them goes
# unseen; it cannot move the verdict. Everything that is not listed here is caught by recomputation.
ALLOWED = {
    # when and how long: wall clocks are for people, the verdict uses none of them
    "run.finished_utc", "header.started_utc", "starts.*.started_utc", "starts.*.wall_s", "starts.*.ready_s",
    "starts.*.origin_ns", "identities.*.started_utc", "identities.*.wall_s",
    # names of this run and of who measured
    "header.run_id", "header.lqw_version", "header.lqw_source_sha256", "header.host.kernel", "header.host.python",
    "run.replayed",
    # what ran, beyond engine, version, build, binary and compute class
    "starts.*.engine.command.*", "starts.*.engine.settings.threads", "starts.*.telemetry",
    "identities.*.engine.command.*", "identities.*.engine.settings.threads",
    # of a request: when it was due and sent, the server's own clock, connection, bursts; the comparator's answer
    "starts.*.requests.*.due_ns", "starts.*.requests.*.sent_ns", "starts.*.requests.*.end_ns",
    "starts.*.requests.*.connect_ns", "starts.*.requests.*.burst_reads", "starts.*.requests.*.ids_sha256",
    "starts.*.requests.*.text_sha256",
    "starts.*.requests.*.timings.prompt_ms", "starts.*.requests.*.timings.prompt_n",
    "starts.*.requests.*.timings.predicted_ms",
    # decides from sixteen of one token on; which of the parallel streams an answer came by is named, no more
    "starts.*.requests.*.constant_run", "identities.*.answers.*.stream",
    # memory that no row of this protocol reads
    "starts.*.memory.rss_anon_bytes", "starts.*.memory.rss_file_bytes", "starts.*.memory.vm_hwm_bytes",
    "starts.*.memory.vram_bytes", "starts.*.memory.samples",
    # words about an answer: identity is judged by its ids
    "identities.*.answers.*.text", "reference.models.tiny.shapes.single.p0.text",
    "reference.models.tiny.shapes.single.p1.text",
    # the client's calibration and the files of the run folder, which are compared where they lie beside the receipt
    "calibration.cpu_share", "calibration.itl_error_p99_ms", "calibration.ttft_error_p50_ms",
    "calibration.ttft_error_p99_ms", "sources.baseline", "sources.reference",
    # of the floor and of earlier sessions: names, and what decides only where it exceeds the margin (the comparator's
    # own scatter) or where a family has three rows (the floor's batch)
    "standing.references.*.floor.d.*", "standing.references.*.floor.receipt_sha256", "standing.comparator.*.*.n",
    "standing.comparator.*.*.sd", "standing.comparator.*.*.release", "reference.release",
    "reference.models.tiny.engine", "reference.models.tiny.binary_sha256",
}  # fmt: skip

# Fields that may be absent: they hold their default here (so that nothing changes), or are a cross-check that not every
# engine can give. Their *values* are bound: see the other tables.
OPTIONAL = {
    "header.host.cuda", "header.host.driver", "header.host.gpu", "header.host.power_limit_w", "header.host.vram_mib",
    "header.kind", "header.schema", "identities.*.kind", "starts.*.kind", "reference.schema",
    "starts.*.steps",
    "starts.*.failure", "starts.*.requests.*.failure", "identities.*.failure", "identities.*.answers.*.failure",
    "starts.*.memory.vram_method", "starts.*.requests.*.gaps_ns", "starts.*.requests.*.timings.cache_n",
    "starts.*.requests.*.timings.predicted_n",
    "identities.*.answers.*.prompt_tokens", "reference.models.tiny.shapes.single.p0.prompt_tokens",
    "reference.models.tiny.shapes.single.p1.prompt_tokens", "run.attempt", "run.earlier", "run.resumed",
    "standing.differences", "standing.dropped", "standing.references.*.history", "standing.references.*.last",
    "standing.retired", "standing.remeasure", "standing.targets_met", "standing.tau",
    "identities.*.twins", "identities.*.answers.*.margins",
}  # fmt: skip

# The same of a confirmation batch. Its old build is held to the receipt that set the floor, found in the store.
BATCH_ALLOWED = {f"batch.{name}" for name in ALLOWED if name.startswith("starts.")} | {
    "batch.declared.declared_utc",
}


def batch_receipt(folder):
    """Return a RED that a third arm has confirmed, and where to find the receipts that set its floors."""
    store = adopt_floor(folder, synthetic_params(rows=ROWS, release="1.0.0", repeats=1))
    params, slow = synthetic_params(rows=ROWS, release="1.1.0", repeats=1), {"ttft@16": 3.0}
    run = with_batch(synthetic_run(params, Purpose.GATE, seed=3, effects=slow), params, effects=slow)
    return loads_strict(receipt_of(run, store)), held_beside(store.baseline(params.host.name))


# Bound where it decides: the last start may stand at a higher position, since the order of the starts stays what it was.
BY_PLACE = {"starts.*.position"}


def receipts(folder):
    """Return (a PASS, a RED) as parsed JSON, against one adopted floor."""
    store = adopt_floor(folder, synthetic_params(rows=ROWS, release="1.0.0", repeats=1))
    params = synthetic_params(rows=ROWS, release="1.1.0", repeats=1)
    good, bad = gate_receipt(store, params, seed=3), gate_receipt(store, params, seed=3, effects={"ttft@16": 3.0})
    assert (verify_receipt(good).outcome, verify_receipt(bad).outcome) == (Outcome.PASS, Outcome.RED)
    return loads_strict(good), loads_strict(bad)


TEXTS = {"ids_sha256", "gpu", "driver", "cuda", "previous", "vram_method", "baseline", "reference", "sha256"}


def leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def pattern(path):
    """Return the path with list positions, and keys that are names of rows, as ``*``."""
    return ".".join("*" if isinstance(part, int) or "/" in part else part for part in path)


def kinds_of_leaf(document):
    """Return pattern → all paths of it."""
    out = defaultdict(list)
    for path in leaves(document):
        out[pattern(path)].append(path)
    return out


def changed(document, path, how):
    """Return a copy with the leaf at *path* changed, or None where that change is no change."""
    out = copy.deepcopy(document)
    holder = out
    for part in path[:-1]:
        holder = holder[part]
    old = holder[path[-1]]
    if how == "removed":
        del holder[path[-1]]
    elif how == "duplicated":
        if not isinstance(holder, list):
            return None  # a duplicate key cannot be in parsed JSON: see test_duplicate_keys
        holder.insert(path[-1], copy.deepcopy(old))
    else:
        holder[path[-1]] = other_type(old) if how == "type" else other_value(old)
        if old is None and how == "value" and path[-1] in TEXTS:
            holder[path[-1]] = "0" * 64
    return out


def lists(value, path=()):
    """Yield the path of every list of at least two items."""
    if isinstance(value, list) and len(value) > 1:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from lists(item, (*path, key))


def swapped(document):
    """Yield every document in which two unlike neighbours of a list have changed places."""
    for path in lists(document):
        held = document
        for part in path:
            held = held[part]
        for at in range(len(held) - 1):
            if held[at] != held[at + 1]:
                out = copy.deepcopy(document)
                holder = out
                for part in path:
                    holder = holder[part]
                holder[at], holder[at + 1] = holder[at + 1], holder[at]
                yield path, f"{at} with {at + 1}", out


def other_value(old):
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return round(old * 1.01) if old >= 100 else old + 1
    if isinstance(old, float):
        return old * 1.01
    if isinstance(old, str):
        return (("0" if old[0] != "0" else "1") + old[1:]) if old else "x"
    return {"NoneType": 1, "list": [1], "dict": {"x": 1}}[type(old).__name__]


def other_type(old):
    return "1" if isinstance(old, bool | int | float) else 1 if isinstance(old, str) else "x"


def tampered(document, *, having="", find=None):
    """Yield (kind of leaf, how it was changed, what the verifier said), the digest made anew each time.

    *having* takes only the kinds that have this in their name.
    """
    for name, paths in kinds_of_leaf(document).items():
        if having not in name:
            continue
        for how in HOW:
            edited = None if name == "digest" else changed(document, paths[0], how)
            if edited is not None:
                yield name, how, verify_receipt(seal(edited), find=find)


def caught_by(verified):
    """Return the checks that caught an edit, or that none did and the verdict stayed."""
    checks = dict.fromkeys(problem.check for problem in verified.problems)
    return ", ".join(checks) if verified.exit_status == Exit.INVALID else "–"


HEAD = """# What catches an edit

Every kind of leaf of a receipt, changed in each way, **with the digest made anew** as a forger would. With the digest
left as it was, every edit of any byte is INVALID by the digest alone (or by the canonical form). Written by
`python -m tests.support.tamper`; a test holds it equal to what the verifier does.

`schema`: types, lengths, missing and unknown fields. `structure`: not the shape that the receipt's own plan demands.
`recompute`: it does not follow from the samples. `–`: nothing follows from it, and the verdict stays what it was (never
a better one); only a signature can bind these. A dash under *removed* also marks optional fields at their default.
`duplicated` is for items of lists; a duplicate key is refused everywhere. The starts of a confirmation batch
(`batch.starts`) are held as `starts` are, and a test goes through every kind of leaf of a batch as well.

| field | value | type | removed | duplicated |
|---|---|---|---|---|
"""


def table(said):
    """Return the page, from what :func:`tampered` yielded."""
    rows = defaultdict(dict)
    for name, how, verified in said:
        rows[name][how] = caught_by(verified)
    lines = [f"| `{name}` | " + " | ".join(found.get(how, "") for how in HOW) + " |" for name, found in rows.items()]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        TABLE.write_text(table(tampered(receipts(Path(made))[1])))

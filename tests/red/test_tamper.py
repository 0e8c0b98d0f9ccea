"""Every leaf of a receipt, changed: with a stale digest always INVALID; with the digest made anew, never a better verdict.

A leaf is named by its path with list positions as ``*``. Each kind of leaf is changed in every way; what nothing can be
derived from stands in ALLOWED, and the test holds that table exact in both directions.
"""

import copy
import json
from collections import defaultdict

import pytest

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import Exit
from lqw.outcomes import Outcome
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

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


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    """Return (a PASS, a RED) as parsed JSON, against one adopted floor."""
    floor = synthetic_params(rows=ROWS, release="1.0.0", repeats=1)
    store = adopt_floor(tmp_path_factory.mktemp("store"), floor)
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


def test_every_kind_of_leaf_is_caught_by_the_digest_alone(receipts):
    good, _ = receipts
    for number, (name, paths) in enumerate(kinds_of_leaf(good).items()):
        if name == "digest":
            continue
        how = ("value", "type", "removed", "duplicated")[number % 4]
        edited = changed(good, paths[0], how) or changed(good, paths[0], "value")
        verified = verify_receipt(canonical_bytes(edited))
        assert verified.exit_status == Exit.INVALID, name
        assert {"digest", "schema"} & {problem.check for problem in verified.problems}, name


def test_no_leaf_buys_a_better_verdict_when_the_digest_is_made_anew(receipts):
    """Each kind of leaf, changed in each way, on a RED receipt: INVALID, or still RED where nothing follows from it."""
    _, bad = receipts
    unseen = set()
    for name, paths in kinds_of_leaf(bad).items():
        for how in ("value", "type", "removed", "duplicated"):
            edited = changed(bad, paths[0], how)
            if edited is None or name == "digest":
                continue
            verified = verify_receipt(seal(edited))
            assert verified.exit_status in (Exit.INVALID, Exit.RED), (name, how)
            if verified.exit_status != Exit.INVALID:
                unseen.add((name, how))
    values = {name for name, how in unseen if how == "value"}
    assert values - ALLOWED == set(), "edits that recomputation should have caught"
    assert ALLOWED - values == set(), "entries of the table that are caught after all: take them out"
    gone = {name for name, how in unseen if how == "removed"}
    assert gone <= ALLOWED | OPTIONAL, "removals that should have been caught"
    assert gone >= OPTIONAL, "entries of the table that are caught after all: take them out"
    assert {name for name, how in unseen if how in ("type", "duplicated")} <= ALLOWED


# Fields that may be absent: they hold their default here (so that nothing changes), or are a cross-check that not every
# engine can give. Their *values* are bound: see the other tables.
OPTIONAL = {
    "header.host.cuda", "header.host.driver", "header.host.gpu", "header.host.power_limit_w", "header.host.vram_mib",
    "header.kind", "header.schema", "identities.*.kind", "starts.*.kind", "reference.schema",
    "starts.*.failure", "starts.*.requests.*.failure", "identities.*.failure", "identities.*.answers.*.failure",
    "starts.*.memory.vram_method", "starts.*.requests.*.gaps_ns", "starts.*.requests.*.timings.cache_n",
    "starts.*.requests.*.timings.predicted_n",
    "identities.*.answers.*.prompt_tokens", "reference.models.tiny.shapes.single.p0.prompt_tokens",
    "reference.models.tiny.shapes.single.p1.prompt_tokens", "run.attempt", "run.earlier", "run.resumed",
    "standing.differences", "standing.dropped", "standing.references.*.history", "standing.references.*.last",
    "standing.retired", "standing.targets_met", "standing.tau",
}  # fmt: skip


def test_every_single_number_of_the_samples_is_bound(receipts):
    """All stamps, not one of each kind: a change of 1 % is caught by recomputation even when the digest is made anew."""
    good, _ = receipts
    for path in leaves(good):
        if path[-1] == "ttft_ns" or (len(path) > 5 and path[-2] in ("gaps_ns", "ids")):
            if path[0] == "starts" and role_of(good, path) != "timed":
                continue
            verified = verify_receipt(seal(changed(good, path, "value")))
            assert verified.exit_status == Exit.INVALID, path


def role_of(document, path):
    return document["starts"][path[1]]["requests"][path[3]]["role"]


def test_one_percent_is_caught_twice(receipts):
    good, _ = receipts
    path = next(p for p in leaves(good) if p[-1] == "ttft_ns" and role_of(good, p) == "timed")
    edited = changed(good, path, "value")
    stale, anew = verify_receipt(canonical_bytes(edited)), verify_receipt(seal(edited))
    assert {problem.check for problem in stale.problems} >= {"digest", "recompute"}
    assert {problem.check for problem in anew.problems} >= {"recompute"}
    row = next(problem for problem in anew.problems if problem.field.startswith("judgement.rows"))
    assert row.recorded != row.recomputed


def test_duplicate_keys_are_refused_wherever_they_stand(receipts):
    good, _ = receipts
    text = canonical_bytes(good).decode()
    for key in ("digest", "seed", "ttft_ns", "outcome", "exit_status", "sha256", "references"):
        at = text.index(f'"{key}":')
        verified = verify_receipt((text[:at] + f'"{key}":0,' + text[at:]).encode())
        assert verified.exit_status == Exit.INVALID
        assert "duplicate key" in str(verified.problems[0])


def swap_arms(document):
    for start in document["starts"]:
        start["arm"] = {"subject": "comparator", "comparator": "subject"}[start["arm"]]


def drop_last_pair(document):
    document["starts"] = [start for start in document["starts"] if start["pair"] != 3]


def repeat_pair(document):
    document["starts"] += [{**start, "position": start["position"] + 1000} for start in document["starts"][-2:]]


def block_the_order(document):
    ordered = sorted(document["starts"], key=lambda start: start["arm"])
    for position, start in enumerate(ordered, start=1):
        start["position"] = position


def call_it_a_floor(document):
    document["header"]["purpose"] = document["header"]["plan"]["purpose"] = "adopt"


def raise_the_margin(document):
    document["header"]["params"]["host"]["margin"]["fraction"] = 0.9


def lower_the_floor(document):
    for references in document["standing"]["references"].values():
        references["floor"]["value"] -= 2.0


def another_host(document):
    document["header"]["host"]["name"] = "elsewhere"


def another_machine(document):
    document["header"]["host"]["cores"] = 128


def another_binary(document):
    for start in document["starts"]:
        if start["arm"] == "subject":
            start["engine"]["binary_sha256"] = "0" * 64


def no_rows(document):
    document["header"]["params"]["protocol"]["rows"] = []


def forget_an_attempt(document):
    document["run"]["attempt"] = 2


def say_otherwise(document):
    judgement = document["judgement"]
    passed = judgement["outcome"] == "PASS"
    judgement["outcome"], judgement["exit_status"] = ("RED", 1) if passed else ("PASS", 0)


ATTACKS = [
    swap_arms, drop_last_pair, repeat_pair, block_the_order, call_it_a_floor, raise_the_margin, lower_the_floor,
    another_host, another_machine, another_binary, no_rows, forget_an_attempt, say_otherwise,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_with_a_digest_made_anew(receipts, attack):
    for document in receipts:
        edited = copy.deepcopy(document)
        attack(edited)
        verified = verify_receipt(seal(edited))
        assert verified.exit_status == Exit.INVALID, verified.outcome
        assert verified.problems


def test_a_pass_cannot_be_made_of_nothing(receipts):
    good, _ = receipts
    empty = {**good, "starts": [], "identities": []}
    verified = verify_receipt(seal(empty))
    assert verified.exit_status == Exit.INVALID
    assert verified.counts.measured == 0


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"schema":"lqw-receipt/1"}', b"[" * 100_000, b'{"a":NaN}',
        b'{"a":1e400}', b'{"starts":' + b"[" * 70 + b"]" * 70 + b"}", json.dumps({"digest": "x" * 200_000}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_receipt_is_invalid_and_never_an_exception(data):
    verified = verify_receipt(data)
    assert (verified.outcome, verified.exit_status) == (Outcome.INVALID, Exit.INVALID)
    assert verified.problems
    assert str(verified.counts) == "rows: planned 0, measured 0, gating 0, void 0, failed 0"


def test_a_receipt_written_otherwise_is_not_that_file(receipts):
    """Whitespace, key order: the same JSON, another file. Its sha256 would be another receipt's."""
    good, _ = receipts
    for data in (json.dumps(good, indent=1).encode(), canonical_bytes(good) + b"\n"):
        verified = verify_receipt(data)
        assert verified.exit_status == Exit.INVALID
        assert [problem.check for problem in verified.problems] == ["canonical"]

"""Building and verifying receipts: the same verdict from the file alone, and every disagreement named."""

import copy
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from lqw.canonical import canonical_bytes, loads_strict, sha256_bytes
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Arm, Outcome, Purpose, Reason
from lqw.plan import StartKey
from lqw.receipt import build_receipt, source, verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.compare import differences
from lqw.receipt.store import Store
from lqw.samples import Failure
from lqw.testing.receipts import adopt_floor, gate_receipt, receipt_of, stored
from lqw.testing.synthetic import synthetic_params, synthetic_run

FINISHED = "2026-01-01T00:10:00Z"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return adopt_floor(tmp_path_factory.mktemp("store"), synthetic_params(release="1.0.0"))


@pytest.fixture(scope="module")
def params():
    return synthetic_params(release="1.1.0")


def test_an_adopted_floor_verifies_from_its_file(store):
    verified = verify_receipt(store.receipt("synthetic", "1.0.0"))
    assert (verified.outcome, verified.exit_status, verified.problems) == (Outcome.FLOOR, Exit.PASS, ())
    assert verified.receipt_sha256 == sha256_bytes(store.receipt("synthetic", "1.0.0").read_bytes())


@pytest.mark.parametrize(
    ("options", "outcome", "status"),
    [
        ({"seed": 5}, Outcome.PASS, 0),
        ({"seed": 5, "effects": {"ttft@512": 2.5}}, Outcome.RED, 1),
        ({"seed": 5, "answers": 1}, Outcome.UNDECIDED, 3),
        ({"seed": 5, "pairs": 2}, Outcome.UNDECIDED, 3),
    ],
)
def test_outcome_and_exit_status_are_those_of_the_samples(store, params, options, outcome, status):
    verified = verify_receipt(gate_receipt(store, params, **options))
    assert (verified.outcome, int(verified.exit_status), verified.problems) == (outcome, status, ())


def test_zero_rows_are_never_a_pass(store, params):
    dead = Failure(reason=Reason.FAILED_START, detail="exit 1", log_tail=["no such file"])
    keys = [StartKey("tiny", pair, arm, launch) for pair in (1, 2, 3) for arm in Arm for launch in (0, 1)]
    verified = verify_receipt(gate_receipt(store, params, failures=dict.fromkeys(keys, dead)))
    assert (verified.outcome, verified.exit_status) == (Outcome.UNDECIDED, Exit.UNDECIDED)
    assert str(verified.counts) == "rows: planned 8, measured 0, gating 0, void 0, failed 8"


def test_a_failed_start_may_have_stopped_early(store, params):
    key = StartKey("tiny", 2, Arm.SUBJECT, 0)
    run = synthetic_run(params, Purpose.GATE, seed=5)
    at = next(i for i, s in enumerate(run.starts) if (s.pair, s.arm, s.launch) == (key.pair, key.arm, key.launch))
    died = Failure(reason=Reason.ENGINE_DIED, detail="signal 9")
    starts = list(run.starts)
    starts[at] = starts[at].model_copy(update={"requests": starts[at].requests[:3], "failure": died})
    verified = verify_receipt(receipt_of(type(run)(run.header, tuple(starts), run.identities), store))
    assert (verified.outcome, verified.problems) == (Outcome.UNDECIDED, ())


def edited(run, change):
    """Return the run with *change* applied to the JSON of its fourth start."""
    start = run.starts[4]
    document = start.model_dump(mode="json")
    change(document)
    again = type(start).model_validate_json(canonical_bytes(document))
    return type(run)(run.header, (*run.starts[:4], again, *run.starts[5:]), run.identities, run.calibration)


def drop_slowest(start):
    timed = [r for r in start["requests"] if r["step"] == "cold@512" and r["role"] == "timed"]
    start["requests"].remove(max(timed, key=lambda r: r["ttft_ns"]))


def ask_twice(start):
    start["requests"].append(copy.deepcopy(start["requests"][-1]))


def ask_extra(start):
    start["requests"].append({**start["requests"][0], "repeat": 9})


def other_prompt(start):
    start["requests"][0]["prompt_sha256"] = "0" * 64


def shorter_prompt(start):
    start["requests"][0]["prompt_tokens"] = 100


def never_primed(start):
    start["requests"] = [r for r in start["requests"] if r["role"] != "prime"]


def warm_cold_row(start):
    start["requests"][0]["timings"]["cache_n"] = 100


def cached_without_reuse(start):
    next(r for r in start["requests"] if r["step"] == "cached@512" and r["role"] == "timed")["timings"] = None


def more_tokens(start):
    next(r for r in start["requests"] if r["step"] == "decode")["chunk_tokens"][-1] = 9


def lost_gap(start):
    next(r for r in start["requests"] if r["step"] == "decode")["gaps_ns"].pop()


def no_first_token(start):
    start["requests"][0]["ttft_ns"] = None


def ended_before_its_last_token(start):
    start["requests"][0]["end_ns"] = 1


def http_500(start):
    start["requests"][0]["status"] = 500


def another_engine(start):
    start["engine"]["engine"] = "apr"


def on_the_gpu(start):
    start["engine"]["compute"] = "cuda"


def rebuilt(start):
    start["engine"]["binary_sha256"] = "0" * 64


def no_engine(start):
    start["engine"] = None


def fourth_launch(start):
    start["launch"] = 3


CHANGES = [
    (drop_slowest, "cold@512 timed"), (ask_twice, "stands 2 times"), (ask_extra, "was measured"),
    (other_prompt, "prompt_sha256"), (shorter_prompt, "prompt_tokens"), (never_primed, "never primed"),
    (warm_cold_row, "cache_n"), (cached_without_reuse, "cache_n"), (more_tokens, "chunk_tokens"), (lost_gap, "gaps"),
    (no_first_token, "ttft_ns"), (ended_before_its_last_token, "end_ns"), (http_500, "status"),
    (another_engine, "engine.engine"), (on_the_gpu, "compute"), (rebuilt, "binary_sha256"), (no_engine, ".engine"),
    (fourth_launch, "launch"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "word"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_run_that_is_not_what_was_planned_is_invalid(store, params, change, word):
    """Even when everything derived was made anew from it: the shape itself is wrong."""
    verified = verify_receipt(receipt_of(edited(synthetic_run(params, Purpose.GATE, seed=5), change), store))
    assert (verified.outcome, verified.exit_status) == (Outcome.INVALID, Exit.INVALID)
    assert any(word in str(problem) for problem in verified.problems), verified.problems
    assert {problem.check for problem in verified.problems} == {"structure"}


@pytest.mark.parametrize(("late_ms", "void", "failed"), [(5.0, 0, 0), (5.1, 7, 0)])
def test_a_late_client_voids_what_it_timed(store, params, late_ms, void, failed):
    run = replace(synthetic_run(params, Purpose.GATE, seed=5), calibration={"ttft_error_p99_ms": late_ms})
    verified = verify_receipt(receipt_of(run, store))
    assert (verified.counts.void, verified.counts.failed, verified.problems) == (void, failed, ())
    assert verified.exit_status == (Exit.UNDECIDED if void else Exit.PASS)


def test_a_calibration_that_is_no_number_is_invalid_and_a_missing_one_is_named(store, params):
    document = loads_strict(gate_receipt(store, params, seed=5))
    document["calibration"]["ttft_error_p99_ms"] = "1.0"
    assert verify_receipt(seal(document)).exit_status == Exit.INVALID
    document["calibration"] = None
    assert any("calibration" in text for text in verify_receipt(seal(document)).not_checked)


def test_the_last_release_is_the_previous_receipt(tmp_path):
    store = adopt_floor(tmp_path, synthetic_params(release="1.0.0"))
    first = synthetic_run(synthetic_params(release="1.1.0"), Purpose.GATE, seed=5)
    floor = verify_receipt(store.receipt("synthetic", "1.0.0")).receipt_sha256
    data = receipt_of(first, store)
    assert loads_strict(data)["previous"] == floor
    place = stored(store, data, first)
    second = gate_receipt(store, synthetic_params(release="1.1.1"), seed=6)
    assert loads_strict(second)["previous"] == sha256_bytes(place.read_bytes())


def test_without_a_floor_it_is_undecided_and_says_so(tmp_path, params):
    store = adopt_floor(tmp_path, synthetic_params(release="1.0.0", host="another"))
    verified = verify_receipt(gate_receipt(store, params))
    assert verified.outcome is Outcome.UNDECIDED
    assert verified.problems == ()


def test_build_writes_after_it_has_verified(tmp_path, store, params):
    run = synthetic_run(params, Purpose.GATE, seed=5)
    journal = run.write(tmp_path / "run")
    (tmp_path / "run" / "notebooks").mkdir()
    (tmp_path / "run" / "notebooks" / "10_collect.ipynb").write_text("{}")
    path = build_receipt(
        tmp_path / "run",
        baseline=store.baseline("synthetic"),
        reference=store.reference("synthetic"),
        finished_utc=FINISHED,
    )
    verified = verify_receipt(path)
    assert (verified.outcome, verified.problems) == (Outcome.PASS, ())
    artefacts = loads_strict(path.read_bytes())["artefacts"]
    assert sorted(artefacts) == ["10_collect.ipynb", "collect.json", "samples.jsonl"]
    assert artefacts["samples.jsonl"] == sha256_bytes(journal.read_bytes())
    journal.write_bytes(journal.read_bytes() + b"\n")
    (problem,) = verify_receipt(path).problems
    assert (problem.field, problem.check) == ("artefacts.samples.jsonl", "beside")


def test_build_leaves_nothing_behind_when_the_receipt_would_not_verify(tmp_path, params):
    synthetic_run(params, Purpose.GATE).write(tmp_path)
    with pytest.raises(IntegrityError, match="finished_utc"):
        build_receipt(tmp_path, baseline=None, reference=None, finished_utc="yesterday")
    assert not (tmp_path / "receipt.json").exists()


def test_a_receipt_of_another_version_of_lqw_keeps_its_numbers_but_not_its_words(store, params):
    document = loads_strict(gate_receipt(store, params, seed=5))
    document["header"]["lqw_version"] = "0.0.9"
    document["judgement"]["sentence"] = "said otherwise then"
    verified = verify_receipt(seal(document))
    assert verified.outcome is Outcome.PASS
    assert any("texts of the judgement" in text for text in verified.not_checked)
    document["judgement"]["rows"][0]["ratio"] *= 1.001
    assert verify_receipt(seal(document)).exit_status == Exit.INVALID


def test_a_receipt_says_what_was_not_checked(store, params):
    said = " ".join(verify_receipt(gate_receipt(store, params, seed=5)).not_checked)
    for word in ("not signed", "digest alone", "floors", "programs and GGUF files"):
        assert word in said


def test_what_lies_beside_a_receipt_is_compared_and_what_does_not_is_said(store, params, tmp_path):
    sha256 = sha256_bytes(b"journal")
    run = synthetic_run(params, Purpose.GATE, seed=5)
    data = receipt_of(run, store, artefacts={"samples.jsonl": sha256, "10_collect.ipynb": sha256})
    alone = verify_receipt(data).not_checked
    assert any("10_collect.ipynb, samples.jsonl" in text for text in alone)
    (tmp_path / "receipt.json").write_bytes(data)
    (tmp_path / "samples.jsonl").write_bytes(b"journal")
    said = verify_receipt(tmp_path / "receipt.json").not_checked
    assert [text for text in said if "run folder" in text] == [
        "files of the run folder, which are not beside it: 10_collect.ipynb"
    ]
    assert any(text.startswith("the receipt it follows") for text in said)
    place = Store(shutil.copytree(store.root, tmp_path / "store")).put(tmp_path / "receipt.json")
    assert not any(text.startswith("the receipt it follows") for text in verify_receipt(place).not_checked)


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        (1.0, 1.0 + 5e-10, False), (1.0, 1.0 + 5e-9, True), (1, 1.0, False), (True, 1, True), (0.0, 5e-13, False),
        ("a", "a", False), ("a", "b", True), (None, 0, True), ([1], [1, 2], True), ({"a": 1}, {}, True), ([], {}, True),
    ],
)  # fmt: skip
def test_comparison_of_values(old, new, differ):
    assert bool(list(differences(old, new, "x"))) is differ


def test_a_folder_or_a_missing_file_is_a_usage_error(tmp_path):
    for path in (tmp_path, tmp_path / "gone.json"):
        with pytest.raises(UsageError, match=r"a folder|no such file"):
            verify_receipt(path)


def test_verifying_loads_no_engine_no_notebook_and_no_plotting():
    heavy = ("papermill", "matplotlib", "pandas", "httpx", "IPython", "psutil", "scipy.stats", "scipy.optimize")
    code = f"import sys, lqw.receipt, lqw.cli.verify; print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_source_hash_follows_every_line(tmp_path, monkeypatch):
    (tmp_path / "sub" / "__pycache__").mkdir(parents=True)
    (tmp_path / "__init__.py").write_text("a = 1\n")
    (tmp_path / "sub" / "b.py").write_text("b = 1\n")
    monkeypatch.setattr(source.lqw, "__file__", str(tmp_path / "__init__.py"))
    hashes = [source.source_sha256.__wrapped__()]
    (tmp_path / "sub" / "__pycache__" / "c.py").write_text("compiled")
    assert source.source_sha256.__wrapped__() == hashes[0]
    (tmp_path / "sub" / "b.py").write_text("b = 2\n")
    hashes.append(source.source_sha256.__wrapped__())
    (tmp_path / "sub" / "b.py").rename(tmp_path / "b.py")
    hashes.append(source.source_sha256.__wrapped__())
    assert len(set(hashes)) == 3

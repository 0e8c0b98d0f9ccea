"""The store: append-only attempts, and no re-run until green."""

import pytest

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.outcomes import Outcome, Purpose
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.store import Next, Store, receipt_name
from lqw.testing.receipts import adopt_floor, gate_receipt, receipt_of, stored
from lqw.testing.synthetic import synthetic_params, synthetic_run

RED = {"ttft@512": 2.5}
ROWS = ("ttft@512", "decode")


@pytest.fixture
def store(tmp_path):
    return adopt_floor(tmp_path / "receipts", synthetic_params(rows=ROWS, release="1.0.0"))


def params_of(release, **options):
    return synthetic_params(rows=ROWS, release=release, **options)


def put(store, release, **options):
    run = synthetic_run(params_of(release, **options.pop("params", {})), Purpose.GATE, **options)
    return stored(store, receipt_of(run, store, attempt=store.next_attempt("synthetic", release)), run)


def test_the_first_attempt_has_the_plain_name(store):
    assert put(store, "1.1.0", seed=5) == store.folder("synthetic") / "1.1.0.json"


def test_a_second_attempt_stands_beside_the_first_and_names_it(store):
    first = put(store, "1.1.0", pairs=2)
    second = put(store, "1.1.0", seed=5)
    assert second.name == "1.1.0.attempt2.json"
    assert [a.outcome for a in store.attempts("synthetic", "1.1.0")] == [Outcome.UNDECIDED, Outcome.PASS]
    earlier = loads_strict(second.read_bytes())["run"]["earlier"]
    assert earlier == [{"attempt": 1, "outcome": "UNDECIDED", "sha256": verify_receipt(first).receipt_sha256}]
    assert verify_receipt(second).problems == ()


def test_a_red_subject_is_not_measured_again_under_any_version(store):
    red = put(store, "1.1.0", effects=RED)
    subject = loads_strict(red.read_bytes())["run"]["subject_sha256"]
    for version in ("1.1.0", "1.1.1"):
        with pytest.raises(UsageError, match="until it is green"):
            store.next_attempt("synthetic", version, subject)
    with pytest.raises(UsageError, match="until it is green"):  # and what was measured all the same is not stored
        put(store, "1.1.1", seed=5)
    assert not store.receipt("synthetic", "1.1.1").exists()


@pytest.mark.parametrize("other", [{"binary": "mended"}, {"params": {"subject_settings": {"threads": 1}}}])
def test_another_build_or_other_settings_are_another_subject(store, other):
    put(store, "1.1.0", effects=RED)
    assert put(store, "1.1.0", seed=5, **other).name == "1.1.0.attempt2.json"


def test_nothing_is_overwritten(store):
    place = put(store, "1.1.0", seed=5)
    before = place.read_bytes()
    draft = store.root / "again.json"
    draft.write_bytes(before)
    with pytest.raises(IntegrityError, match="holds 1 attempts, the receipt names 0"):
        store.put(draft)
    assert place.read_bytes() == before
    assert [p.name for p in place.parent.iterdir() if p.name.startswith(".")] == []


def test_a_file_that_came_in_between_is_kept(store, monkeypatch):
    draft = store.root / "draft.json"
    draft.write_bytes(gate_receipt(store, params_of("1.1.0"), seed=5))
    monkeypatch.setattr(Store, "attempts", lambda *_: ())
    store.receipt("synthetic", "1.1.0").write_text("somebody else's")
    with pytest.raises(UsageError, match="never overwritten"):
        store.put(draft)
    assert store.receipt("synthetic", "1.1.0").read_text() == "somebody else's"


def test_a_forgotten_attempt_is_noticed(store):
    put(store, "1.1.0", pairs=2)
    second = put(store, "1.1.0", seed=5)
    store.receipt("synthetic", "1.1.0").unlink()
    (problem,) = verify_receipt(second).problems
    assert (problem.field, problem.check) == ("run.earlier.0.sha256", "beside")
    with pytest.raises(IntegrityError, match=r"1\.1\.0\.json"):
        store.attempts("synthetic", "1.1.0")


def test_a_receipt_under_another_name_or_host_is_not_that_receipt(store):
    place = put(store, "1.1.0", seed=5)
    copy = place.with_name("1.2.0.json")
    copy.write_bytes(place.read_bytes())
    assert [p.field for p in verify_receipt(copy).problems] == ["run.attempt"]
    store.folder("synthetic").rename(store.root / "elsewhere")
    assert [p.field for p in verify_receipt(store.root / "elsewhere" / "1.1.0.json").problems] == ["header.host.name"]


def test_what_does_not_verify_is_not_stored(store):
    document = loads_strict(gate_receipt(store, params_of("1.1.0"), seed=5))
    document["starts"][0]["requests"][0]["ttft_ns"] += 1
    draft = store.root / "draft.json"
    draft.write_bytes(canonical_bytes(document))
    with pytest.raises(IntegrityError, match="digest"):
        store.put(draft)


def test_a_replay_is_not_stored(store):
    run = synthetic_run(params_of("1.1.0"), Purpose.GATE, seed=5)
    draft = store.root / "draft.json"
    draft.write_bytes(receipt_of(run, store, replayed=True))
    assert verify_receipt(draft).exit_status == Exit.PASS
    with pytest.raises(IntegrityError, match="replayed"):
        store.put(draft)


@pytest.mark.parametrize("name", ["baseline", "reference", "1.0.0.attempt2", "../1.0.0", "a/b", "", ".x", "x" * 65])
def test_versions_whose_files_would_be_others_are_refused(name):
    with pytest.raises(UsageError, match="no file of a store"):
        receipt_name(name)


@pytest.mark.parametrize("host", ["..", "a/b", "", "/etc", "x\ny"])
def test_hosts_that_are_no_folder_of_the_store_are_refused(host, tmp_path):
    with pytest.raises(UsageError, match="not a host's name"):
        Store(tmp_path).baseline(host)


def test_floors_and_tokens_are_compared_with_the_files_beside_while_those_are_the_same(store):
    """A RED moves nothing, so its sources still lie beside it: an invented floor is seen."""
    place = put(store, "1.1.0", effects=RED)
    assert verify_receipt(place).problems == ()
    document = loads_strict(place.read_bytes())
    document["standing"]["retired"] = ["tiny/agg@1"]
    document["reference"]["models"]["tiny"]["engine"] = "another"
    place.write_bytes(seal(document))
    found = {(p.field, p.check) for p in verify_receipt(place).problems}
    assert {("standing.retired", "recompute"), ("reference.models.tiny.engine", "recompute")} <= found
    store.baseline("synthetic").write_text('{"schema":"lqw-baseline/1","host":"synthetic"}')
    store.reference("synthetic").unlink()
    assert verify_receipt(place).problems == ()  # other files now: nothing to compare with


def test_an_empty_store_awaits_attempt_one(tmp_path):
    assert Store(tmp_path / "none").next_attempt("h", "1.0.0", "0" * 64) == Next(1, ())


def test_a_stored_file_that_is_no_receipt_is_named(store):
    store.receipt("synthetic", "1.1.0").write_text('{"judgement": {"outcome": "GREEN"}, "run": {}}')
    with pytest.raises(IntegrityError, match="not a receipt"):
        store.attempts("synthetic", "1.1.0")

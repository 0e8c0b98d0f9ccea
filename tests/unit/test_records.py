"""``lqw baseline rebase | retire | apply | show``: a floor goes down by two people's record, and by nothing else."""

import json
import math

import pytest
from typer.testing import CliRunner

from lqw.canonical import canonical_bytes
from lqw.cli.baseline import app
from lqw.errors import Exit, IntegrityError, LqwError, ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.ratchet import RatchetState, parse_baseline
from lqw.receipt.store import Store
from lqw.testing.params import synthetic_params
from lqw.testing.receipts import adopt_floor, gate_receipt, receipt_of, stored
from lqw.testing.synthetic import synthetic_run
from tests.unit.test_ratchet_moves import REASON

ROWS = ("ttft@128", "ttft@512", "decode")
UNSIGNED = "schema: lqw-signing/1\nunsigned_allowed:\n  demo: A host of these tests, which releases nothing at all.\n"


def _params(release):
    return synthetic_params(rows=ROWS, release=release, host="demo")


@pytest.fixture(scope="module")
def params():
    return _params("1.1.0")


@pytest.fixture(scope="module")
def filled(tmp_path_factory, params):
    """A store with a floor and a RED attempt of a slower decode; (root, row of the loss)."""
    root = tmp_path_factory.mktemp("store")
    store = adopt_floor(root / "receipts", _params("1.0.0"))
    row = f"{params.release.models[0].name}/decode"
    red = gate_receipt(store, params, effects={"decode": 0.3})
    store.receipt("demo", "1.1.0").write_bytes(red)
    (root / "params/signers").mkdir(parents=True)
    (root / "params/signing.yaml").write_text(UNSIGNED, encoding="utf-8")
    (root / "why.txt").write_text(REASON, encoding="utf-8")
    return root, row


@pytest.fixture
def place(filled, tmp_path):
    """A copy that a test may change."""
    for path in filled[0].rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(filled[0])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def _write(place, kind, rows, **changes):
    options = {
        "evidence": place / "receipts/demo/1.1.0.json",
        "reason": place / "why.txt",
        "author": "Ada Byron",
        "approver": "Grace Hopper",
        "store": place / "receipts",
        **({"expires": "2099-01-01"} if kind == "rebase" else {}),
        **changes,
    }
    flags = [
        word
        for name, value in options.items()
        for word in ([f"--{name}", value] if value is not True else [f"--{name}"])
    ]
    return call(kind, "demo", *rows, *flags)


def _apply(place, name):
    return call("apply", place / f"receipts/demo/records/{name}.json", "--params", place / "params")


def _entry(place, row):
    baseline = parse_baseline((place / "receipts/demo/baseline.json").read_bytes())
    return next(entry for held, entry in baseline.epochs[-1].rows.items() if str(held) == row)


def test_a_rebase_is_written_then_applied_and_the_floor_names_it(place, filled):
    _, row = filled
    before = _entry(place, row)
    written = _write(place, "rebase", [row])
    record = place / "receipts/demo/records/0001-rebase.json"
    assert "it changes nothing yet" in written.output
    assert _entry(place, row) == before
    said = _apply(place, "0001-rebase").output
    assert f"{row}: floor " in said
    assert "until 2099-01-01" in said
    assert "unsigned" in said
    after = _entry(place, row)
    assert after.floor.value == pytest.approx(before.floor.value + math.log(0.3), abs=0.2)
    assert after.floor_before == before.floor
    form = json.loads(record.read_bytes())
    assert after.floor.receipt_sha256 == form["evidence_receipt_sha256"]
    assert form["old_floor"] == pytest.approx(math.exp(before.floor.value))
    shown = call("show", "demo", "--store", place / "receipts").output
    assert f"record {after.record_sha256[:12]}" in shown
    assert "rebased to 2099-01-01" in shown
    with pytest.raises(ParamsError, match="old_floor"):
        _apply(place, "0001-rebase")  # a record is good for one change


def test_a_retired_row_is_shown_and_gates_no_more(place, filled):
    _, row = filled
    _write(place, "retire", [row])
    assert f"retired: {row}" in _apply(place, "0001-retire").output
    assert _entry(place, row).state is RatchetState.RETIRED
    assert "RETIRED" in call("show", "demo", "--store", place / "receipts").output
    with pytest.raises(ParamsError, match="RETIRED"):
        _write(place, "rebase", [row])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"approver": "ADA  byron"}, "two people"),
        ({"reason": "short.txt"}, "at least 200 characters"),
        ({"reason": "nowhere.txt"}, "name a text file"),
        ({"expires": "2020-01-01"}, "expires must lie after created"),
        ({"expires": "tomorrow"}, "expires"),
        ({"permanent": True}, "either expires or permanent"),
        ({"evidence": "receipts/demo/1.0.0.json"}, "nothing to rebase|lowers a floor"),
        ({"evidence": "receipts/demo/baseline.json"}, "no evidence"),
        ({"evidence": "elsewhere.json"}, "not in "),
    ],
)
def test_what_the_rules_refuse_writes_nothing(place, filled, changes, words):
    _, row = filled
    (place / "short.txt").write_text("it was slow", encoding="utf-8")
    (place / "elsewhere.json").write_bytes(gate_receipt(Store(place / "receipts"), _params("1.1.0")))
    paths = {k: place / v if k in ("reason", "evidence") else v for k, v in changes.items()}
    with pytest.raises((ParamsError, UsageError), match=words) as caught:
        _write(place, "rebase", [row], **paths)
    assert caught.value.exit_status is Exit.USAGE
    assert caught.value.remedy
    assert not (place / "receipts/demo/records").exists()


@pytest.mark.parametrize("row", ["decode", "m/speed", "nobody/decode"])
def test_a_row_that_is_none_is_refused(place, row):
    with pytest.raises((UsageError, ParamsError)) as caught:
        _write(place, "rebase", [row])
    assert caught.value.remedy


def test_a_void_row_never_becomes_a_floor(place, params, filled):
    _, row = filled
    store = Store(place / "receipts")
    void = receipt_of(synthetic_run(params, Purpose.GATE, effects={"decode": 0.3}, answers=1, binary="other"), store)
    store.receipt("demo", "1.1.0").write_bytes(void)
    with pytest.raises(UsageError, match="is VOID there"):
        _write(place, "rebase", [row])


def test_a_suspect_row_never_becomes_a_floor(place, params, filled):
    _, row = filled
    store = Store(place / "receipts")
    moved = gate_receipt(store, params, effects={"decode": 0.2}, comparator_effects={"decode": 0.3}, binary="other")
    attempt = store.receipt("demo", "1.1.0", 2)
    attempt.write_bytes(moved)
    with pytest.raises(UsageError, match="is SUSPECT there"):
        _write(place, "rebase", [row], evidence=attempt)


def test_evidence_of_another_epoch_is_refused_and_says_which_part(place, params, filled):
    _, row = filled
    run = synthetic_run(params, Purpose.ADOPT, effects={"decode": 0.3})
    faster = run.header.host.model_copy(update={"cores": 64})
    run = type(run)(run.header.model_copy(update={"host": faster}), run.starts, run.identities, run.calibration)
    store = Store(place / "receipts")
    store.receipt("demo", "1.1.0").write_bytes(receipt_of(run, store))
    with pytest.raises(UsageError, match=r"host\.cores: 2 became 64"):
        _write(place, "rebase", [row])


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda form: form.update(host="other"), UsageError, "is about host"),
        (lambda form: form.update(new_floor=form["new_floor"] * 0.9), ParamsError, "measured, never chosen"),
        (lambda form: form.update(evidence_receipt_sha256="0" * 64), UsageError, "no receipt of demo has the sha256"),
        (lambda form: form.update(approver="ada byron"), ParamsError, "two people"),
        (lambda form: form.update(schema="lqw-other/1"), ParamsError, "schema"),
        (lambda form: form.pop("reason"), ParamsError, "reason"),
    ],
)
def test_an_edited_record_is_refused_and_moves_nothing(place, filled, spoil, error, words):
    _, row = filled
    _write(place, "rebase", [row])
    path = place / "receipts/demo/records/0001-rebase.json"
    form = json.loads(path.read_bytes())
    spoil(form)
    path.write_bytes(canonical_bytes(form))
    before = (place / "receipts/demo/baseline.json").read_bytes()
    with pytest.raises(error, match=words):
        _apply(place, "0001-rebase")
    assert (place / "receipts/demo/baseline.json").read_bytes() == before


def test_a_host_that_needs_signatures_applies_nothing_without_them(place, filled):
    _, row = filled
    (place / "params/signing.yaml").write_text("schema: lqw-signing/1\nunsigned_allowed: {}\n", encoding="utf-8")
    _write(place, "rebase", [row])
    before = (place / "receipts/demo/baseline.json").read_bytes()
    with pytest.raises(IntegrityError, match="signature") as caught:
        _apply(place, "0001-rebase")
    assert caught.value.exit_status is Exit.INVALID
    assert (place / "receipts/demo/baseline.json").read_bytes() == before


@pytest.mark.parametrize("name", ["receipts/demo/1.1.0.json", "receipts/demo/records/none.json"])
def test_apply_wants_a_record_of_a_store(place, name):
    with pytest.raises(LqwError, match="no record of a store"):
        call("apply", place / name)


def test_records_are_numbered_and_never_overwritten(place, filled):
    _, row = filled
    for wanted in ("0001-rebase.json", "0002-rebase.json"):
        _write(place, "rebase", [row])
        assert (place / "receipts/demo/records" / wanted).is_file()


def test_the_stored_floor_of_a_rebase_lets_the_same_loss_pass(place, params, filled):
    _, row = filled
    _write(place, "rebase", [row])
    _apply(place, "0001-rebase")
    store = Store(place / "receipts")
    run = synthetic_run(params, Purpose.GATE, effects={"decode": 0.3}, seed=5, binary="another build")
    again = receipt_of(run, store, attempt=store.next_attempt("demo", "1.1.0"))
    assert stored(store, again, run).name == "1.1.0.attempt2.json"
    assert json.loads(again)["judgement"]["outcome"] == "PASS"

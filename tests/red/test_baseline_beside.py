"""A baseline that was moved by hand, seen by plain ``lqw verify`` before anything is committed."""

import pytest

from lqw.canonical import canonical_bytes, loads_strict
from lqw.errors import Exit
from lqw.outcomes import Purpose
from lqw.receipt import verify_receipt
from lqw.testing.receipts import adopt_floor, receipt_of, stored
from lqw.testing.synthetic import synthetic_params, synthetic_run

ROWS = ("ttft@16", "decode")


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a store with a floor and a release that passed; each knows its own points of the baseline."""
    store = adopt_floor(
        tmp_path_factory.mktemp("store"), synthetic_params(rows=ROWS, release="1.0.0", repeats=1), sd=0.02
    )
    params = synthetic_params(rows=ROWS, release="1.1.0", repeats=1)
    run = synthetic_run(params, Purpose.GATE, seed=3, sd=0.02)
    stored(store, receipt_of(run, store), run)
    return store.folder(params.host.name)


@pytest.fixture
def folder(honest):
    """Return the store's folder; its baseline is put back afterwards."""
    place = honest / "baseline.json"
    held = place.read_bytes()
    yield honest
    place.write_bytes(held)


def _moved(folder, change):
    place = folder / "baseline.json"
    body = loads_strict(place.read_bytes())
    change(body["epochs"][0]["rows"]["tiny/decode"])
    place.write_bytes(canonical_bytes(body))


def _verified(folder, version):
    verified = verify_receipt(folder / f"{version}.json")
    return verified.exit_status, [one.field for one in verified.problems]


def test_an_honest_store_verifies(honest):
    assert {_verified(honest, version)[0] for version in ("1.0.0", "1.1.0")} == {Exit.PASS}


@pytest.mark.parametrize(
    ("version", "change", "field"),
    [
        ("1.0.0", lambda entry: entry["floor"].update(value=entry["floor"]["value"] - 0.2), "floor.value"),
        ("1.0.0", lambda entry: entry["floor"].update(ss=0.0), "floor.ss"),
        ("1.1.0", lambda entry: entry["last"].update(value=-0.9), "last.value"),
        ("1.1.0", lambda entry: entry["history"][-1].update(comparator_mean=9.0), "history.comparator_mean"),
        ("1.0.0", lambda entry: entry.update(floor_before={**entry["floor"], "value": -0.9}), "floor_before.value"),
    ],
)
def test_a_value_that_its_own_receipt_does_not_have_is_named(folder, version, change, field):
    _moved(folder, change)
    assert _verified(folder, version) == (Exit.INVALID, [f"baseline.json.tiny/decode.{field}"])


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema":"lqw-baselina/1"}', b'{"host":NaN}'])
def test_a_baseline_that_cannot_be_read_is_named(folder, data):
    (folder / "baseline.json").write_bytes(data)
    status, fields = _verified(folder, "1.1.0")
    assert (status, fields) == (Exit.INVALID, ["sources.baseline"])


def test_a_row_that_its_receipt_never_had_is_named(folder):
    place = folder / "baseline.json"
    body = loads_strict(place.read_bytes())
    rows = body["epochs"][0]["rows"]
    rows["tiny/prefill@16"] = rows["tiny/decode"]
    place.write_bytes(canonical_bytes(body))
    assert _verified(folder, "1.1.0")[1] == [
        f"baseline.json.tiny/prefill@16.{one}" for one in ("last", "best_ever", "history")
    ]

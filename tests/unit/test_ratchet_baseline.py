"""Epochs, the baseline file, and what a run is told of them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lqw.canonical import canonical_bytes, sha256_json
from lqw.errors import IntegrityError
from lqw.metrics import RowId
from lqw.params import load_params
from lqw.ratchet import (
    Baseline,
    Point,
    RatchetState,
    RowEntry,
    baseline_to_json,
    epoch_differences,
    epoch_key,
    parse_baseline,
    protocol_sha256,
    references_for,
)
from lqw.ratchet.baseline import HISTORY_USED, Epoch
from lqw.ratchet.session import LEAST_TAU, session_sd
from lqw.samples import EngineFacts, HostFacts

ROOT = Path(__file__).parents[2]
DECODE, TTFT = RowId.parse("m/decode"), RowId.parse("m/ttft@512")
HOST = HostFacts(
    name="demo", cpu_model="EPYC", cores=2, ram_gib=8, gpu="H200", vram_mib=143_771, power_limit_w=700,
    driver="560.35.03", cuda="12.6", kernel="6.1", python="3.11.9",
)  # fmt: skip
ENGINE = EngineFacts(
    engine="llama", version="b11549", build="gcc -O3", binary_sha256="b" * 64, command=[], env={}, settings={},
    compute="cuda",
)  # fmt: skip
MODELS = {"m": "a" * 64}


@pytest.fixture(scope="module")
def params():
    return load_params(ROOT / "params/demo/1.1.0.yaml")


@pytest.fixture
def key(params):
    return epoch_key(params, HOST, ENGINE, MODELS)


def point(value=0.0, *, release="1.0.0", receipt="f", n=6, ss=0.01):
    return Point(
        release=release, receipt_sha256=receipt, value=value, n=n, ss=ss, df=n - 1, comparator_mean=3.9,
        comparator_sd=0.02,
    )  # fmt: skip


def entry(value=0.0, **update):
    base = RowEntry(floor=point(value), first=value, best_ever=point(value))
    return base.model_copy(update=update)


def baseline(key, rows):
    return Baseline(host="demo", epochs=(Epoch(key=key, opened_by="1.0.0", rows=rows),))


# the key


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gpu": "B200"}, "host.gpu: 'H200' became 'B200'"),
        ({"driver": "570.10"}, "host.driver_major: '560' became '570'"),
        ({"cuda": "13.0"}, "host.cuda_major: '12' became '13'"),
        ({"cpu_model": "Xeon"}, "host.cpu_model: 'EPYC' became 'Xeon'"),
        ({"power_limit_w": 500}, "host.power_limit_w: 700 became 500"),
        ({"ram_gib": 16}, "host.ram_gib: 8 became 16"),
        ({"gpu": None}, "host.gpu: 'H200' became None"),
    ],
)
def test_a_changed_host_class_is_named(params, key, change, named):
    assert epoch_differences(key, epoch_key(params, HOST.model_copy(update=change), ENGINE, MODELS)) == (named,)


@pytest.mark.parametrize(
    "change", [{"name": "lambda"}, {"kernel": "6.2"}, {"python": "3.12"}, {"driver": "560.99"}, {"cuda": "12.9"}]
)
def test_what_does_not_change_speed_does_not_change_the_epoch(params, key, change):
    other = epoch_key(params, HOST.model_copy(update=change), ENGINE, MODELS)
    assert other.sha256 == key.sha256


def test_a_changed_comparator_is_named(params, key):
    other = epoch_key(params, HOST, ENGINE.model_copy(update={"binary_sha256": "c" * 64}), MODELS)
    (text,) = epoch_differences(key, other)
    assert text == "comparator.binary_sha256: 'bbbbbbbbbbbb…' became 'cccccccccccc…'"
    spec = params.release.comparator.model_copy(update={"settings": {"threads": 99}})
    release = params.release.model_copy(update={"comparator": spec})
    (text,) = epoch_differences(key, epoch_key(params.model_copy(update={"release": release}), HOST, ENGINE, MODELS))
    assert text.startswith("comparator.settings_sha256")


def test_a_changed_model_is_named_and_a_new_one_is_none(params, key):
    changed = epoch_key(params, HOST, ENGINE, {"m": "d" * 64})
    assert epoch_differences(key, changed) == ("models.m: 'aaaaaaaaaaaa…' became 'dddddddddddd…'",)
    assert epoch_differences(key, epoch_key(params, HOST, ENGINE, {**MODELS, "n": "e" * 64})) == ()


def test_the_protocol_is_what_the_engines_do(params, key):
    longer = params.protocol.launches[0].model_copy(update={"slots": params.protocol.launches[0].slots + 1})
    work = params.protocol.model_copy(update={"launches": [longer, *params.protocol.launches[1:]]})
    changed = params.model_copy(update={"protocol": work})
    (text,) = epoch_differences(key, epoch_key(changed, HOST, ENGINE, MODELS))
    assert text.startswith("protocol: ")
    free = params.protocol.model_copy(update={"looks": [4, 6], "floor_pairs": 12, "rows": params.protocol.rows[:1]})
    assert protocol_sha256(params.model_copy(update={"protocol": free})) == protocol_sha256(params)
    corpus = {**params.files, f"prompts/{params.protocol.corpus}": "0" * 64}
    assert protocol_sha256(params.model_copy(update={"files": corpus})) != protocol_sha256(params)


def test_the_key_holds_what_was_asked_and_seen(params, key):
    """Field by field: a field that is left out would let two ratios be compared that cannot be."""
    spec = params.release.comparator
    wanted = {
        "host": {
            "gpu": "H200", "vram_mib": 143_771, "power_limit_w": 700, "cpu_model": "EPYC", "cores": 2, "ram_gib": 8,
            "driver_major": "560", "cuda_major": "12",
        },
        "comparator": {
            "engine": "llama", "version": "b11549", "build": "gcc -O3", "binary_sha256": "b" * 64,
            "settings_sha256": sha256_json({"settings": spec.settings, "env": spec.env}),
        },
        "models": MODELS,
        "protocol_sha256": sha256_json(
            {
                "launches": [launch.model_dump(mode="json") for launch in params.protocol.launches],
                "min_window_s": params.protocol.min_window_s,
                "corpus_sha256": params.files[f"prompts/{params.protocol.corpus}"],
            }
        ),
    }  # fmt: skip
    assert key.model_dump(mode="json") == wanted
    assert key.sha256 == sha256_json(wanted)
    assert epoch_key(params, HOST.model_copy(update={"driver": None}), ENGINE, MODELS).host.driver_major is None
    assert protocol_sha256(params.model_copy(update={"files": {}})) == sha256_json(
        {
            "launches": [launch.model_dump(mode="json") for launch in params.protocol.launches],
            "min_window_s": params.protocol.min_window_s,
            "corpus_sha256": "",
        }
    )
    other = key.model_copy(update={"protocol_sha256": "c" * 64})
    assert epoch_differences(key, other) == (f"protocol: '{key.protocol_sha256[:12]}…' became 'cccccccccccc…'",)


# the file


def test_a_baseline_goes_to_json_and_back(key):
    value = baseline(key, {DECODE: entry(0.1, last=point(0.2), history=(point(0.2),)), TTFT: entry(-0.3)})
    data = canonical_bytes(baseline_to_json(value))
    assert parse_baseline(data) == value
    assert parse_baseline(json.loads(data)) == value


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw.update(schema="lqw-baseline/2"),
        lambda raw: raw.update(extra=1),
        lambda raw: raw.pop("host"),
        lambda raw: raw["epochs"][0]["rows"]["m/decode"]["floor"].update(n=0),
        lambda raw: raw["epochs"][0]["rows"]["m/decode"]["floor"].update(n=True),
        lambda raw: raw["epochs"][0]["rows"]["m/decode"]["floor"].update(value="0.5"),
        lambda raw: raw["epochs"][0]["rows"]["m/decode"].pop("best_ever"),
        lambda raw: raw["epochs"][0]["rows"].update({"m/speed": {}}),
    ],
)
def test_an_edited_baseline_is_refused_with_its_name(key, spoil):
    raw = baseline_to_json(baseline(key, {DECODE: entry()}))
    spoil(raw)
    with pytest.raises(IntegrityError, match="h/baseline"):
        parse_baseline(raw, name="h/baseline.json")
    with pytest.raises(IntegrityError, match="h/baseline"):
        parse_baseline(b"{", name="h/baseline.json")


# what a run is told


def test_without_a_baseline_the_reason_is_given(key):
    for nothing in (None, Baseline(host="demo")):
        standing = references_for(nothing, key, [DECODE])
        assert standing.differences == ("no floor was ever adopted on this host",)
        assert standing.references == {}
        assert standing.epoch_sha256 == key.sha256


def test_another_epoch_names_what_changed_and_lends_nothing(params, key):
    other = epoch_key(params, HOST.model_copy(update={"driver": "570.1"}), ENGINE, MODELS)
    standing = references_for(baseline(key, {DECODE: entry()}), other, [DECODE])
    assert standing.differences == ("host.driver_major: '560' became '570'",)
    assert standing.epoch_sha256 == other.sha256
    assert (standing.references, standing.comparator) == ({}, {})


def test_a_new_epoch_asks_for_the_releases_that_set_the_floors(params, key):
    other = epoch_key(params, HOST.model_copy(update={"driver": "570.1"}), ENGINE, MODELS)
    late = point(0.3, release="1.4.0")
    rows = {
        DECODE: entry(floor=late, floor_before=point(0.5), floor_expires="2026-06-01"),
        TTFT: entry(),
        RowId.parse("m/agg@1"): entry(floor=point(release="1.1.0"), state=RatchetState.RETIRED),
        RowId.parse("m/agg@4"): entry(),
    }
    held = baseline(key, rows)
    assert references_for(held, other, list(rows)).remeasure == ("1.4.0", "1.0.0")
    assert references_for(held, other, list(rows), day="2026-06-01").remeasure == ("1.0.0",)
    assert references_for(held, other, [RowId.parse("m/ttft@128")]).remeasure == ()
    assert references_for(held, key, list(rows)).remeasure == ()


def test_an_epoch_that_comes_back_has_its_floors_back(params, key):
    other = epoch_key(params, HOST.model_copy(update={"driver": "570.1"}), ENGINE, MODELS)
    both = Baseline(
        host="demo",
        epochs=(
            Epoch(key=key, opened_by="1.0.0", rows={DECODE: entry(0.1)}),
            Epoch(key=other, opened_by="1.1.0", rows={DECODE: entry(0.2)}),
        ),
    )
    assert references_for(both, key, [DECODE]).references[DECODE].floor.value == 0.1
    assert references_for(both, other, [DECODE]).references[DECODE].floor.value == 0.2


def test_references_carry_floor_last_and_the_last_six_sessions(key):
    history = tuple(point(0.01 * i, release=f"1.{i}", receipt=str(i), ss=float(i)) for i in range(1, 10))
    standing = references_for(baseline(key, {DECODE: entry(last=history[-1], history=history)}), key, [DECODE])
    references = standing.references[DECODE]
    assert references.floor.release == "1.0.0"
    assert standing.epoch_sha256 == key.sha256
    assert references.last.release == "1.9"
    assert [spread.ss for spread in references.history] == [float(i) for i in range(4, 10)]
    assert len(references.history) == HISTORY_USED
    assert [p.release for p in standing.comparator[DECODE]] == ["1.0.0", *(f"1.{i}" for i in range(1, 10))]


def test_retired_rows_gate_nothing_and_dropped_rows_are_told(key):
    rows = {DECODE: entry(state=RatchetState.RETIRED), TTFT: entry(target_met_by="1.0.0")}
    standing = references_for(baseline(key, rows), key, [DECODE])
    assert standing.references == {}
    assert standing.retired == (DECODE,)
    assert standing.dropped == (TTFT,)
    standing = references_for(baseline(key, rows), key, [TTFT])
    assert standing.dropped == ()  # a retired row may go
    assert standing.targets_met == (TTFT,)


def test_a_rebased_floor_ends_on_its_day(key):
    lowered = entry(-0.2, floor_before=point(0.1), floor_expires="2026-06-01")
    for day, floor in (("2026-05-31", -0.2), ("2026-06-01", 0.1), (None, -0.2)):
        standing = references_for(baseline(key, {DECODE: lowered}), key, [DECODE], day=day)
        assert standing.references[DECODE].floor.value == floor
    for_ever = lowered.model_copy(update={"floor_expires": ""})
    assert for_ever.floor_on("2999-12-31").value == -0.2


def test_a_baseline_given_as_text_is_read_as_strictly_as_its_bytes(key):
    text = canonical_bytes(baseline_to_json(baseline(key, {DECODE: entry()}))).decode()
    assert parse_baseline(text) == baseline(key, {DECODE: entry()})
    with pytest.raises(IntegrityError, match="host"):
        parse_baseline(text.replace('"host":"demo"', '"host":"demo","host":"demo"', 1))


def test_a_baseline_is_written_as_plain_json(key):
    form = baseline_to_json(baseline(key, {DECODE: entry(history=(point(),))}))
    assert form == json.loads(json.dumps(form))


# the session term


def _sessions(rng, k, tau, n=9, sd=0.01):
    out = []
    for i in range(k):
        d = tau * rng.standard_normal() + sd * rng.standard_normal(n)
        out.append(point(float(d.mean()), receipt=str(i), n=n, ss=float(((d - d.mean()) ** 2).sum())))
    return out


def test_tau_is_estimated_from_five_sessions_of_one_release():
    rng = np.random.default_rng(0)
    assert session_sd([_sessions(rng, 5, 0.02) for _ in range(60)]) == pytest.approx(0.02, rel=0.15)
    assert session_sd([_sessions(rng, 5, 0.0) for _ in range(60)]) < 0.003


def test_tau_is_not_estimated_from_four_nor_from_one_receipt_five_times():
    rng = np.random.default_rng(0)
    assert session_sd([_sessions(rng, 4, 0.02)] * 9) is None
    assert session_sd([[point(receipt="same")] * 9]) is None
    assert session_sd([]) is None


def test_sessions_that_agree_perfectly_were_lucky(key):
    same = tuple(point(0.1, receipt=str(i)) for i in range(5))
    assert session_sd([same]) == LEAST_TAU
    told = references_for(baseline(key, {DECODE: entry(0.1, history=same)}), key, [DECODE])
    assert told.tau == LEAST_TAU
    assert references_for(baseline(key, {DECODE: entry()}), key, [DECODE]).tau is None
    assert math.isfinite(told.tau)

"""The roofline: limits by hand, in the receipt and recomputed; what cannot be measured is named."""

import ctypes
import json
from dataclasses import replace

import pytest

from lqw.canonical import loads_strict
from lqw.engines.fit import Sizes, work_of
from lqw.errors import ParamsError
from lqw.host import cuda, roofline
from lqw.metrics import RowId
from lqw.outcomes import Outcome, Purpose
from lqw.params import load_params
from lqw.params.protocol import StepSpec
from lqw.params.roofline import RooflineSpec
from lqw.pipeline.roofline import keep_roofline, measure_roofline
from lqw.receipt import verify_receipt
from lqw.receipt.build import seal
from lqw.receipt.roofline import limit_of
from lqw.receipt.store import Store
from lqw.samples import ModelWork
from lqw.testing.receipts import receipt_of
from lqw.testing.synthetic import synthetic_params, synthetic_run
from tests.support.fake_params import write_params

WORK = ModelWork(
    weight_bytes=1_000, layer_weights=500, output_weights=100, kv_bytes_per_token=2, kv_window=0, state_bytes=50
)
ROOF = {
    "schema": "lqw-roofline/1", "host": "synthetic", "compute": "cpu", "device": "Synthetic CPU, 2 cores",
    "measured_utc": "2026-01-01T00:00:00Z", "copy": {"bytes_s": 10**9, "method": "m"},
    "matmul": {"flop_s": 10**10, "method": "m"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "step", "size", "flops", "by", "value"),
    [
        # 2 · (500 · 80 + 100) operations at 10,000 a second; the weights alone, at 1,000 bytes a second, take 1 s
        ("ttft@80", {"kind": "cold", "prompt_tokens": 80}, 1_000, 80_200, "matmul", 8_020.0),
        ("prefill@80", {"kind": "cold", "prompt_tokens": 80}, 1_000, 80_200, "matmul", 80 / 8.02),
        ("ttft@8", {"kind": "cold", "prompt_tokens": 8}, 1_000, 8_200, "copy", 1_000.0),
        # weights, 8 + 16 tokens of keys and values, a state read and written: 1,148 bytes a token
        ("decode", {"kind": "decode", "prompt_tokens": 8, "output_tokens": 32}, 1_148, 1_200, "copy", 1e3 / 1_148),
        (
            "agg@4", {"kind": "agg", "prompt_tokens": 8, "output_tokens": 32, "streams": 4}, 1_592, 4_800, "copy",
            4e3 / 1_592,
        ),
        (
            "ttft_cached@8", {"kind": "cached", "prompt_tokens": 8, "suffix_tokens": 4}, 1_016, 4_200, "copy", 1_016.0,
        ),
    ],
)  # fmt: skip
def test_limits_by_hand(row, step, size, flops, by, value):  # noqa: PLR0917
    limit = limit_of(RowId.parse(f"m/{row}"), StepSpec(repeats=1, **step), WORK, bytes_s=1e3, flop_s=1e4)
    assert (limit.bytes, limit.flops, limit.by) == (size, flops, by)
    assert limit.value == pytest.approx(value)


def test_a_window_bounds_the_keys_that_are_read():
    windowed = WORK.model_copy(update={"kv_window": 10})
    assert (WORK.kv(100), windowed.kv(100), windowed.kv(4)) == (200, 20, 8)


def _receipt(tmp_path, roof, *, work=True):
    params = synthetic_params()
    spec = RooflineSpec.model_validate(roof)
    files = {**params.files, "rooflines/synthetic.json": "a" * 64}
    params = params.model_copy(update={"roofline": spec, "files": files})
    run = synthetic_run(params, Purpose.ADOPT)
    header = run.header.model_copy(update={"work": {"tiny": WORK} if work else {}})
    return receipt_of(replace(run, header=header), Store(tmp_path))


def test_a_receipt_says_how_far_each_row_is_from_its_limit(tmp_path):
    data = _receipt(tmp_path, ROOF)
    verified = verify_receipt(data)
    assert (verified.outcome, verified.problems) == (Outcome.FLOOR, ())
    found = loads_strict(data)["roofline"]
    assert found["sha256"] == "a" * 64
    assert set(found["rows"]) == {str(row.row) for row in verified.judgement.rows} - {"tiny/rss_peak"}
    row = next(one for one in verified.judgement.rows if str(one.row) == "tiny/decode")
    assert found["rows"]["tiny/decode"]["subject_percent"] == pytest.approx(
        100 * row.subject / found["rows"]["tiny/decode"]["limit"]
    )
    ttft = next(one for one in verified.judgement.rows if str(one.row) == "tiny/ttft@512")
    assert found["rows"]["tiny/ttft@512"]["comparator_percent"] == pytest.approx(
        100 * found["rows"]["tiny/ttft@512"]["limit"] / ttft.comparator
    )


@pytest.mark.parametrize("edit", ["percent", "work", "gone", "rate"])
def test_an_edited_roofline_is_invalid(tmp_path, edit):
    body = loads_strict(_receipt(tmp_path, ROOF))
    if edit == "percent":
        body["roofline"]["rows"]["tiny/decode"]["subject_percent"] *= 2
    elif edit == "work":
        body["header"]["work"]["tiny"]["weight_bytes"] = 999
    elif edit == "rate":
        body["header"]["params"]["roofline"]["copy"]["bytes_s"] *= 2
    else:
        del body["roofline"]
    assert verify_receipt(seal(body)).outcome is Outcome.INVALID


def test_a_roofline_nobody_measured_is_no_part_of_a_receipt(tmp_path):
    body = loads_strict(receipt_of(synthetic_run(synthetic_params(), Purpose.ADOPT), Store(tmp_path)))
    assert "roofline" not in body
    assert verify_receipt(seal({**body, "roofline": {"rows": {}}})).outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("roof", "work", "where", "words"),
    [
        ({**ROOF, "device": "Another CPU, 2 cores"}, True, "all", "the run on Synthetic CPU, 2 cores"),
        ({**ROOF, "copy": None, "matmul": None, "missing": {"matmul": "no libcublas"}}, True, "all", "no libcublas"),
        (ROOF, False, "tiny/decode", "does not tell"),
    ],
)
def test_a_row_without_a_limit_says_why(tmp_path, roof, work, where, words):
    data = _receipt(tmp_path, roof, work=work)
    assert verify_receipt(data).problems == ()
    found = loads_strict(data)["roofline"]
    assert found["rows"] == {}
    assert words in found["without"][where]


def test_what_is_measured_here_is_kept_for_the_host_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(roofline, "COPY_BYTES", 2**20)
    monkeypatch.setattr(roofline, "MATMUL_N", 64)
    write_params(tmp_path, releases={"1.0.0": {}})
    release = tmp_path / "params" / "fake" / "1.0.0.yaml"
    host = load_params(release).host
    path = keep_roofline(measure_roofline(host.name, host.compute), release)
    found = load_params(release)
    assert found.roofline.copy_.bytes_s > 0
    assert found.roofline.matmul.flop_s > 0
    assert found.files[f"rooflines/{host.name}.json"]
    assert found.resolved()["roofline"]["copy"]["method"].startswith("numpy copyto")
    path.write_text(json.dumps({**ROOF, "host": "another"}))
    with pytest.raises(ParamsError, match="another"):
        load_params(release)


def test_a_gpu_without_a_driver_or_cublas_is_unavailable_by_name(monkeypatch):
    def nothing(name, **_):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    with pytest.raises(roofline.Unavailable, match=r"no driver: libcuda\.so\.1"):
        roofline.measure_copy("cuda")
    with pytest.raises(roofline.Unavailable, match="libcublas is not found; set CUDA_HOME"):
        cuda._library("cublas")


def test_work_is_told_by_the_header_of_a_dense_model_alone(monkeypatch, tmp_path):
    sizes = Sizes(file=1_000, kv_per_token=2, window=0, state_per_slot=5, row=8, matrices=500, idle=100, output=50)
    monkeypatch.setattr("lqw.engines.fit.sizes_of", lambda _: sizes)
    assert work_of(tmp_path).weight_bytes == 900
    monkeypatch.setattr("lqw.engines.fit.sizes_of", lambda _: replace(sizes, dense=False))
    assert work_of(tmp_path) is None
    monkeypatch.setattr("lqw.engines.fit.sizes_of", lambda _: None)
    assert work_of(tmp_path) is None

"""The distance to the device's limit: a line in the curves and a table; broken numbers break no page."""

from dataclasses import replace

import pytest

from lqw.canonical import loads_strict
from lqw.outcomes import Purpose
from lqw.params.roofline import RooflineSpec
from lqw.receipt.build import seal
from lqw.receipt.store import Store
from lqw.report.gather import gather_receipt
from lqw.report.html import page_html
from lqw.report.roofline import limit_curve, roofline_lead, roofline_lines
from lqw.samples import ModelWork
from lqw.testing.receipts import receipt_of
from lqw.testing.synthetic import synthetic_params, synthetic_run

WORK = ModelWork(
    weight_bytes=240_000_000, layer_weights=100_000_000, output_weights=160_000_000, kv_bytes_per_token=20_000,
    kv_window=0, state_bytes=0,
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    roof = RooflineSpec.model_validate(
        {
            "schema": "lqw-roofline/1", "host": "synthetic", "compute": "cpu", "device": "Synthetic CPU, 2 cores",
            "measured_utc": "2026-01-01T00:00:00Z", "copy": {"bytes_s": 40 * 10**9, "method": "m"},
            "matmul": {"flop_s": 2 * 10**12, "method": "m"},
        }
    )  # fmt: skip
    params = synthetic_params().model_copy(update={"roofline": roof})
    run = synthetic_run(params, Purpose.ADOPT)
    header = run.header.model_copy(update={"work": {"tiny": WORK}})
    return receipt_of(replace(run, header=header), Store(tmp_path_factory.mktemp("store")))


def _facts(tmp_path, data):
    path = tmp_path / "receipt.json"
    path.write_bytes(data)
    return gather_receipt(path)


def test_every_timed_row_has_its_limit_and_both_shares(tmp_path, data):
    facts = _facts(tmp_path, data)
    lines = {line[0]: line[1:] for line in roofline_lines(facts)}
    assert set(lines) == {str(row) for row in facts.planned} - {"tiny/rss_peak"}
    assert lines["tiny/decode"][1:4] == ("copy", "241 MB", "520 Mop")  # 240 MB and 32 tokens of 20 kB
    assert lines["tiny/ttft@512"][1:4] == ("matmul", "240 MB", "103 Gop")
    assert all(cell.endswith(" %") for line in lines.values() for cell in line[4:])
    page = page_html(facts)
    assert "Distance to the limit of the device" in page
    assert "limit: 13.0 ms at 128, 51.4 ms at 512" in page
    assert 'class="path limit"' in page


def test_without_a_measured_device_nothing_is_drawn_and_the_page_says_how(tmp_path):
    run = synthetic_run(synthetic_params(), Purpose.ADOPT)
    facts = _facts(tmp_path, receipt_of(run, Store(tmp_path / "store")))
    assert roofline_lines(facts) == []
    assert limit_curve(facts, facts.rows, "ttft") == ()
    assert "lqw doctor PARAMS --roofline" in roofline_lead(facts)


@pytest.mark.parametrize("value", [None, [], {"rows": [1]}, {"rows": {"tiny/decode": {"limit": "x"}}, "without": 3}])
def test_a_broken_roofline_breaks_no_page(tmp_path, data, value):
    facts = _facts(tmp_path, seal({**loads_strict(data), "roofline": value}))
    assert facts.problems
    assert "INVALID" in page_html(facts)

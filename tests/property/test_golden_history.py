"""Forty releases of sixty rows, with everything that ever went wrong planted in them: each has its expected verdict."""

import math

import pytest
from typer.testing import CliRunner

from lqw.canonical import canonical_bytes, write_atomic
from lqw.cli.baseline import app
from lqw.metrics import RowId
from lqw.outcomes import Outcome
from lqw.ratchet import FloorSource, RatchetState, baseline_to_json
from tests.support import golden

GOOD = {"PASS", "IMPROVED"}


@pytest.fixture(scope="module")
def history():
    return golden.play()


def test_it_is_forty_releases_of_sixty_rows(history):
    first, told = history
    assert len(told) == len(golden.STORY) == 40
    assert len(first.epochs[0].rows) == 60


@pytest.mark.parametrize("at", range(len(golden.STORY)), ids=[step.release for step in golden.STORY])
def test_every_release_gets_its_verdict(history, at):
    told = history[1][at]
    step, judgement = told.step, told.judgement
    assert (judgement.outcome, step.says in judgement.sentence) == (step.outcome, True), judgement.sentence
    bad = {str(row.row): str(row.verdict) for row in judgement.rows if row.verdict not in GOOD}
    if step.loud:
        assert {name.partition("/")[0] for name in bad} == set(step.loud)
    else:
        assert bad == step.blocks
        proved = {name for name, factor in step.better.items() if factor > 1}
        assert {str(row.row) for row in judgement.rows if row.verdict == "IMPROVED"} <= proved | set(step.improved)
        assert set(step.improved) <= {str(row.row) for row in judgement.rows if row.verdict == "IMPROVED"}


@pytest.mark.parametrize("at", range(len(golden.STORY)), ids=[step.release for step in golden.STORY])
def test_only_a_pass_changes_the_baseline(history, at):
    told = history[1][at]
    assert (told.after is told.before) is (told.judgement.outcome is not Outcome.PASS)


def test_no_floor_ever_moves_but_by_a_batch_or_a_record(history):
    """Upwards by a fresh batch of an improved release, downwards by a record, and by nothing else in forty releases."""
    moved = {}
    for told in history[1]:
        for i, epoch in enumerate(told.before.epochs):
            for row, entry in epoch.rows.items():
                assert told.after.epochs[i].rows[row].floor == entry.floor
                now = told.then.epochs[i].rows[row].floor
                if now != entry.floor:
                    moved[told.step.release, str(row)] = (now.value > entry.floor.value, told.step.then.split()[0])
    assert moved == {("1.11.0", golden.SOLID): (True, "batch"), ("1.28.0", golden.TILES): (False, "rebase")}


def test_the_history_ends_where_it_must(history):
    end = history[1][-1].then
    old, new = end.epochs
    assert (old.key.host.driver_major, new.key.host.driver_major) == ("560", "570")
    solid, tiles = (new.rows[RowId.parse(name)] for name in (golden.SOLID, golden.TILES))
    assert old.rows[RowId.parse(golden.SOLID)].floor_source is FloorSource.BATCH
    assert (tiles.floor_source, tiles.record_sha256) == (FloorSource.REBASE, "1" * 64)
    assert tiles.floor_on("2027-03-01") == tiles.floor_before
    assert math.exp(tiles.floor.value - tiles.first) == pytest.approx(0.9, abs=0.01)
    assert solid.floor.value == pytest.approx(math.log(1.05), abs=0.005)
    retired = {row.model for row, entry in new.rows.items() if entry.state is RatchetState.RETIRED}
    assert retired == {"delta"}
    assert new.rows[RowId.parse(golden.FAST)].improved_by
    passed = [told.step.release for told in history[1] if told.judgement.outcome is Outcome.PASS]
    histories = [point.release for epoch in end.epochs for point in epoch.rows[RowId.parse("alpha/agg@4")].history]
    assert histories == passed


def test_baseline_show_prints_the_golden_history(history, tmp_path):
    write_atomic(tmp_path / "golden/baseline.json", canonical_bytes(baseline_to_json(history[1][-1].then)))
    done = CliRunner().invoke(app, ["show", "golden", "--store", str(tmp_path)])
    assert done.exit_code == 0
    assert "new epoch: host.driver_major: '560' became '570'" in done.output
    assert "opened by 1.0.0" in done.output
    assert done.output.count("RETIRED") == 15
    assert "1.40.0 proved an improvement: adopt a fresh batch of it" in done.output
    assert "since the first floor: 45 gating rows at 0.99" in done.output
    assert f"the worst {golden.TILES} at 0.9" in done.output

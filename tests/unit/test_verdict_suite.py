"""The suite test: a loss that every row shares and none shows, and rows that share their luck."""

import math

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import RowId
from lqw.noise import Reference, RowData, RowReferences, band_table
from lqw.outcomes import Outcome, Purpose, RowVerdict
from lqw.plan import Policy
from lqw.verdict import judge
from lqw.verdict.suite import suite_tests
from tests.support import synthetic as syn

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")


def _release(rng, *, models=5, rows=12, sd=0.03, loss=0.0, shared=0.0, n=3):
    """Rates of several models; *shared* is the part of the variance that a model's rows have in common per pair."""
    data, references = {}, {}
    for k in range(models):
        luck = {size: rng.standard_normal(size) for size in (n, 10)}
        for r in range(rows):
            row = RowId.parse(f"m{k}/agg@{r + 1}")
            d, f = (
                sd * (math.sqrt(1 - shared) * rng.standard_normal(size) + math.sqrt(shared) * luck[size])
                for size in (n, 10)
            )
            d = d - loss
            data[row] = RowData(row, tuple(range(1, n + 1)), tuple(d), tuple(np.exp(d)), (1.0,) * n)
            ss = float(((f - f.mean()) ** 2).sum())
            floor = Reference(
                value=float(f.mean()), n=10, ss=ss, df=9, release="1", receipt_sha256="f", d=tuple(map(float, f))
            )
            references[row] = RowReferences(floor=floor)
    bands = band_table(list(data.values()), references, POLICY, look=0, m=len(data))
    return data, bands, references


def test_by_hand_for_independent_rows():
    data, bands, references = _release(np.random.default_rng(0), sd=0.005)
    (found,) = suite_tests(data, bands, references)
    se2 = sum(band.se_floor**2 for band in bands.values()) / 60**2 + 2 * 0.005**2
    assert found.rows == 60
    assert found.mean_delta == pytest.approx(np.mean([band.delta_floor for band in bands.values()]))
    assert found.threshold == pytest.approx(-2.576 * math.sqrt(se2))
    assert not found.red


def test_a_broad_small_loss_is_red_though_no_row_is():
    data, bands, references = _release(np.random.default_rng(0), loss=0.035)
    (found,) = suite_tests(data, bands, references)
    assert found.red
    assert sum(band.call == "RED" for band in bands.values()) <= 3


def test_rows_that_share_their_luck_do_not_make_false_alarms():
    """Half of the noise common to a model's rows: the independent formula alone would cry wolf."""
    rng = np.random.default_rng(1)
    alarms, naive, runs = 0, 0, 300
    for _ in range(runs):
        data, bands, references = _release(rng, models=1, rows=8, sd=0.10, shared=0.5)
        (found,) = suite_tests(data, bands, references)
        alarms += found.red
        independent = sum(band.se_floor**2 for band in bands.values()) / 8**2 + 2 * 0.005**2
        naive += found.mean_delta < -2.576 * math.sqrt(independent)
    assert naive > stats.binom.isf(1e-3, runs, 0.005)
    assert alarms <= stats.binom.isf(1e-3, runs, 0.005)


def test_fewer_than_three_rows_are_no_suite():
    data, bands, references = _release(np.random.default_rng(0), models=1, rows=2, loss=0.5)
    assert suite_tests(data, bands, references) == ()


def test_floors_of_different_batches_do_not_line_up():
    data, bands, references = _release(np.random.default_rng(0), models=1, rows=3, sd=0.1)
    mixed = {
        row: RowReferences(floor=refs.floor.model_copy(update={"receipt_sha256": str(row)}))
        for row, refs in references.items()
    }
    (alike,), (unlike,) = suite_tests(data, bands, references), suite_tests(data, bands, mixed)
    assert unlike.mean_delta == alike.mean_delta
    assert unlike.threshold < alike.threshold  # two degrees of freedom instead of eleven


def test_one_model_whose_floors_do_not_line_up_leaves_the_other_its_pairs():
    data, bands, references = _release(np.random.default_rng(0), models=2, rows=3, sd=0.1)
    other = {
        row: RowReferences(floor=refs.floor.model_copy(update={"receipt_sha256": str(row)}))
        for row, refs in references.items()
    }
    half = {row: (other if row.model == "m1" else references)[row] for row in data}
    (alike,), (mixed,), (unlike,) = (suite_tests(data, bands, floors) for floors in (references, half, other))
    assert unlike.threshold < mixed.threshold < alike.threshold


def test_a_suite_alone_makes_the_run_red():
    rng = np.random.default_rng(4)
    models = tuple(f"m{i}" for i in range(6))
    rows = ("decode", "agg@1", "agg@4")
    adopt = syn.plan(Purpose.ADOPT, models=models, rows=rows, floor_pairs=10, release="1.0.0")
    standing = syn.standing_of(judge(syn.evidence(adopt, syn.starts_of(adopt, rng, sd=0.03))))
    plan = syn.plan(models=models, rows=rows, floor_pairs=10, margin=0.15)
    starts = syn.starts_of(plan, rng, sd=0.03, effects=dict.fromkeys(rows, 0.965))
    judgement = judge(syn.evidence(plan, starts, standing))
    assert not any(row.verdict is RowVerdict.RED for row in judgement.rows)
    assert judgement.suites[0].red
    assert judgement.outcome is Outcome.RED
    assert "the 18 rate rows together are at 0.9" in judgement.sentence

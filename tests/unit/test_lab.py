"""The lab's pure parts: what past releases would have been called, where methods part, and saving a new one."""

import importlib
import math
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from lqw.errors import UsageError
from lqw.lab import guard
from lqw.lab.compare import flips, judge_history, parse_looks, with_settings
from lqw.lab.curves import LOSSES, NOISE_FACTORS, SLICE, Curves, Simulation, measured_noise, pairs_to_pass
from lqw.lab.history import History
from lqw.lab.methods import Methods, method_problems
from lqw.lab.receipts import load_receipts
from lqw.lab.save import save_method
from lqw.lab.synthetic import PLANTED, POLICY, synthetic_history
from lqw.lab.views import of, summary_view
from lqw.metrics import RowId
from lqw.noise.batch import Bands
from lqw.noise.methods import METHODS, fixed_band, gate_v1
from lqw.noise.rows import Call
from lqw.outcomes import Purpose
from lqw.plan import policy_of
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params

ROOT = Path(__file__).parents[2]
GATE = METHODS["gate-v1"]


@pytest.fixture(scope="module")
def history():
    return synthetic_history()


def simulated(noise, method, releases):
    simulation = Simulation(noise, method, POLICY)
    simulation.go_on(most=releases)
    return simulation.curves


def two_errors(batch, policy, look, m):
    """RED below two standard errors, passed otherwise: one look, no error spending."""
    noise = gate_v1.decide(batch, policy, look=look, m=m)
    red = noise.estimate - batch.floor < -2.0 * noise.se_floor
    passed = ~red & (batch.n_floor > 0)
    return replace(noise, red_floor=red, red_last=red & False, passed=passed)


def test_the_bundled_history_is_forty_by_sixty_five_the_same_every_time_and_says_it_is_synthetic(history):
    again = synthetic_history()
    assert history.synthetic
    assert [len(release.rows) for release in history.releases] == [65] * 40
    assert [r.rows[9].d for r in history.releases] == [r.rows[9].d for r in again.releases]
    assert synthetic_history(2, seed=21).releases[0].rows[0].d != history.releases[0].rows[0].d


def test_gate_v1_finds_the_planted_losses_and_no_others(history):
    judged = judge_history(history, GATE, POLICY)
    red = {(i + 1, str(row)) for i, one in enumerate(judged) for row, said in one.rows.items() if said.call is Call.RED}
    large = {(n, row) for n, rows in PLANTED.items() for row, effect in rows.items() if effect <= math.log1p(-0.10)}
    assert red == large
    assert {judged[n - 1].call for n, _ in large} == {Call.RED}


def test_a_fixed_band_cries_wolf_where_gate_v1_does_not(history):
    mine, band = (judge_history(history, METHODS[name], POLICY) for name in ("gate-v1", "fixed-band-5"))
    parted = flips(history, [{row: said.call for row, said in one.rows.items()} for one in mine], band)
    planted = {(f"1.{n}", row) for n, rows in PLANTED.items() for row in rows}
    wolf = [one for one in parted if one.after is Call.RED and (one.release, str(one.row)) not in planted]
    assert len({one.release for one in wolf}) >= 8
    assert all(one.before is not one.after for one in parted)


def test_a_method_that_wants_unmeasured_pairs_leaves_the_row_open_and_says_of_which_model(history):
    looks = (3, 5, 7, 9, 60)
    judged = judge_history(history, GATE, replace(POLICY, looks=looks, margin=0.012))
    assert any("9b" in one.wanted for one in judged)
    for one in judged:
        assert all(n <= 9 for n in one.pairs.values())
        assert one.call is not Call.PASS or not one.wanted


def test_releases_with_other_rows_are_judged_by_themselves(history):
    first, second, third = history.releases[:3]
    short = replace(second, rows=second.rows[:10])
    mixed = History((first, short, replace(third, rows=())), "mixed", synthetic=True)
    judged = judge_history(mixed, GATE, POLICY)
    alone = judge_history(History((short,), "alone", synthetic=True), GATE, POLICY)
    assert judged[1].rows == alone[0].rows
    assert judged[2] is None
    assert len(judged[0].rows) == 65


def test_an_empty_history_is_refused(history):
    with pytest.raises(UsageError, match="no measured row"):
        History((replace(history.releases[0], rows=()),), "empty", synthetic=True)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"alpha": 0.0}, "α"), ({"margin": 1.0}, "margin"), ({"tau": -0.1}, "τ"), ({"looks": (3, 3)}, "looks"),
     ({"looks": ()}, "looks"), ({"looks": (1, 3)}, "looks"), ({"alpha": math.nan}, "α")],
)  # fmt: skip
def test_impossible_settings_are_named(change, named):
    good = {"alpha": 0.01, "margin": 0.1, "looks": (3, 5), "tau": 0.005}
    assert with_settings(POLICY, **good).looks == (3, 5)
    with pytest.raises(UsageError, match=named):
        with_settings(POLICY, **{**good, **change})


def test_looks_are_read_as_people_write_them():
    assert parse_looks(" 3, 5 7,9 ") == (3, 5, 7, 9)
    for text in ("", "3,x", "3.5", "-3"):
        with pytest.raises(UsageError, match="looks"):
            parse_looks(text)


def test_curves_rise_with_the_loss_and_with_the_noise(history):
    noise = measured_noise(history)
    mine, band = (simulated(noise, METHODS[name], 40) for name in ("gate-v1", "fixed-band-10"))
    assert mine.red.shape == (len(LOSSES),)
    assert mine.false_red.shape == (len(NOISE_FACTORS),)
    assert mine.red[0] <= 0.01
    assert mine.red[LOSSES.index(0.30)] == 1.0
    assert np.all(np.diff(mine.red) >= -0.02)
    assert band.false_red[-1] > 0.2 > mine.false_red[-1]
    assert 3.0 <= mine.pairs <= 9.0
    assert mine.minutes == pytest.approx(mine.pairs * sum(noise.pair_minutes.values()), rel=0.2)


@pytest.mark.parametrize("name", ["gate-v1", "mann-whitney", "permutation"])
def test_it_makes_no_difference_in_which_slices_releases_are_simulated(history, name):
    noise = measured_noise(history)
    slices = Simulation(noise, METHODS[name], POLICY)
    slices.go_on(most=100, seconds=0.0)
    assert slices.releases == SLICE
    slices.go_on(most=100, seconds=0.0)  # late already: one all the same, or a slow method would never come to its end
    assert slices.releases == SLICE + 1
    slices.go_on(most=7)
    whole = Simulation(noise, METHODS[name], POLICY)
    whole.go_on(most=7)
    assert slices.releases == whole.releases == 7
    for field in fields(Curves):
        assert getattr(slices.curves, field.name) == pytest.approx(getattr(whole.curves, field.name)), field.name


def test_simulated_releases_differ_and_take_every_row_of_a_model_in_turn(history):
    noise = measured_noise(history)

    def second_row_only(batch, policy, look, m):
        said = METHODS["fixed-band-10"](batch, policy, look=look, m=m)
        return replace(said, red_floor=said.red_floor & (np.arange(len(noise.rows)) == 1))

    quiet = replace(noise, sd=noise.sd * 1e-6)
    assert simulated(quiet, second_row_only, 1).red[-1] == 0
    assert simulated(quiet, second_row_only, 2).red[-1] > 0
    assert any(0 < share < 1 for share in simulated(noise, METHODS["fixed-band-5"], 8).false_red)


def test_the_bundled_history_is_recorded_as_the_gate_judges_it_and_its_truth_is_known(history):
    judged = judge_history(history, GATE, POLICY)
    assert flips(history, [release.recorded for release in history.releases], judged) == ()
    assert {release.name for release in history.releases if release.slower} == {"1.11", "1.18", "1.24", "1.30"}
    strict = judge_history(history, GATE, replace(POLICY, margin=0.02))
    flipped = flips(history, [release.recorded for release in history.releases], strict)
    assert flipped
    assert all(one.before is Call.PASS and one.delta < 0.2 for one in flipped)
    lines = str(summary_view(history, {"A": judged, "B": strict}, len(flipped), {"A": 0, "B": len(flipped)}))
    assert "4 of 5" in lines
    assert f"the methods part on {len(flipped)} rows" in lines


def test_a_simulated_share_says_how_little_few_draws_prove():
    assert of(0.0, 10) == "0 of 10 (at most 26%)"
    assert of(1.0, 10) == "10 of 10 (at most 100%)"
    assert of(0.0, 300) == "0 of 300 (at most 1%)"


def test_measured_noise_is_the_noise_that_went_in(history):
    noise = measured_noise(history)
    at = noise.rows.index(RowId.parse("9b/decode"))
    assert noise.sd[at] == pytest.approx(0.015, rel=0.15)
    few = pairs_to_pass(noise, POLICY)
    more = pairs_to_pass(replace(noise, sd=noise.sd * 6), POLICY)
    assert few[at] < more[at]
    assert set(pairs_to_pass(replace(noise, sd=noise.sd + 1.0), POLICY)) == {None}


def test_receipts_are_judged_as_the_gate_judged_them_and_bad_ones_are_named(tmp_path):
    store = adopt_floor(tmp_path / "store", synthetic_params(release="1.0.0"), sd=0.03)
    names = {}
    for release, effects in (("1.1.0", {}), ("1.2.0", {"decode": 0.4})):
        receipt = gate_receipt(store, synthetic_params(release=release), sd=0.03, seed=5, effects=effects)
        names[release] = store.folder("synthetic") / f"{release}.json"
        names[release].write_bytes(receipt)
    bad = tmp_path / "bad.json"
    bad.write_bytes(names["1.1.0"].read_bytes().replace(b'"attempt":1', b'"attempt":2', 1))
    history, left_out = load_receipts([store.folder("synthetic"), bad])
    assert [release.name for release in history.releases] == ["1.1.0", "1.2.0"]
    assert not history.synthetic
    assert len(left_out) == 2
    assert "bad.json: INVALID" in "".join(left_out)
    for release, judged in zip(history.releases, judge_history(history, GATE, history.releases[0].policy), strict=True):
        assert release.recorded
        assert {row: judged.rows[row].call for row in release.recorded} == dict(release.recorded)
    assert judged.rows[RowId.parse("tiny/decode")].call is Call.RED
    assert all(minutes > 0 for minutes in release.pair_minutes.values())
    with pytest.raises(UsageError, match="INVALID"):
        load_receipts([bad])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_of_the_registry_behaves_as_a_method_must(name):
    assert method_problems(METHODS[name]) == []


def _bands(batch, **changed) -> Bands:
    return replace(fixed_band.five_percent(batch, POLICY, look=0, m=65), **changed)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (lambda b, p, look, m: _bands(b, passed=~np.isnan(b.d[..., 0])), "RED and passed at once"),
        (lambda b, p, look, m: _bands(b, red_floor=b.n > 99, red_last=b.n > 99), "tenth of its floor"),
        (lambda b, p, look, m: _bands(b, passed=np.isnan(b.floor)), "without a floor passes"),
        (lambda b, p, look, m: _bands(b, estimate=np.zeros(3)), "shape"),
        (lambda b, p, look, m: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_method_that_would_let_a_release_slip_is_refused(method, problem):
    assert problem in "; ".join(method_problems(method))


def test_names_of_the_registry_cannot_be_replaced_and_a_tried_one_can():
    methods = Methods()
    methods.add("two-errors", two_errors)
    methods.add("two-errors", two_errors)
    assert methods.names == (*METHODS, "two-errors")
    with pytest.raises(UsageError, match="in the registry"):
        methods.add("gate-v1", two_errors)
    with pytest.raises(UsageError, match="Two Errors"):
        methods.add("Two Errors", two_errors)
    with pytest.raises(UsageError, match="takes"):
        methods.add("other", lambda batch: batch)
    with pytest.raises(UsageError, match="unknown"):
        methods["nothing"]


@pytest.fixture
def checkout(tmp_path):
    """Return a copy of what a saved method touches."""
    shutil.copytree(ROOT / "lqw", tmp_path / "lqw", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def test_one_call_saves_a_method_with_a_test_that_passes_there_and_fails_once_the_method_changes(checkout):
    saved = save_method("two-errors", two_errors, checkout=checkout)
    module = checkout / "lqw" / "noise" / "methods" / "two_errors.py"
    assert saved.written
    assert module.is_file()
    lint = [sys.executable, "-m", "ruff", "check", "--no-cache", "lqw/noise/methods", "tests"]
    linted = subprocess.run(lint, cwd=checkout, capture_output=True, text=True, check=False)
    assert linted.returncode == 0 or "PLR2004" in linted.stdout, linted.stdout
    code = (
        "import sys; sys.path.insert(0, 'tests/unit'); import test_method_two_errors as t\n"
        "from lqw.noise.methods import METHODS, fixed_band\n"
        "t.test_it_behaves_as_a_method_must()\n"
        "t.test_it_says_of_four_known_releases_what_it_said_when_it_was_saved()\n"
        "t.METHODS = {'two-errors': fixed_band.five_percent}\n"
        "try: t.test_it_says_of_four_known_releases_what_it_said_when_it_was_saved()\n"
        "except AssertionError: print('changed:', METHODS['two-errors'].__module__)\n"
    )
    environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, env=environment, check=False, capture_output=True, text=True
    )
    assert ran.stdout == "changed: lqw.noise.methods.two_errors\n", ran.stderr
    with pytest.raises(UsageError, match="already"):
        save_method("two-errors", two_errors, checkout=checkout)


def uses_the_notebook(batch, policy, look, m):
    """RED by a name that lives in the notebook alone."""
    return two_errors(batch, policy, look, m)


def no_docstring(batch, policy, look, m):
    return gate_v1.decide(batch, policy, look=look, m=m)


def test_what_a_module_would_not_have_is_named_and_nothing_is_written(checkout):
    before = sorted(checkout.rglob("*"))
    with pytest.raises(UsageError, match="uses two_errors"):
        save_method("other", uses_the_notebook, checkout=checkout)
    with pytest.raises(UsageError, match="docstring"):
        save_method("other", no_docstring, checkout=checkout)
    with pytest.raises(UsageError, match="no checkout"):
        save_method("two-errors", two_errors, checkout=checkout / "tests")
    assert sorted(checkout.rglob("*")) == before


def test_a_preview_writes_nothing():
    saved = save_method("two-errors", two_errors)
    assert not saved.written
    assert "not written" in str(saved)
    assert not (ROOT / "lqw" / "noise" / "methods" / "two_errors.py").exists()


def test_the_lab_refuses_to_work_in_the_kernel_of_a_gate(monkeypatch):
    guard.refuse_in_a_run()
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-m", guard.CHAIN_KERNEL, "-f", "x.json"])
    assert importlib.import_module(guard.CHAIN_KERNEL)  # the name is a real module's
    with pytest.raises(UsageError, match="never gates"):
        guard.refuse_in_a_run()


def test_a_gate_takes_its_method_from_the_code_whatever_the_registry_holds():
    assert policy_of(synthetic_params()).method == "gate-v1"
    assert Purpose.GATE in Purpose
    assert "method" not in synthetic_params().model_dump_json()

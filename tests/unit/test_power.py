"""``lqw power``: the simulation decides as the gate does, and says how sure it is."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from lqw.cli import app as cli
from lqw.errors import Exit
from lqw.metrics import RowId
from lqw.noise import METHODS, Call, Reference, RowData, RowReferences
from lqw.outcomes import Purpose, RowVerdict
from lqw.plan import Policy
from lqw.power.characteristics import characteristics, planter
from lqw.power.rates import Rate, mean_of
from lqw.power.simulate import decide, simulate
from lqw.power.world import World, draw
from lqw.verdict.rows import Judged, row_result
from lqw.verdict.sequence import replay
from lqw.verdict.suite import suite_tests

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
LOUD = World(rows=12, models=3, sigma=(0.014, 0.08), shared=0.3, session_shared=0.02)


def _one_by_one(batch, world, policy, release):
    """Judge one simulated release by the functions that the judge calls."""
    kinds = ("agg", "ttft")
    ids = [RowId(f"m{model}", kinds[r % 2], r + 1) for r, model in enumerate(world.model_of)]
    data, references = {}, {}
    for r, row in enumerate(ids):
        d, f = (tuple(map(float, x[release, r])) for x in (batch.d, batch.floor_d))
        data[row] = RowData(row, tuple(range(1, len(d) + 1)), d, tuple(np.exp(d)), (1.0,) * len(d))
        ss = float(batch.session_ss[release, r, 0])
        floor = Reference(value=float(np.mean(f)), n=len(f), ss=ss, df=len(f) - 1, release="1", receipt_sha256="f", d=f)
        references[row] = RowReferences(floor=floor)
    available = dict.fromkeys({row.model for row in ids}, policy.looks[-1])
    found = replay(data, references, policy, m=len(ids), available=available, folded={})
    results = {
        row: row_result(Judged(data[row], found.bands[row], references[row], policy, Purpose.GATE, needing=False), None)
        for row in ids
    }
    judged = {row: found.bands[row] for row in ids if results[row].verdict is not RowVerdict.SUSPECT}
    suites = {suite.family: suite.red for suite in suite_tests(data, judged, references)}
    return ids, found, results, suites


@pytest.mark.parametrize("method", ["gate-v1", "own-t", "mann-whitney"])
def test_the_simulation_decides_as_the_gate_does_release_by_release(method):
    policy = dataclasses.replace(POLICY, method=method)
    batch = planter(LOUD, -0.15, draw(LOUD, policy, np.random.default_rng(7), 40), 0)
    batch = dataclasses.replace(batch, d=batch.d - np.linspace(-0.3, 0.03, 40)[:, None, None])
    decided, _ = decide(batch, LOUD, policy)
    for release in range(40):
        ids, found, results, suites = _one_by_one(batch, LOUD, policy, release)
        calls = [found.bands[row].call for row in ids]
        assert decided.red[release].tolist() == [call is Call.RED for call in calls]
        suspect = [results[row].verdict is RowVerdict.SUSPECT for row in ids]
        assert decided.suspect[release].tolist() == suspect
        assert decided.passed[release].tolist() == [
            call is Call.PASS and not odd for call, odd in zip(calls, suspect, strict=True)
        ]
        assert decided.used[release].tolist() == [found.bands[row].n for row in ids]
        used = {
            model: max(found.bands[row].n for row in ids if row.model == model) for model in {row.model for row in ids}
        }
        assert decided.pairs[release].tolist() == [used[model] for model in sorted(used)]
        assert decided.suite[release].tolist() == [suites.get(str(row.kind.family), False) for row in ids]
    if method == "gate-v1":  # the forty releases are of every kind, or this test has shown little
        for seen in (decided.red, decided.suspect, decided.suite, decided.passed):
            assert seen.any()
            assert not seen.all()
        assert set(np.unique(decided.used)) == {3, 5, 7, 9}


def test_noise_is_as_wide_as_the_world_says():
    rng = np.random.default_rng(0)
    for world in (
        World(rows=4, models=2, sigma=(0.02, 0.06)),
        World(rows=4, models=2, sigma=(0.02, 0.06), tails="t3"),
        World(rows=4, models=2, sigma=(0.02, 0.06), shared=0.5),
    ):
        d = world.pairs(rng, 40_000, 1)[:, :, 0]
        np.testing.assert_allclose(d.std(axis=0), world.sd, rtol=0.06)
        together = np.corrcoef(d, rowvar=False)
        assert together[0, 1] == pytest.approx(world.shared, abs=0.03)  # one model
        assert together[0, 2] == pytest.approx(0.0, abs=0.03)
    moved = World(rows=2, models=1, sigma=(1e-6, 1e-6), session=0.01, session_shared=0.02).pairs(rng, 20_000, 1)
    assert moved[:, 0, 0].std() == pytest.approx(np.hypot(0.01, 0.02), rel=0.03)
    assert np.corrcoef(moved[:, :, 0], rowvar=False)[0, 1] == pytest.approx(4 / 5, abs=0.02)


def test_sigmas_lie_where_the_world_says():
    even = np.sort(World(rows=61, models=1, sigma=(0.014, 0.06)).sd)
    np.testing.assert_allclose(np.diff(np.log(even)), np.log(0.06 / 0.014) / 61)
    bell = World(rows=1000, models=1, sigma=(0.014, 0.06), spread="lognormal").sd
    assert np.mean((bell >= 0.014) & (bell <= 0.06)) == pytest.approx(0.95, abs=0.002)


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others():
    world = World(rows=8, models=2)
    one, same, other = (simulate(world, POLICY, releases=150, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.used, same.used)
    assert (one.pairs != other.pairs).any()
    longer = simulate(world, POLICY, releases=250, seed=3)
    np.testing.assert_array_equal(longer.used[:100], one.used[:100])


def test_the_four_fates_of_a_planted_row_are_all_there_is():
    found = characteristics(World(rows=10, models=2, sigma=(0.02, 0.06)), POLICY, effect=-0.1, releases=100, seed=1)
    planted = found.planted
    assert planted.red.hits + planted.suite.hits + planted.undecided.hits + planted.silent.hits == 100
    assert found.false_red.hits + found.healthy_pass.hits + found.healthy_undecided.hits == 100
    assert sum(rate.of for _, rate in found.silent_by_sd) == 100


def test_a_rate_knows_its_error():
    rate = Rate(3, 200)
    assert rate.error == pytest.approx(np.sqrt(0.015 * 0.985 / 200))
    exact = stats.binomtest(3, 200).proportion_ci(method="exact")
    assert rate.interval == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert Rate(0, 200).interval == (0.0, pytest.approx(stats.binomtest(0, 200).proportion_ci().high))
    assert Rate(200, 200).interval[1] == 1.0
    for hits in (0, 2, 9, 12, 200):
        p = stats.binomtest(hits, 200, 0.02, alternative="greater").pvalue
        assert Rate(hits, 200).exceeds(0.02) is bool(p < 1e-3)
        p = stats.binomtest(hits, 200, 0.1, alternative="less").pvalue
        assert Rate(hits, 200).below(0.1) is bool(p < 1e-3)
    assert mean_of(np.array([1.0, 2.0, 3.0])).error == pytest.approx(1 / np.sqrt(3))


def _run(capsys, *arguments):
    status = cli.run(["power", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


SMALL = ("--rows", "6", "--models", "2", "--releases", "20")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--method", "gate-v2"),
        ("--sigma", "nan"),
        ("--sigma", "-0.03"),
        ("--sigma", "0"),
        ("--sigma", "0.06:0.014"),
        ("--sigma", "0.01:0.02:0.03"),
        ("--rows", "0"),
        ("--rows", "six"),
        ("--models", "61"),
        ("--effect", "-1"),
        ("--effect", "inf"),
        ("--margin", "0"),
        ("--margin", "1"),
        ("--looks", "3,3"),
        ("--looks", "5,3"),
        ("--looks", ""),
        ("--looks", "1,2"),
        ("--floor-pairs", "1"),
        ("--tails", "cauchy"),
        ("--spread", "wide"),
        ("--shared", "1.5"),
        ("--session", "-1"),
        ("--session-shared", "x"),
        ("--releases", "9"),
        ("--releases", "²00"),
        ("--seed", "-1"),
    ],
)
def test_bad_input_ends_in_2_and_names_field_and_remedy(capsys, option, value):
    status, out, err = _run(capsys, f"{option}={value}")
    assert (status, out) == (Exit.USAGE, "")
    assert option in err
    assert "remedy: " in err


def test_every_method_answers_in_words_and_in_json(capsys):
    status, out, _ = _run(capsys, *SMALL, "--method", "all", "--sigma", "0.02:0.05")
    assert status == Exit.PASS
    assert [line for line in out.splitlines() if line in METHODS] == list(METHODS)
    assert out.count("silent PASS") == len(METHODS)
    status, out, _ = _run(capsys, *SMALL, "--json")
    form = json.loads(out)
    assert status == Exit.PASS
    assert form["methods"]["gate-v1"]["silent_pass"]["of"] == 20
    assert set(form["methods"]["gate-v1"]) == {
        "false_red", "false_red_rows", "healthy_pass", "healthy_undecided", "detected", "detected_by_suite",
        "undecided", "silent_pass", "mean_pairs", "mean_pairs_row",
    }  # fmt: skip

"""The plan: every row, balanced orders from the seed, the same for the same params."""

from pathlib import Path

import pytest

from lqw.outcomes import Arm, Purpose
from lqw.params import load_params
from lqw.plan import build_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def params():
    return load_params(ROOT / "params/demo/1.1.0.yaml")


def test_every_row_of_every_model_is_planned(params):
    plan = build_plan(params, Purpose.GATE)
    assert [str(row) for row in plan.rows] == [
        f"{m.name}/{r}" for m in params.release.models for r in params.protocol.rows
    ]


def test_equal_params_give_an_equal_plan(params):
    assert build_plan(params, Purpose.GATE).sha256 == build_plan(params, Purpose.GATE).sha256
    assert build_plan(params, Purpose.GATE).sha256 != build_plan(params, Purpose.ADOPT).sha256


def test_each_arm_goes_first_once_in_every_two_pairs(params):
    for seed in range(50):
        release = params.release.model_copy(update={"seed": seed})
        (orders,) = build_plan(params.model_copy(update={"release": release}), Purpose.ADOPT).orders.values()
        firsts = [order[0] for order in orders]
        for block in range(0, len(firsts) - 1, 2):
            assert {firsts[block], firsts[block + 1]} == {Arm.SUBJECT, Arm.COMPARATOR}


def test_the_seed_decides_the_order(params):
    firsts = set()
    for seed in range(20):
        release = params.release.model_copy(update={"seed": seed})
        plan = build_plan(params.model_copy(update={"release": release}), Purpose.GATE)
        firsts.add(next(iter(plan.to_json()["orders"].values()))[0])
    assert firsts == {"SC", "CS"}


def test_a_pair_runs_both_arms_of_a_launch_one_after_the_other(params):
    plan = build_plan(params, Purpose.GATE)
    model = params.release.models[0].name
    starts = plan.starts(model, 1, params.protocol.launches)
    assert {start.arm for start in starts[:2]} == {Arm.SUBJECT, Arm.COMPARATOR}
    assert str(starts[0]).startswith(f"{model}/p01/")

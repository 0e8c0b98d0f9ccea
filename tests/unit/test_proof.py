"""The bounds of the proof, with fewer simulations: ``make proof`` runs the same claims with thousands."""

import math
from pathlib import Path

import numpy as np
import pytest

from lqw.power.confirmed import confirmed
from lqw.power.rates import Mean, Rate
from lqw.power.world import World
from tests.proof.claims import (
    POLICY,
    RAISED,
    WORLDS,
    Claim,
    advancing,
    drifting,
    nothing,
    one_row,
    suite,
    table,
    whatever_sigma,
)

PAGE = Path(__file__).parents[2] / "docs/methodology/proof.md"


def _hold(claims):
    claims = list(claims)
    assert not [claim for claim in claims if claim.broken]
    return {claim.what: claim.found for claim in claims}


@pytest.mark.parametrize("name", WORLDS)
def test_the_table_of_the_design_holds(name):
    found = _hold(table(name, 100, seed=20))
    assert found["−10 % on one row: RED before confirmation"].of == 100


@pytest.mark.parametrize("sigma", [0.02, 0.10])
def test_no_noise_passes_a_loss_silently(sigma):
    _hold(whatever_sigma(sigma, 150, seed=20))


def test_a_broad_small_loss_is_seen_by_the_suite_only():
    found = _hold(suite(0.03, 100, seed=20, least=0.99))
    assert found["RED by rows alone"].share < 0.7


@pytest.mark.slow
def test_the_anchored_floor_ends_a_drift_and_the_last_release_does_not():
    anchored, last = (_hold(drifting(name, 20, 10, seed=20)) for name in ("gate-v1", "vs-last, only RED blocks"))
    assert anchored["row RED by release 5"].hits == 20
    assert last["row RED by release 10"].hits <= 6


@pytest.mark.slow
def test_a_floor_raised_by_luck_makes_false_alarms_and_one_raised_by_proof_does_not():
    proven, counted, lucky = (list(_hold(advancing(rule, 20, 20, seed=20)).values())[-1] for rule in RAISED)
    assert lucky.hits > 10 * (proven.hits + 1)
    assert counted.hits < lucky.hits


def test_a_batch_repeats_a_true_loss_and_not_a_moved_machine():
    world = World(rows=12, models=3, session_shared=0.05)
    lost = confirmed(world, POLICY, releases=60, seed=3, level=one_row(world, math.log(0.8)))
    row = np.arange(60) % 12
    red = lost.decided.red[np.arange(60), row]
    assert red.sum() > 30
    assert (lost.red[np.arange(60), row] == red).all()
    moved = confirmed(world, POLICY, releases=100, seed=3, level=nothing)
    assert moved.decided.red_release.sum() > 20
    assert moved.red_release.sum() <= 5


def test_a_claim_is_broken_by_more_than_luck_only():
    assert not Claim("", "", Rate(3, 200), 0.01).broken
    assert Claim("", "", Rate(12, 200), 0.01).broken
    assert Claim("", "", Rate(150, 200), 0.9, most=False).broken
    assert not Claim("", "", Rate(0, 200)).broken
    assert Claim("", "", Mean(3.3, 0.01), 3.1).broken
    assert not Claim("", "", Mean(3.12, 0.01), 3.1).broken


def test_the_page_has_every_world_with_its_seed_and_no_broken_bound():
    text = PAGE.read_text(encoding="utf-8")
    for name in WORLDS:
        assert f"| {name} |" in text
    assert "seed 1" in text
    assert "**broken**" not in text

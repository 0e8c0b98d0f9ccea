"""What stopping when decided has saved, by hand: pairs of models that stopped at a look, at the pace they had."""

from types import SimpleNamespace

import pytest

from lqw.verdict.saving import Saving, saving_of

PLAN = SimpleNamespace(max_pairs=9, policy=SimpleNamespace(looks=(3, 5, 9)))
STARTS = [
    *(SimpleNamespace(model="a", wall_s=one) for one in (1.0, 2.0, 3.0, 1.0, 2.0, 3.0)),  # 12 s in 3 pairs
    *(SimpleNamespace(model="b", wall_s=10.0) for _ in range(10)),  # 100 s in 5
]


def _saved(pairs, saved=6):
    return saving_of(SimpleNamespace(pairs=pairs, pairs_saved=saved), STARTS, PLAN)


def test_each_model_saves_its_own_pairs_at_its_own_pace():
    assert _saved({"a": 3}) == Saving(6, 9, pytest.approx(24.0))
    assert _saved({"a": 3, "b": 5}) == Saving(10, 9, pytest.approx(24.0 + 80.0))
    assert _saved({"b": 5, "a": 9}) == Saving(4, 9, pytest.approx(80.0))


def test_nothing_is_saved_where_no_look_said_that_it_is_enough():
    assert _saved({"a": 2, "b": 5}) == Saving(4, 9, pytest.approx(80.0)), "cut short, and the model after it counts"
    assert _saved({"a": 4}) == Saving(0, 9, 0.0)
    assert _saved({"a": 3}, saved=0) == Saving(0, 9, 0.0), "the judgement still wants pairs"

"""Many receipts by many processes: the same answers in the same order, every error named, no waiting for who is dead."""

import os
import signal

import pytest

from lqw.errors import LqwError, UsageError
from lqw.release import many
from lqw.release.many import verify_many
from lqw.testing.receipts import adopt_floor, gate_receipt
from lqw.testing.synthetic import synthetic_params


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Return a PASS, a RED, a floor, an edited one and no JSON at all, several times over."""
    place = tmp_path_factory.mktemp("many")
    store = adopt_floor(place, synthetic_params(release="1.0.0", repeats=1))
    params = synthetic_params(release="1.1.0", repeats=1)
    good = gate_receipt(store, params, seed=3)
    made = {
        "good": good,
        "red": gate_receipt(store, params, seed=3, effects={"ttft@512": 3.0}),
        "edited": good.replace(b'"seed":', b'"seed":1', 1),
        "broken": good[:-1],
    }
    for name, data in made.items():
        (place / f"{name}.json").write_bytes(data)
    return [*(place / f"{name}.json" for name in made), store.receipt("synthetic", "1.0.0")] * 3


def test_many_processes_say_what_one_says_in_the_same_order(paths):
    alone = verify_many(paths, processes=1)
    assert [str(one.outcome) for _, one in alone[:5]] == ["PASS", "RED", "INVALID", "INVALID", "FLOOR"]
    assert verify_many(paths, processes=3) == alone


@pytest.mark.parametrize(("little", "by_many"), [(10**9, False), (0, True)])
def test_processes_are_started_where_there_is_much_to_read(paths, monkeypatch, little, by_many):
    class Started(Exception):
        pass

    def started(_workers):
        raise Started

    monkeypatch.setattr(many, "LITTLE", little)
    monkeypatch.setattr(many, "ProcessPoolExecutor", started)
    if by_many:
        with pytest.raises(Started):
            verify_many(paths[:2])
    else:
        assert [str(one.outcome) for _, one in verify_many(paths[:2])] == ["PASS", "RED"]


def test_an_error_of_one_file_is_that_of_the_whole_and_names_it(paths):
    with pytest.raises(UsageError, match=r"nothing\.json: no such file"):
        verify_many([*paths, paths[0].with_name("nothing.json")], processes=2)


def test_a_process_that_is_killed_ends_the_whole_and_names_what_it_may_have_judged(paths, monkeypatch):
    usual = many.verify_signed

    def killed(path, params):
        if path.name == "broken.json":
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(path, params)

    monkeypatch.setattr(many, "verify_signed", killed)
    with pytest.raises(LqwError, match=r"broken\.json.*ended from outside") as err:
        verify_many(paths, processes=2)
    assert err.value.exit_status == 70

"""One fake world for every file here: a params folder, and a store in which 1.0.0 has set the floor.

The floor is a whole run of twelve starts; files run on different workers, so the first to need it makes it for all.
"""

import fcntl
import os
import shutil

import pytest

from tests.support.command import lqw
from tests.support.fake_params import ENVIRONMENT, write_params

RELEASES = {
    "1.0.0": {},
    "1.1.0": {},
    "1.2.0": {"ubatch": 1},
    "1.3.0": {"fault": "exit_at_once"},
    "1.5.0": {"fault": "garbage_parallel"},
}


@pytest.fixture(scope="session")
def floor(tmp_path_factory):
    """A params folder and a store in which 1.0.0 has set the floor. Only read: tests copy it."""
    workers = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    world = (base.parent if workers else base) / "fake-floor"
    with (world.parent / "fake-floor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (world / "made").exists():
            shutil.rmtree(world, ignore_errors=True)
            world.mkdir()
            write_params(world, releases=RELEASES, streams=2)
            status, said = lqw(
                world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--run", "runs/floor", **ENVIRONMENT
            )
            assert status == 0, said
            (world / "made").touch()
    return world


@pytest.fixture
def world(floor, tmp_path):
    """A copy of it for one test."""
    shutil.copytree(floor / "params", tmp_path / "params")
    shutil.copytree(floor / "receipts", tmp_path / "receipts")
    return tmp_path

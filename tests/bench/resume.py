"""What it costs to be killed: a gate of the fake engine in one go, and one that was killed and resumed, by turns."""

import itertools
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

from lqw.journal import read_journal
from tests.support.command import LQW, lqw
from tests.support.fake_params import ENVIRONMENT, write_params

__all__ = ["PARTS", "resume"]

GATE = ("gate", "params/fake/1.1.0.yaml")
PARTS = {
    "command": "`lqw`, imports, params and journal read again, the kernel asked for",
    "kernel": "the kernel and papermill, until the first cell",
    "begin": "the notebook's first cells: imports, params, plan",
    "collect": "preflight, header compared, journal read; the calibration is kept",
}
"""Parts of a resumed run's way to the first start that it measures."""


def _seconds(utc):
    return datetime.fromisoformat(utc).timestamp()


def _way(run, began, records):
    """Return how long each part of the way to the first new start took, seconds."""
    notebook = json.loads((run / "notebooks/10_collect.ipynb").read_text())
    cells = [c["metadata"]["papermill"] | {"source": "".join(c["source"])} for c in notebook["cells"] if c["cell_type"] == "code"]  # fmt: skip
    collect = next(cell["start_time"] for cell in cells if "steps.collect(" in cell["source"])
    first = read_journal(run / "samples.jsonl").starts[records].started_utc
    marks = [notebook["metadata"]["papermill"]["start_time"], cells[0]["start_time"], collect, first]
    times = [began, *map(_seconds, marks)]
    return dict(zip(PARTS, (after - before for before, after in itertools.pairwise(times)), strict=True))


def _killed(world, starts):
    """Begin a gate and kill it when its journal has *starts* starts; return the seconds until then."""
    journal, began = world / "runs/cut/samples.jsonl", time.monotonic()
    with (
        (world / "log").open("w") as log,
        subprocess.Popen(
            [*LQW, *GATE, "--run", "runs/cut"], cwd=world, env={**os.environ, **ENVIRONMENT}, stdout=log, stderr=log
        ) as cut,
    ):
        while cut.poll() is None and not (
            journal.is_file() and journal.read_bytes().count(b'"kind":"start"') >= starts
        ):
            time.sleep(0.002)
        cut.kill()
    return time.monotonic() - began


def _timed(world, *more):
    began = time.monotonic()
    status, said = lqw(world, *GATE, *more, **ENVIRONMENT)
    assert status == 0, said
    return time.monotonic() - began


def _once(floor, world):
    shutil.copytree(floor, world)
    whole = _timed(world, "--run", "runs/whole")
    shutil.rmtree(world)
    shutil.copytree(floor, world)
    killed = _killed(world, 3)
    began = time.time()
    resumed = _timed(world, "--resume", "runs/cut")
    way = _way(world / "runs/cut", began, 3)
    shutil.rmtree(world)
    return {"whole_s": whole, "killed_s": killed, "resumed_s": resumed, "added_s": killed + resumed - whole, "way": way}


def resume(times=3):
    """Return, as medians over *times* runs, seconds of both, what the kill added, and where a resumed run's begin goes."""
    with tempfile.TemporaryDirectory() as folder:
        floor, world = Path(folder) / "floor", Path(folder) / "world"
        floor.mkdir()
        write_params(floor, releases={"1.0.0": {}, "1.1.0": {}}, streams=2)
        # run.json holds paths: the floor is measured where the gates will run
        floor.rename(world)
        status, said = lqw(world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--run", "runs/floor", **ENVIRONMENT)
        assert status == 0, said
        world.rename(floor)
        seen = [_once(floor, world) for _ in range(times)]
    middle = {name: statistics.median(one[name] for one in seen) for name in ("whole_s", "killed_s", "resumed_s", "added_s")}  # fmt: skip
    way = {part: statistics.median(one["way"][part] for one in seen) for part in PARTS}
    total = [sum(one["way"].values()) for one in seen]
    return {
        **middle, "times": times, "added": [one["added_s"] for one in seen], "way": way,
        "way_s": statistics.median(total), "way_most_s": max(total),
    }  # fmt: skip

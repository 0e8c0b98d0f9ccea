"""Records tests/fixtures/nine-pairs: ``python -m tests.support.nine_pairs``.

Two models of the fake engine, one as steady as this machine and one whose starts differ as they like, through the whole
real gate. The steady one is decided at the first look; runs are made until the other one went to the last look.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from lqw.canonical import sha256_file
from lqw.journal import read_journal
from lqw.testing.cases import write_case
from lqw.testing.fake_adapter import LOUD
from tests.support.command import lqw
from tests.support.fake_params import ENVIRONMENT, write_params

OUT = Path(__file__).parents[1] / "fixtures" / "nine-pairs"
MODELS = {"steady": "steady.gguf", "loud": "loud.gguf"}
RELEASES = {"1.0.0": {}, "1.1.0": {"start_sd": 0.5}}
MOST = 20  # tries


def pairs_of(journal):
    """Return model → pairs that were measured."""
    return {name: len({start.pair for start in journal.starts if start.model == name}) for name in MODELS}


def record(world, out=OUT):
    """Record the floor once and gates until one goes to nine pairs for one model only."""
    write_params(
        world, releases=RELEASES, looks=(3, 5, 7, 9), floor_pairs=10, margin=0.3, rows=("prefill@512", "decode"),
        models=MODELS,
    )  # fmt: skip
    status, said = lqw(
        world, "baseline", "adopt", "params/fake/1.0.0.yaml", "--run", "runs/floor", timeout_s=600, **ENVIRONMENT
    )
    assert status == 0, said
    for number in range(MOST):
        run = world / "runs" / str(number)
        arguments = ("gate", "params/fake/1.1.0.yaml", "--run", run, "--store", world / f"store{number}")
        shutil.copytree(world / "receipts", world / f"store{number}")
        status, said = lqw(world, *arguments, timeout_s=600, **ENVIRONMENT, **{LOUD: MODELS["loud"]})
        pairs = pairs_of(read_journal(run / "samples.jsonl"))
        if pairs == {"steady": 3, "loud": 9}:
            _keep(world, run, status, out)
            return
    raise SystemExit(f"{MOST} runs, none of which went to nine pairs for one model only; the last one said: {said}")


def _keep(world, run, status, out):
    outcome = json.loads((run / "receipt.json").read_text())["judgement"]["outcome"]
    write_case(
        out,
        (world / "runs/floor/samples.jsonl").read_bytes(),
        (run / "samples.jsonl").read_bytes(),
        {"exit": status, "outcome": outcome, "journal_sha256": sha256_file(run / "samples.jsonl")},
    )
    shutil.copyfile(run / "collect.json", out / "collect.json")
    shutil.copytree(world / "params", out / "params", ignore=shutil.ignore_patterns("*.gguf"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        record(Path(place), Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)

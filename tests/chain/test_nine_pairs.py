"""A recorded run of two models: the steady one was decided at three pairs, the loud one went to nine.

Recorded by ``python -m tests.support.nine_pairs``, through the whole gate.
"""

import pytest

from lqw.canonical import read_json, sha256_file
from lqw.correctness import parse_reference
from lqw.journal import read_journal
from lqw.outcomes import RowVerdict
from lqw.pipeline.gate import store_beside
from lqw.ratchet import parse_baseline
from lqw.receipt import verify_receipt
from lqw.receipt.inputs import Inputs, rejudge, standing_for
from lqw.verdict.saving import Saving, saving_of
from tests.support.command import lqw
from tests.support.fake_params import ENVIRONMENT
from tests.support.nine_pairs import MODELS, OUT, pairs_of

RECORDED = OUT / "samples.jsonl"


def test_only_the_model_that_no_look_decided_was_measured_on():
    """Nothing of it is judged here: which starts are in the journal is what the collect stage did."""
    assert sha256_file(RECORDED) == read_json(OUT / "expected.json")["journal_sha256"]
    journal = read_journal(RECORDED)
    assert pairs_of(journal) == {"steady": 3, "loud": 9}
    first = [start.model for start in journal.starts[:12]]
    assert first.count("steady") == first.count("loud") == 6, "both models have their three pairs first"
    assert {start.model for start in journal.starts[12:]} == {"loud"}
    assert len(journal.starts) == 24


def test_the_judge_decides_the_steady_one_at_once_and_never_the_loud_one(tmp_path):
    """As notebooks 20 to 40 judge it: the floor and the tokens lie beside the journal."""
    journal = read_journal(RECORDED)
    place = store_beside(RECORDED, tmp_path / "store") / "fake"
    held = parse_baseline(read_json(place / "baseline.json"))
    standing = standing_for(held, journal.header, journal.starts)
    tokens = parse_reference(read_json(place / "reference.json"))
    calibration = read_json(OUT / "collect.json")["calibration"]
    again = rejudge(Inputs(journal.header, journal.starts, journal.identities, standing, tokens, calibration))
    assert again.problems == ()
    assert {row.row.model: row.n for row in again.judgement.rows} == {"steady": 3, "loud": 9}
    verdicts = {model: {row.verdict for row in again.judgement.rows if row.row.model == model} for model in MODELS}
    assert verdicts == {"steady": {RowVerdict.PASS}, "loud": {RowVerdict.INCONCLUSIVE}}
    saving = saving_of(again.judgement, journal.starts, again.plan)
    wall_s = sum(start.wall_s for start in journal.starts if start.model == "steady")
    assert (saving.pairs, saving.most, saving.seconds) == (6, 9, pytest.approx(wall_s * 6 / 3))
    cut = again.judgement.model_copy(update={"pairs": {"steady": 2, "loud": 9}})
    assert saving_of(cut, journal.starts, again.plan) == Saving(0, 9, 0.0), "no look has said that two are enough"
    open_ = again.judgement.model_copy(update={"pairs_saved": 0})
    assert saving_of(open_, journal.starts, again.plan) == Saving(0, 9, 0.0)


@pytest.mark.slow
def test_the_gate_on_it_says_which_model_is_open_and_what_was_saved(tmp_path):
    """A chain of 10 s and more; the same journal is judged without it above and below."""
    status, said = lqw(
        tmp_path,
        *("gate", OUT / "params/fake/1.1.0.yaml", "--journal", RECORDED, "--run", tmp_path / "run"),
        timeout_s=600,
        **ENVIRONMENT,
    )
    assert status == read_json(OUT / "expected.json")["exit"] == 3, said
    assert "2 rows INCONCLUSIVE (loud/prefill@512, loud/decode)" in said.replace("\n", " ")
    assert "stopped when decided: steady 3, loud 9 of at most 9 pairs; 6 pairs not measured, about 0:08 min saved" in (
        said.replace("\n", " ")
    )
    rows = verify_receipt(tmp_path / "run/receipt.json").judgement.rows
    assert {row.row.model: row.n for row in rows} == {"steady": 3, "loud": 9}

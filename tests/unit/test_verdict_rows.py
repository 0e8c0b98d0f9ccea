"""The judge, row by row: PASS, RED, IMPROVED, SUSPECT, INCONCLUSIVE, and everything that is not a number."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from lqw.errors import Exit, IntegrityError
from lqw.metrics import RowId
from lqw.noise import Reference
from lqw.outcomes import Arm, Outcome, Purpose, Reason, RowState, RowVerdict, TargetState
from lqw.verdict import (
    EXIT_OF,
    Standing,
    judge,
    judgement_from_json,
    judgement_to_json,
    standing_from_json,
    standing_to_json,
)
from lqw.verdict.rows import BLOCKING, _too_good
from tests.support import synthetic as syn

ONE_TOKEN = {"ttft@512": 1.92, "ttft@128": 1.3, "ttft_cached@512": 1.75}


@pytest.fixture(scope="module")
def standing():
    return syn.floor(np.random.default_rng(1))[1]


def _judged(standing, *, pairs=9, seed=2, effects=None, plan=None, **more):
    plan = plan or syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(seed), pairs=pairs, effects=effects)
    return judge(syn.evidence(plan, starts, standing, **more))


def _row(judgement, short, model="m"):
    return next(r for r in judgement.rows if r.row == RowId.parse(f"{model}/{short}"))


def test_an_equal_release_passes_at_the_first_look(standing):
    judgement = _judged(standing)
    assert judgement.outcome is Outcome.PASS
    assert judgement.exit_status is Exit.PASS
    assert judgement.look == 0
    assert judgement.reasons == ()
    assert judgement.models_needing_pairs == ()
    assert {row.n for row in judgement.rows} == {3}
    assert str(judgement.counts) == "rows: planned 8, measured 8, gating 8, void 0, failed 0"
    assert judgement.sentence.startswith("PASS: 8 of 8 rows of 1.1.0 hold their floors")
    assert "margin class D allows 40 %" in judgement.sentence


def test_a_one_token_prefill_is_red_on_the_right_rows_at_the_first_look(standing):
    judgement = _judged(standing, pairs=3, effects=ONE_TOKEN)
    assert judgement.outcome is Outcome.RED
    assert judgement.exit_status is Exit.RED
    red = {row.row.short for row in judgement.rows if row.verdict is RowVerdict.RED}
    assert red >= {"ttft@512", "prefill@512", "ttft_cached@512"}
    assert not red & {"decode", "agg@1", "agg@4", "rss_peak"}
    prefill = _row(judgement, "prefill@512")
    assert prefill.against_floor == pytest.approx(0.52, abs=0.06)
    assert prefill.text.startswith("is 0.5")
    assert "what 1.0.0 had (floor 1.0" in prefill.text
    assert prefill.text.endswith("3 pairs)")
    assert _row(judgement, "ttft@512").text.startswith(("takes 1.8", "takes 1.9", "takes 2.0"))
    assert not prefill.confirmed
    assert any("RED-UNCONFIRMED" in reason for reason in judgement.reasons)
    assert judgement.sentence.startswith("RED: ")
    assert "prefill@512 of m is 0.5" in judgement.sentence
    assert "RED-UNCONFIRMED" not in judgement.sentence


def test_a_red_model_asks_for_no_more_pairs(standing):
    assert _judged(standing, pairs=3, effects=ONE_TOKEN).models_needing_pairs == ()


def test_without_enough_pairs_the_model_is_wanted_again(standing):
    for pairs in (0, 2):
        judgement = _judged(standing, pairs=pairs)
        assert judgement.models_needing_pairs == ("m",)
        assert judgement.outcome is Outcome.UNDECIDED
        assert {row.verdict for row in judgement.rows} == {RowVerdict.MISSING}
        assert judgement.counts.failed == 8


def _narrow(pairs, sd=0.06, seed=11):
    """A margin so narrow for its noise that rows stay open."""
    plan = syn.plan(margin=0.10)
    standing = syn.floor(np.random.default_rng(1), sd=sd)[1]
    starts = syn.starts_of(plan, np.random.default_rng(seed), sd=sd, pairs=pairs)
    return plan, starts, standing, judge(syn.evidence(plan, starts, standing))


def test_open_rows_want_two_more_pairs_until_the_last_look():
    for pairs, needing in ((3, ("m",)), (4, ("m",)), (5, ("m",)), (9, ())):
        *_, judgement = _narrow(pairs)
        assert judgement.models_needing_pairs == needing
        assert judgement.outcome is Outcome.UNDECIDED
    last = [row for row in judgement.rows if row.verdict is RowVerdict.INCONCLUSIVE]
    assert last
    assert {row.n for row in last} == {9}
    assert {row.look for row in last} == {3}
    for row in last:
        assert "cannot be excluded, margin 10 %" in row.text
        assert (row.pairs_needed is None) == ("more pairs alone will not decide it" in row.text)
    assert judgement.exit_status is Exit.UNDECIDED


def test_the_pairs_an_open_row_needs_are_those_that_would_pass_it():
    *_, judgement = _narrow(9)
    for row in judgement.rows:
        if row.pairs_needed is not None:
            band = row.band
            lower = [
                band.delta_floor - band.u_pass * np.sqrt(band.sd**2 * (1 / n + 1 / 6) + 2 * 0.005**2)
                for n in (row.pairs_needed - 1, row.pairs_needed)
            ]
            assert lower[0] <= np.log(0.9) < lower[1]


def test_a_row_decided_early_keeps_its_verdict_and_its_pairs():
    _, _, _, first = _narrow(3)
    _, _, _, last = _narrow(9)
    early = {row.row: row for row in first.rows if row.verdict in (RowVerdict.PASS, RowVerdict.IMPROVED)}
    assert early
    for row in last.rows:
        if row.row in early:
            assert row == early[row.row]


def test_pairs_beyond_the_deciding_look_change_no_number(standing):
    plan = syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(2))
    whole = judge(syn.evidence(plan, starts, standing))
    short = judge(syn.evidence(plan, [s for s in starts if s.pair <= 3], standing))
    assert whole.rows == short.rows
    assert (whole.pairs_saved, short.pairs_saved) == (0, 6)


def test_only_the_undecided_model_goes_on():
    """Two models, one of them too noisy for its margin: nine pairs for one, three for the other."""
    models = ("calm", "loud")
    rng = np.random.default_rng(5)
    rows = ("decode", "agg@1")
    adopt = syn.plan(Purpose.ADOPT, models=models, rows=rows, floor_pairs=10, release="1.0.0")
    calm = syn.starts_of(adopt, rng, sd=0.01)
    loud = syn.starts_of(adopt, rng, sd=0.09)
    mixed = [a if a.model == "calm" else b for a, b in zip(calm, loud, strict=True)]
    standing = syn.standing_of(judge(syn.evidence(adopt, mixed)))
    plan = syn.plan(models=models, rows=rows, floor_pairs=10, margin=0.10)
    calm, loud = (syn.starts_of(plan, rng, sd=sd) for sd in (0.01, 0.09))
    starts = [
        a if a.model == "calm" else b for a, b in zip(calm, loud, strict=True) if a.model == "loud" or a.pair <= 3
    ]
    for upto, needing in ((3, ("loud",)), (5, ("loud",)), (7, ("loud",)), (9, ())):
        seen = [s for s in starts if s.pair <= upto]
        judgement = judge(syn.evidence(plan, seen, standing))
        assert judgement.models_needing_pairs == needing
    assert {row.row.model: row.n for row in judgement.rows} == {"calm": 3, "loud": 9}
    assert judgement.pairs == {"calm": 3, "loud": 9}
    assert judgement.pairs_saved == 6


@pytest.mark.parametrize(
    ("effects", "verdict", "outcome"),
    [
        ({"decode": 1.18}, RowVerdict.IMPROVED, Outcome.PASS),
        ({"decode": 1.60}, RowVerdict.SUSPECT, Outcome.UNDECIDED),
        ({"ttft@128": 0.55}, RowVerdict.SUSPECT, Outcome.UNDECIDED),
    ],
)
def test_better_is_improved_and_far_too_good_is_suspect(standing, effects, verdict, outcome):
    judgement = _judged(standing, effects=effects)
    (short,) = effects
    assert _row(judgement, short).verdict is verdict
    assert judgement.outcome is outcome
    if verdict is RowVerdict.IMPROVED:
        assert f"improved: {short}" in judgement.sentence
    else:
        assert "too good to be believed" in judgement.sentence


@pytest.mark.parametrize(("margin", "suspect"), [(0.10, True), (0.50, False)])
def test_what_is_too_good_depends_on_what_the_host_can_tell(margin, suspect):
    band = SimpleNamespace(delta_floor=math.log(1.34), se_floor=0.05, t_red=4.0)
    assert _too_good(band, SimpleNamespace(delta=0.01, margin=margin)) is suspect


def test_eight_standard_errors_are_suspect_even_below_a_quarter():
    standing = syn.floor(np.random.default_rng(1), sd=0.008, floor_pairs=10)[1]
    plan = syn.plan(floor_pairs=10)
    starts = syn.starts_of(plan, np.random.default_rng(3), sd=0.008, effects={"decode": 1.15})
    row = _row(judge(syn.evidence(plan, starts, standing)), "decode")
    assert row.verdict is RowVerdict.SUSPECT
    assert row.against_floor < 1.25


def test_a_fall_against_the_last_release_is_red_and_says_which(standing):
    row = RowId.parse("m/decode")
    floor = standing.references[row].floor
    last = Reference(**{**dict(floor), "value": floor.value + 0.6, "release": "1.0.9", "receipt_sha256": "e" * 64})
    references = {**standing.references, row: standing.references[row].model_copy(update={"last": last})}
    judgement = _judged(standing.model_copy(update={"references": references}))
    found = _row(judgement, "decode")
    assert found.verdict is RowVerdict.RED
    assert found.band.red_by == "last"
    assert "what 1.0.9 had, the last release" in found.text
    assert found.last_ratio == pytest.approx(np.exp(last.value))


def test_void_rows_keep_their_numbers_and_block(standing):
    voids = {row: syn.failed(Reason.VOID_CORRECTNESS, "prose: token 3") for row in standing.references}
    judgement = _judged(standing, voids=voids)
    assert judgement.outcome is Outcome.UNDECIDED
    assert {row.state for row in judgement.rows} == {RowState.VOID}
    assert all(row.d and row.subject and row.band is None and not row.gating for row in judgement.rows)
    assert str(judgement.counts) == "rows: planned 8, measured 0, gating 0, void 8, failed 0"
    assert "8 rows VOID (m/ttft@128, m/ttft@512, m/prefill@512 and 5 more): VOID_CORRECTNESS" in judgement.sentence


def test_one_void_row_blocks_a_release_that_is_otherwise_well(standing):
    judgement = _judged(standing, voids={RowId.parse("m/decode"): syn.failed(Reason.VOID_GARBAGE)})
    assert judgement.outcome is Outcome.UNDECIDED
    assert str(judgement.counts) == "rows: planned 8, measured 7, gating 7, void 1, failed 0"


def test_a_red_row_is_red_whatever_else_is_void(standing):
    voids = {RowId.parse("m/decode"): syn.failed(Reason.VOID_GARBAGE)}
    judgement = _judged(standing, pairs=3, effects=ONE_TOKEN, voids=voids)
    assert judgement.outcome is Outcome.RED
    assert any("VOID m/decode" in reason for reason in judgement.reasons)


def test_a_failed_row_is_named_with_its_reason(standing):
    plan = syn.plan()
    starts = syn.starts_of(plan, np.random.default_rng(2), pairs=3)
    failure = syn.failed(Reason.FAILED_START, "exit 1 before ready")
    starts = [
        s.model_copy(update={"failure": failure, "requests": [], "memory": None})
        if (s.pair, s.arm) == (2, Arm.SUBJECT)
        else s
        for s in starts
    ]
    judgement = judge(syn.evidence(plan, starts, standing))
    assert judgement.outcome is Outcome.UNDECIDED
    assert {row.verdict for row in judgement.rows} == {RowVerdict.FAILED}
    assert judgement.counts.failed == 8
    assert "8 rows FAILED" in judgement.sentence
    assert "pair 2, subject: exit 1 before ready" in judgement.sentence
    assert judgement.models_needing_pairs == ()  # more pairs would not help


def test_nothing_measured_never_passes(standing):
    judgement = judge(syn.evidence(syn.plan(), [], standing))
    assert judgement.exit_status is Exit.UNDECIDED
    assert judgement.counts.measured == 0
    assert "nothing valid was measured" in judgement.sentence
    assert "zero rows never pass" in judgement.sentence


def test_an_empty_plan_never_passes():
    for purpose in Purpose:
        judgement = judge(syn.evidence(syn.plan(purpose, rows=()), []))
        assert judgement.exit_status is Exit.UNDECIDED


def test_without_a_floor_every_row_is_named_and_blocks():
    judgement = _judged(Standing(differences=("host.gpu: 'A' became 'B'",)))
    assert {row.verdict for row in judgement.rows} == {RowVerdict.MISSING_FLOOR}
    assert judgement.outcome is Outcome.UNDECIDED
    assert judgement.counts.gating == 0
    assert "host.gpu: 'A' became 'B'" in judgement.sentence
    assert judgement.models_needing_pairs == ()


def test_a_new_epoch_says_what_changed_and_whose_floor_to_measure_again():
    changed = ("host.driver_major: '560' became '570'", "models.m: 'a' became 'b'")
    judgement = _judged(Standing(differences=changed, remeasure=("1.0.0", "1.4.0")))
    text = (
        "no floor in this epoch: host.driver_major: '560' became '570'; models.m: 'a' became 'b'; "
        "measure the floor of 1.0.0, 1.4.0 again here (lqw baseline adopt)"
    )
    assert judgement.reasons[0] == text
    assert judgement.sentence.startswith(f"UNDECIDED: {text}; 8 rows MISSING_FLOOR")
    assert [guard.effect for guard in judgement.guards if guard.guard == "epoch"] == ["undecided"]
    first = _judged(Standing(differences=("no floor was ever adopted on this host",)))
    assert first.reasons[0] == "no floor in this epoch: no floor was ever adopted on this host"


def test_one_row_without_a_floor_blocks(standing):
    some = {row: refs for row, refs in standing.references.items() if row.metric != "decode"}
    judgement = _judged(standing.model_copy(update={"references": some}))
    assert _row(judgement, "decode").verdict is RowVerdict.MISSING_FLOOR
    assert judgement.outcome is Outcome.UNDECIDED


def test_a_row_that_is_no_longer_measured_needs_a_record(standing):
    gone = standing.model_copy(update={"dropped": (RowId.parse("m/agg@16"),)})
    judgement = _judged(gone)
    assert judgement.outcome is Outcome.UNDECIDED
    assert "m/agg@16 has a floor but is no longer measured: it needs a retire record" in judgement.sentence


def test_adopt_measures_everything_and_gates_nothing():
    judgement, _ = syn.floor(np.random.default_rng(0))
    assert judgement.outcome is Outcome.FLOOR
    assert judgement.exit_status is Exit.PASS
    assert {row.verdict for row in judgement.rows} == {RowVerdict.NEW}
    assert {row.n for row in judgement.rows} == {6}
    assert judgement.counts.gating == 0
    assert "6 pairs each" in judgement.sentence


def test_adopt_with_too_few_pairs_is_no_floor():
    plan = syn.plan(Purpose.ADOPT)
    judgement = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(0), pairs=5)))
    assert judgement.outcome is Outcome.UNDECIDED
    assert judgement.models_needing_pairs == ("m",)


def test_adopt_with_a_void_row_is_no_floor():
    plan = syn.plan(Purpose.ADOPT)
    voids = {RowId.parse("m/decode"): syn.failed(Reason.VOID_NONDETERMINISTIC)}
    starts = syn.starts_of(plan, np.random.default_rng(0))
    assert judge(syn.evidence(plan, starts, voids=voids)).outcome is Outcome.UNDECIDED


def test_problems_of_the_receipt_make_it_invalid(standing):
    judgement = _judged(standing, problems=("samples.jsonl: hash differs",))
    assert judgement.outcome is Outcome.INVALID
    assert judgement.exit_status is Exit.INVALID
    assert "samples.jsonl: hash differs" in judgement.sentence


@pytest.mark.parametrize(
    ("effect", "state"), [(1.0, TargetState.MET), (0.93, TargetState.LIKELY), (0.7, TargetState.OPEN)]
)
def test_targets_are_published_and_never_block(standing, effect, state):
    judgement = _judged(standing, effects={"decode": effect, "agg@1": effect}, targets={"decode": 0.9}, seed=5)
    target = _row(judgement, "decode").target
    assert target.ratio == pytest.approx(_row(judgement, "decode").ratio)
    assert target.bound < target.ratio
    assert target.distance == pytest.approx(0.9 / target.ratio)
    if effect != 1.0:
        assert target.state is state
    assert _row(judgement, "agg@1").target is None


def test_a_latency_target_reads_as_times_slower(standing):
    judgement = _judged(standing, targets={"ttft_cached": 1.5})
    row = _row(judgement, "ttft_cached@512")
    assert row.target.state is TargetState.MET
    assert row.target.ratio == pytest.approx(row.ratio_raw)
    assert row.target.ratio < row.target.bound < 1.5
    assert row.target.distance == pytest.approx(row.target.ratio / 1.5)


def test_a_target_that_a_release_met_binds_the_next(standing):
    """Decode at 0.8 of its floor would pass a margin of 40 %; with its target folded the reference is 0.9 or better."""
    row = RowId.parse("m/decode")
    low = standing.references[row].floor
    low = Reference(**{**dict(low), "value": low.value - 0.5})
    references = {**standing.references, row: standing.references[row].model_copy(update={"floor": low})}
    with_low = standing.model_copy(update={"references": references})
    effects = {"decode": 0.62}
    assert _row(_judged(with_low, effects=effects, targets={"decode": 0.9}), "decode").verdict is RowVerdict.PASS
    folded = _judged(with_low.model_copy(update={"targets_met": (row,)}), effects=effects, targets={"decode": 0.9})
    assert _row(folded, "decode").verdict is RowVerdict.RED
    assert "raised to the target it met" in _row(folded, "decode").text


def test_an_estimated_session_term_replaces_the_policy_s(standing):
    wide = _judged(standing.model_copy(update={"tau": 0.05}))
    assert _row(wide, "decode").band.se_floor > _row(_judged(standing), "decode").band.se_floor


def test_every_outcome_has_its_exit_status():
    assert {outcome: int(status) for outcome, status in EXIT_OF.items()} == {
        Outcome.PASS: 0,
        Outcome.FLOOR: 0,
        Outcome.RED: 1,
        Outcome.UNDECIDED: 3,
        Outcome.INVALID: 4,
        Outcome.INCOMPLETE: 70,
    }


def test_only_good_verdicts_do_not_block():
    assert set(RowVerdict) - BLOCKING == {RowVerdict.PASS, RowVerdict.IMPROVED, RowVerdict.NEW}


def test_json_forms_are_whole(standing):
    judgement = _judged(standing, effects=ONE_TOKEN, targets={"decode": 0.9})
    form = judgement_to_json(judgement)
    assert form["exit_status"] == 1
    assert judgement_to_json(judgement_from_json(form)) == form
    assert standing_from_json(standing_to_json(standing)) == standing


@pytest.mark.parametrize(
    "spoil",
    [
        lambda form: [],
        lambda form: {**form, "exit_status": 0},
        lambda form: {**form, "extra": 1},
        lambda form: {**form, "outcome": "GREEN"},
    ],
)
def test_a_spoilt_judgement_is_refused(standing, spoil):
    form = judgement_to_json(_judged(standing, effects=ONE_TOKEN))
    with pytest.raises(IntegrityError):
        judgement_from_json(spoil(form))


def test_a_spoilt_standing_is_refused():
    with pytest.raises(IntegrityError, match="standing"):
        standing_from_json({"references": {"m/decode": {"floor": 1.0}}})


def test_judging_the_standing_read_back_gives_the_same_judgement(standing):
    again = standing_from_json(standing_to_json(standing))
    assert judgement_to_json(_judged(again)) == judgement_to_json(_judged(standing))


def test_another_method_decides_by_its_own_rule(standing):
    plan = syn.plan()
    plan = dataclasses.replace(plan, policy=dataclasses.replace(plan.policy, method="fixed-band-5"))
    judgement = _judged(standing, plan=plan, effects={"decode": 0.85})
    assert judgement.method == "fixed-band-5"
    assert _row(judgement, "decode").verdict is RowVerdict.RED

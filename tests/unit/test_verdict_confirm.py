"""The third arm: what a batch says of rows and families, what makes it no evidence, and what its verifier refuses."""

import math
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lqw.canonical import canonical_bytes, loads_strict
from lqw.collect import ThirdArm
from lqw.collect.arms import Site
from lqw.collect.batch import ConfirmBatch, _key
from lqw.errors import Exit, IntegrityError, UsageError
from lqw.journal import parse_journal
from lqw.metrics import RowId
from lqw.noise.rows import Reference, RowReferences
from lqw.outcomes import Arm, BatchArm, Outcome, Purpose, Reason, RowVerdict
from lqw.plan import batch_starts, build_plan
from lqw.receipt import verify_receipt
from lqw.receipt.beside import held_beside
from lqw.receipt.claims import BatchClaim, claim_batch, claim_of
from lqw.receipt.store import Store
from lqw.samples import Failure
from lqw.testing.batches import with_batch
from lqw.testing.receipts import adopt_floor, receipt_of, stored
from lqw.testing.synthetic import synthetic_params, synthetic_run
from lqw.verdict.confirm import (
    Beside,
    Raised,
    _in_batch,
    _is_whole,
    _suite_test,
    confirm_limit,
    confirm_rows,
    raised_of,
)
from lqw.verdict.confirm import _beside as _beside_of
from lqw.verdict.results import RowResult
from lqw.verdict.suite import TAU_COMMON

ROWS = ("ttft@16", "decode")
FAMILY = ("ttft@16", "ttft@32", "ttft@64", "ttft@128", "ttft@256", "ttft_cached@512")
SLOW, FAST = {"ttft@16": 1.6}, {"ttft@16": 0.6}
CANDIDATE = synthetic_params(rows=ROWS, release="1.1.0", repeats=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    params = synthetic_params(rows=ROWS, release="1.0.0", repeats=1)
    return adopt_floor(tmp_path_factory.mktemp("store"), params, sd=0.02)


def _run(effects):
    return synthetic_run(CANDIDATE, Purpose.GATE, seed=3, effects=effects, sd=0.02)


def _verified(run, store):
    return verify_receipt(receipt_of(run, store), find=_beside_floor(store))


def _beside_floor(store):
    return held_beside(store.baseline(CANDIDATE.host.name))


def _judged(store, effects, again, earlier):
    """Judge a run, and a batch in which the candidate and the earlier release have other *effects*."""
    run = with_batch(_run(effects), CANDIDATE, effects=again, earlier_effects=earlier, sd=0.02)
    verified = _verified(run, store)
    assert verified.problems == ()
    return verified.judgement


def test_the_limit_is_that_of_the_design():
    assert confirm_limit(0.03, 11.0, 7) == pytest.approx(stats.t.isf(0.05, 11.0) * 0.03 * math.sqrt(2 / 7), rel=1e-12)


def test_a_loss_that_comes_back_beside_the_old_release_is_red(store):
    judgement = _judged(store, SLOW, SLOW, {})
    row = judgement.rows[0]
    assert (judgement.outcome, row.verdict, row.confirmed) == (Outcome.RED, "RED", True)
    assert (row.confirmation.state, row.confirmation.release, row.confirmation.n) == ("CONFIRMED", "1.0.0", 7)
    assert row.confirmation.difference == pytest.approx(1 / 1.45, rel=0.05)  # 15 ms of it are not prefill
    assert row.confirmation.earlier_ratio == pytest.approx(1.0, rel=0.05)
    assert judgement.rows[1].confirmation is None
    assert "CONFIRMED in 7 tuples" in judgement.sentence
    assert not any("UNCONFIRMED" in reason for reason in judgement.reasons)


def test_a_loss_that_the_old_release_shares_is_shift_and_blocks_as_undecided(store):
    judgement = _judged(store, SLOW, SLOW, SLOW)
    row = judgement.rows[0]
    assert (judgement.outcome, row.verdict, row.confirmed) == (Outcome.UNDECIDED, "SHIFT", False)
    assert judgement.exit_status is Exit.UNDECIDED
    assert row.confirmation.state == "NOT CONFIRMED"
    assert row.confirmation.difference == pytest.approx(1.0, rel=0.05)
    assert "the machine has moved" in judgement.sentence


@pytest.mark.parametrize(
    ("again", "earlier", "outcome", "verdict"),
    [
        (FAST, {}, Outcome.PASS, "IMPROVED"),
        (FAST, FAST, Outcome.UNDECIDED, "SHIFT"),
        ({"ttft@16": 0.9}, {}, Outcome.UNDECIDED, "SHIFT"),  # a gain, but not the one that was measured
    ],
)
def test_a_gain_that_is_too_good_passes_only_if_it_comes_back_whole(store, again, earlier, outcome, verdict):
    assert _verified(_run(FAST), store).judgement.rows[0].verdict == "SUSPECT"
    judgement = _judged(store, FAST, again, earlier)
    assert (judgement.outcome, judgement.rows[0].verdict) == (outcome, verdict)


def test_without_a_batch_red_is_unconfirmed_and_a_passing_run_asks_for_none(store):
    judgement = _verified(_run(SLOW), store).judgement
    assert (judgement.outcome, judgement.rows[0].confirmed, judgement.rows[0].confirmation) == (
        Outcome.RED, False, None,
    )  # fmt: skip
    assert [reason for reason in judgement.reasons if reason.startswith("RED-UNCONFIRMED: no third arm was measured")]
    assert _verified(_run({}), store).judgement.outcome is Outcome.PASS


def test_half_a_batch_confirms_nothing(store):
    whole = with_batch(_run(SLOW), CANDIDATE, effects=SLOW)
    half = replace(whole, batch=whole.batch.model_copy(update={"starts": whole.batch.starts[:11]}))
    verified = _verified(half, store)
    assert (verified.outcome, verified.problems) == (Outcome.RED, ())
    assert verified.judgement.rows[0].confirmation.state == "NOT MEASURED"
    assert "RED-UNCONFIRMED: 3 of 7 tuples with 1.0.0 were measured; it blocks either way" in verified.judgement.reasons


def test_an_old_release_that_does_not_start_is_named(store):
    whole = with_batch(_run(SLOW), CANDIDATE, effects=SLOW)
    at = next(at for at, start in enumerate(whole.batch.starts) if start.arm is BatchArm.EARLIER)
    failure = Failure(reason=Reason.FAILED_START, detail="libcuda.so.1: cannot open shared object file")
    failed = whole.batch.starts[at].model_copy(
        update={"failure": failure, "engine": None, "requests": [], "ready_s": None, "memory": None}
    )
    batch = whole.batch.model_copy(update={"starts": (*whole.batch.starts[:at], failed)})
    judgement = _verified(replace(whole, batch=batch), store).judgement
    told = next(reason for reason in judgement.reasons if reason.startswith("RED-UNCONFIRMED"))
    assert "1.0.0" in told
    assert "libcuda.so.1" in told


@pytest.mark.parametrize(
    ("earlier", "outcome", "state"),
    [({}, Outcome.RED, "CONFIRMED"), (dict.fromkeys(FAMILY, 1.02), Outcome.UNDECIDED, "NOT CONFIRMED")],
)
def test_a_family_that_fell_a_little_everywhere_is_confirmed_as_a_family(tmp_path, earlier, outcome, state):
    store = adopt_floor(tmp_path, synthetic_params(rows=FAMILY, release="1.0.0", repeats=1), sd=0.01)
    params, fallen = synthetic_params(rows=FAMILY, release="1.1.0", repeats=1), dict.fromkeys(FAMILY, 1.02)
    run = synthetic_run(params, Purpose.GATE, seed=3, effects=fallen, sd=0.01)
    alone = _verified(run, store).judgement
    assert {row.verdict for row in alone.rows} == {"PASS"}
    assert (alone.outcome, alone.suites[0].red) == (Outcome.RED, True)
    assert any("RED-UNCONFIRMED" in reason for reason in alone.reasons)
    run = with_batch(run, params, effects=fallen, earlier_effects=earlier, sd=0.01)
    judgement = _verified(run, store).judgement
    assert (judgement.outcome, judgement.suites[0].confirmation.state) == (outcome, state)
    assert f"{state} in 7 tuples" in judgement.sentence
    told = judgement.suites[0].confirmation
    assert told.limit < 1
    assert (told.difference < told.limit) == (state == "CONFIRMED")
    half = replace(run, batch=run.batch.model_copy(update={"starts": run.batch.starts[:11]}))
    fell_short = _verified(half, store).judgement.suites[0].confirmation
    assert (fell_short.state, fell_short.release) == ("NOT MEASURED", "1.0.0")


def _swap(batch):
    first, second, *rest = batch.starts
    return {"starts": (second.model_copy(update={"position": 0 + first.position}), first.model_copy(
        update={"position": second.position}), *rest)}  # fmt: skip


PICKED = {
    "an order of its own": _swap,
    "a start left out": lambda batch: {"starts": batch.starts[:4] + batch.starts[5:]},
    "a start too many": lambda batch: {"starts": (*batch.starts, batch.starts[-1].model_copy(
        update={"position": 10_000, "pair": 8}))},
    "another candidate": lambda batch: {"declared": batch.declared.model_copy(update={"subject_sha256": "0" * 64})},
    "fewer tuples": lambda batch: {"declared": batch.declared.model_copy(update={"tuples": 3})},
    "another engine": lambda batch: {"declared": batch.declared.model_copy(
        update={"earlier": {"1.0.0": {**batch.declared.earlier["1.0.0"], "sha256": "0" * 64}}})},
    "before the pairs": lambda batch: {"starts": tuple(
        one.model_copy(update={"position": at}) for at, one in enumerate(batch.starts))},
    "two old builds": lambda batch: {"starts": tuple(
        one.model_copy(update={"engine": one.engine.model_copy(update={"binary_sha256": "1" * 64})})
        if one.arm is BatchArm.EARLIER and one.pair == 7 else one for one in batch.starts)},
}  # fmt: skip


@pytest.mark.parametrize("how", PICKED)
def test_a_batch_that_was_picked_from_or_is_not_the_declared_one_is_invalid(store, how):
    run = with_batch(_run(SLOW), CANDIDATE, effects=SLOW, earlier_effects=SLOW)
    run = replace(run, batch=run.batch.model_copy(update=PICKED[how](run.batch)))
    verified = _verified(run, store)
    assert (verified.outcome, verified.exit_status) == (Outcome.INVALID, Exit.INVALID)
    assert any(problem.field.startswith("batch.") for problem in verified.problems)


GAINED = {"effects": FAST, "earlier_effects": {}, "sd": 0.02}


def test_a_gain_beside_another_old_build_is_no_pass_though_the_receipt_names_that_build_throughout(store):
    """Whoever edits a receipt can name any old build in it; the floor's own receipt says which one it was."""
    honest = _verified(with_batch(_run(FAST), CANDIDATE, **GAINED), store)
    assert (honest.outcome, honest.problems) == (Outcome.PASS, ())
    slower = _verified(with_batch(_run(FAST), CANDIDATE, **GAINED, earlier_binary="a slower one"), store)
    assert (slower.outcome, slower.exit_status) == (Outcome.INVALID, Exit.INVALID)
    assert [(one.field, one.check) for one in slower.problems] == [("batch.earlier.1.0.0.binary_sha256", "third arm")]


@pytest.mark.parametrize("part", ["settings", "env"])
def test_an_old_build_with_other_settings_is_not_the_one_that_set_the_floor(store, part):
    run = with_batch(_run(SLOW), CANDIDATE, effects=SLOW, earlier_effects=SLOW)
    spec = {**run.batch.declared.earlier["1.0.0"], part: {"LQW_SLOW": "1"}}
    declared = run.batch.declared.model_copy(update={"earlier": {"1.0.0": spec}})
    verified = _verified(replace(run, batch=run.batch.model_copy(update={"declared": declared})), store)
    assert verified.outcome is Outcome.INVALID
    assert f"batch.earlier.1.0.0.{part}" in {one.field for one in verified.problems}


@pytest.mark.parametrize(
    ("effects", "earlier", "alone"),
    [(FAST, {}, Outcome.UNDECIDED), (SLOW, SLOW, Outcome.RED)],  # else PASS, and UNDECIDED by SHIFT
)
def test_away_from_the_store_a_batch_frees_nobody(store, effects, earlier, alone):
    run = with_batch(_run(effects), CANDIDATE, effects=effects, earlier_effects=earlier, sd=0.02)
    verified = verify_receipt(receipt_of(run, store))
    assert (verified.outcome, verified.judgement.outcome, verified.problems) == (alone, alone, ())
    assert "the third arm does not count: the receipt of 1.0.0" in verified.uncounted
    assert verified.uncounted in verified.judgement.sentence
    assert verified.uncounted in verified.judgement.reasons
    assert verified.uncounted in verified.not_checked


def test_a_confirmed_red_stays_red_wherever_it_is_verified(store):
    verified = verify_receipt(receipt_of(with_batch(_run(SLOW), CANDIDATE, effects=SLOW), store))
    assert (verified.outcome, verified.judgement.rows[0].confirmed, verified.uncounted) == (Outcome.RED, True, "")
    assert any("the third arm does not count" in note for note in verified.not_checked)


def test_a_store_whose_floor_receipt_was_exchanged_or_is_none_knows_no_build(store, tmp_path):
    run = with_batch(_run(FAST), CANDIDATE, **GAINED)
    for content in (b"{}", None):
        data = receipt_of(run, store)
        assert verify_receipt(data, find=lambda _release, _sha256: content).outcome is Outcome.UNDECIDED  # noqa: B023
    other = tmp_path / CANDIDATE.host.name
    other.mkdir()
    (other / "baseline.json").write_bytes(store.baseline(CANDIDATE.host.name).read_bytes())
    (other / "1.0.0.json").write_bytes(b"{}")
    assert verify_receipt(receipt_of(run, store), find=held_beside(other / "x.json")).outcome is Outcome.UNDECIDED


def _after(starts, wanted):
    return {"starts": tuple(starts[:wanted])}


def test_a_batch_that_the_deadline_cut_off_is_gone_on_with_by_its_own_run_alone(tmp_path):
    """Its RED gives way to the whole batch of the same run; a batch that is whole, or another one, gives way to none."""
    own = adopt_floor(tmp_path, synthetic_params(rows=ROWS, release="1.0.0", repeats=1), sd=0.02)
    whole = with_batch(_run(SLOW), CANDIDATE, effects=SLOW, earlier_effects={})
    host, release = CANDIDATE.host.name, CANDIDATE.release.release
    half = replace(whole, batch=whole.batch.model_copy(update=_after(whole.batch.starts, 11)))
    stored(own, receipt_of(half, own), half)
    subject = own.attempts(host, release)[0].subject_sha256
    assert own.red_of(host, subject) is not None
    assert own.red_of(host, subject, confirmed_by="another run") is not None
    assert own.red_of(host, subject, confirmed_by=whole.header.run_id) is None
    second = own.next_attempt(host, release)
    other = with_batch(_run(SLOW), CANDIDATE, effects=SLOW, earlier_effects={}, seed=12)
    with pytest.raises(UsageError, match="not measured again until it is green"):
        stored(own, receipt_of(other, own, attempt=second), other)
    stored(own, receipt_of(whole, own, attempt=second), whole)
    with pytest.raises(UsageError, match="not measured again until it is green"):
        own.refuse_repeat(host, subject, confirmed_by=whole.header.run_id)


def test_a_setting_that_does_nothing_buys_no_second_batch(tmp_path):
    claim = BatchClaim(
        run_id="first", release="1.1.0", subject_sha256="a" * 64, binary_sha256="b" * 64, declared_utc="2026-01-01"
    )
    own = Store(tmp_path)
    claim_batch(own, "h", claim)
    claim_batch(own, "h", claim)
    assert claim_of(own, "h", "b" * 64) == claim
    again = claim.model_copy(update={"run_id": "second", "subject_sha256": "c" * 64})
    with pytest.raises(UsageError, match="program was begun by run first"):
        claim_batch(own, "h", again)
    claim_batch(own, "h", again.model_copy(update={"binary_sha256": "d" * 64}))


def test_every_arm_stands_in_each_place_equally_often_and_the_seed_decides_the_order():
    plan = build_plan(CANDIDATE, Purpose.GATE)
    keys = batch_starts(plan, "tiny", ["1.0.0"], launches=1, tuples=6)
    places = {arm: [key.arm for key in keys[at::3]].count(arm) for at in range(3) for arm in BatchArm}
    assert set(places.values()) == {2}
    assert keys == batch_starts(plan, "tiny", ["1.0.0"], launches=1, tuples=6)
    other = build_plan(synthetic_params(rows=ROWS, seed=8), Purpose.GATE)
    assert keys != batch_starts(other, "tiny", ["1.0.0"], launches=1, tuples=6)


def test_the_journal_holds_one_batch_declared_before_its_first_start():
    run = with_batch(_run(SLOW), CANDIDATE)
    lines = list(run.lines())
    at = next(at for at, line in enumerate(lines) if b'"kind":"batch"' in line)
    again = parse_journal(b"".join(lines))
    assert again.batch == run.batch
    assert again.next_position == run.batch.starts[-1].position + 1
    with pytest.raises(IntegrityError, match="a second confirmation batch"):
        parse_journal(b"".join([*lines, lines[at]]))
    with pytest.raises(IntegrityError, match="was not declared"):
        parse_journal(b"".join(lines[:at] + lines[at + 1 :]))


def test_a_confirmation_is_recomputed_from_the_batch(store):
    """A SHIFT written over a confirmed RED is found, and so is a stamp of the old release that was made slower."""
    from lqw.receipt.build import seal  # noqa: PLC0415

    document = loads_strict(receipt_of(with_batch(_run(SLOW), CANDIDATE, effects=SLOW), store))
    assert document["judgement"]["rows"][0]["confirmation"]["state"] == "CONFIRMED"
    said = loads_strict(seal(document))
    said["judgement"]["rows"][0]["confirmation"]["state"] = "NOT CONFIRMED"
    assert verify_receipt(seal(said)).outcome is Outcome.INVALID
    slower = loads_strict(seal(document))
    for start in slower["batch"]["starts"]:
        if start["arm"] == BatchArm.EARLIER:
            for request in start["requests"]:
                request["ttft_ns"] = int(request["ttft_ns"] * 1.6)
    assert "recompute" in {problem.check for problem in verify_receipt(seal(slower)).problems}
    assert {Arm.SUBJECT, Arm.COMPARATOR} == {start["arm"] for start in document["starts"]}
    assert np.isfinite(document["judgement"]["rows"][0]["confirmation"]["limit"])


def _beside(gains):
    """A row in a batch whose older release stood still."""
    gains = np.asarray(gains, dtype=float)
    return Beside("1.0.0", gains, np.zeros_like(gains))


def test_a_gain_must_come_back_within_the_error_of_both_measurements():
    band = SimpleNamespace(nu=12.0, se_floor=0.02, delta_floor=0.30)
    t, limit = stats.t.isf(0.05, 12.0), 0.05
    width = math.hypot(0.02, limit / t)
    assert _is_whole(0.30 - t * width + 1e-9, band, limit)
    assert not _is_whole(0.30 - t * width - 1e-9, band, limit)


@pytest.fixture(scope="module")
def met(tmp_path_factory):
    """A store in which 1.0.0 decodes at 0.6× the comparator, and a later release has met the target of 0.9×."""
    params = synthetic_params(rows=ROWS, release="1.0.0", repeats=1)
    store = adopt_floor(tmp_path_factory.mktemp("met"), params, sd=0.02, effects={"decode": 0.6})
    place = store.baseline(params.host.name)
    held = loads_strict(place.read_bytes())
    held["epochs"][0]["rows"]["tiny/decode"]["target_met_by"] = "1.0.5"
    place.write_bytes(canonical_bytes(held))
    return store


@pytest.mark.parametrize(
    ("candidate", "earlier", "outcome", "state"),
    [
        (0.7, 0.6, Outcome.RED, "CONFIRMED"),  # faster than the floor's release, and a loss against the target
        (0.9 * 0.8, 0.6 * 0.8, Outcome.UNDECIDED, "NOT CONFIRMED"),  # on target, on a machine that slowed by a fifth
    ],
)
def test_what_fell_below_a_target_it_met_is_held_to_the_target_and_not_to_the_old_floor(
    met, candidate, earlier, outcome, state
):
    fallen = {"decode": candidate}
    run = with_batch(_run(fallen), CANDIDATE, effects=fallen, earlier_effects={"decode": earlier}, sd=0.02)
    judgement = _verified(run, met).judgement
    row = judgement.rows[1]
    assert (judgement.outcome, row.band.folded, row.confirmation.state) == (outcome, True, state)
    assert row.confirmation.difference > 1.1
    assert 1.3 < row.confirmation.limit < 0.9 / 0.6
    assert "the target it met asks for 1.5" in row.confirmation.text


@pytest.mark.parametrize("by_last", [True, False])
def test_a_row_that_is_red_by_the_last_release_is_held_to_that_release_whatever_its_target(by_last):
    row = RowId("tiny", "decode")
    band = SimpleNamespace(sd=0.02, nu=12.0, folded=True, floor=math.log(0.9), red_by="last" if by_last else "floor")
    result = RowResult.model_construct(
        row=row, verdict=RowVerdict.RED, text="", band=band, confirm_with="1.0.0", confirmation=None
    )
    floor = Reference(value=math.log(0.6), n=10, ss=0.0, df=9, release="1.0.0", receipt_sha256="0" * 64)
    raised = raised_of([result], {row: RowReferences(floor=floor)}, 0.005)
    assert raised == {row: Raised(pytest.approx(math.log(1.5)), 0.1, 0.005)}
    (told,) = confirm_rows([result], {(row, "1.0.0"): _beside([0.1] * 7)}, raised)
    assert (told.confirmation.state == "CONFIRMED") is not by_last


def test_a_floor_that_no_target_raised_moves_no_limit():
    result = SimpleNamespace(row=RowId("tiny", "decode"), band=SimpleNamespace(folded=False, floor=0.0))
    floor = Reference(value=0.0, n=10, ss=0.0, df=9, release="1.0.0", receipt_sha256="0" * 64)
    assert raised_of([result], {result.row: RowReferences(floor=floor)}, 0.005) == {}
    assert raised_of([result], {}, 0.005) == {}


@pytest.mark.parametrize("true", [0.0, -0.15])
def test_a_met_target_is_kept_at_the_level_that_the_batch_promises(true):
    """Simulated: floor, its session, the batch's session; the candidate stands on the target, or 14 % below it."""
    rng, sd, tau, n, n_floor, releases = np.random.default_rng(8), 0.03, 0.005, 7, 10, 40_000
    gap = math.log(0.9 / 0.6)
    floor = rng.normal(0, tau, releases) + rng.normal(0, sd / math.sqrt(n_floor), releases)
    moved = rng.normal(0, 0.05, releases)  # a session far worse than usual: it falls out
    candidate = gap + true + moved + rng.normal(0, sd / math.sqrt(n), releases)
    earlier = moved + rng.normal(0, sd / math.sqrt(n), releases)
    limit = confirm_limit(sd, 1e6, n, Raised(gap, 1 / n_floor, tau))
    confirmed = np.mean(candidate - earlier < gap - floor - limit)
    if true:
        assert confirmed > 0.995
    else:
        assert confirmed == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / releases))


def test_a_family_of_which_some_rows_met_their_targets_is_held_to_them_together():
    rng = np.random.default_rng(4)
    found = [_beside(rng.normal(0.1, 0.03, 7)) for _ in range(3)]
    members = [SimpleNamespace(band=SimpleNamespace(sd=0.02), row=SimpleNamespace(model="a")) for _ in found]
    above = Raised(0.4, 0.1, 0.005)
    difference, limit = _suite_test(members, found, [above, Raised(), Raised()])
    assert _suite_test(members, found, [Raised()] * 3)[0] == difference
    independent = 0.02**2 * (3 * 2 / 7 + 0.1) / 9
    shared = np.mean([f.gains for f in found], axis=0).var(ddof=1) * (2 / 7 + 0.1 / 9)
    session = (TAU_COMMON / 3) ** 2
    width = stats.t.isf(0.05, 6) * math.sqrt(max(independent, shared) + session)
    assert limit == pytest.approx(0.4 / 3 - width, rel=1e-12)


@pytest.mark.parametrize("sd", [0.001, 0.2])
def test_a_family_is_held_to_the_larger_of_two_variances(sd):
    rng = np.random.default_rng(4)
    found = [_beside(rng.normal(-0.02, 0.03, 7)) for _ in range(5)]
    names = ["a", "a", "a", "b", "b"]
    members = [SimpleNamespace(band=SimpleNamespace(sd=sd), row=SimpleNamespace(model=name)) for name in names]
    independent = 5 * sd**2 * 2 / 7 / 5**2
    of_a, of_b = (np.mean([f.gains for f, n in zip(found, names, strict=True) if n == m], axis=0) for m in "ab")
    shared = ((3 / 5) ** 2 * of_a.var(ddof=1) + (2 / 5) ** 2 * of_b.var(ddof=1)) * 2 / 7
    difference, limit = _suite_test(members, found, [Raised()] * 5)
    assert difference == pytest.approx(np.mean([f.gains for f in found]), rel=1e-12)
    assert limit == pytest.approx(-stats.t.isf(0.05, 12) * math.sqrt(max(independent, shared)), rel=1e-12)
    assert (independent > shared) == (sd == 0.2)


def test_what_a_batch_could_not_measure_is_said_by_name(store):
    run = with_batch(_run(SLOW), CANDIDATE, effects=SLOW, earlier_effects=SLOW, sd=0.02)
    told = _verified(run, store).judgement.rows[0].confirmation.text
    assert told.startswith("NOT CONFIRMED in 7 tuples: ")
    assert "1.0.0" in told
    assert told.endswith("side by side: the machine has moved, not the engine alone")
    failure = Failure(reason=Reason.PROMPT_LENGTH, detail="x" * 3_990)
    assert _in_batch("the candidate", failure).detail.startswith("in the batch, the candidate: xxx")
    assert len(_in_batch("the candidate", failure).detail) == 4_000
    assert _beside_of("1.0.0", failure, failure).detail.startswith("in the batch, the candidate: ")
    data = SimpleNamespace(d=(0.0,) * 7)
    assert _beside_of("1.0.0", data, failure).detail.startswith("in the batch, 1.0.0: ")


def test_a_batch_goes_on_with_the_builds_it_declared_whatever_the_file_names_by_now():
    """Its file may have lost the release since, or name another build of it."""
    batch = with_batch(_run(SLOW), CANDIDATE, effects=SLOW).batch
    site = Site(**{field.name: None for field in fields(Site)} | {"params": CANDIDATE})
    third = ThirdArm({}, claim=print, voids=dict, find=print)
    resumed = ConfirmBatch(site, SimpleNamespace(count=print), third, batch, {})
    key = next(key for key in map(_key, batch.starts) if key.arm is BatchArm.EARLIER)
    subject = resumed._site_of(key).params.release.subject
    assert subject.model_dump(mode="json") == batch.declared.earlier["1.0.0"]

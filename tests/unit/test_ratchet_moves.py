"""The state machine, adopt, advance, rebase and retire: who may move a floor, and who may not."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from lqw.canonical import canonical_bytes
from lqw.errors import ParamsError
from lqw.metrics import RowId
from lqw.outcomes import Outcome, Purpose, Reason, RowVerdict
from lqw.params import load_params
from lqw.ratchet import (
    TABLE,
    Effect,
    Event,
    FloorSource,
    RatchetState,
    RebaseRecord,
    RetireRecord,
    adopt,
    advance,
    baseline_to_json,
    effect_of,
    epoch_key,
    point_of,
    rebase,
    references_for,
    retire,
)
from lqw.ratchet.machine import EVENT_OF
from lqw.ratchet.moves import _best, _raised
from lqw.records import parse_record
from lqw.samples import EngineFacts, HostFacts
from lqw.verdict import judge
from tests.support import synthetic as syn

ROOT = Path(__file__).parents[2]
DECODE = RowId.parse("m/decode")
REASON = (
    "The comparator of this epoch was built with a faster attention kernel than the one every earlier floor was measured "
    "against, so that the ratio fell by a tenth although the subject itself kept its absolute rate; see the receipt named "
    "as evidence, and the change log of that build."
)


@pytest.fixture(scope="module")
def key():
    host = HostFacts(name="demo", cpu_model="EPYC", cores=2, ram_gib=8, kernel="6.1", python="3.11")
    engine = EngineFacts(
        engine="llama", version="b1", build="x", binary_sha256="b" * 64, command=[], env={}, settings={}, compute="cpu"
    )
    return epoch_key(load_params(ROOT / "params/demo/1.1.0.yaml"), host, engine, {"m": "a" * 64})


def _floor(release="1.0.0", *, seed=0, effects=None, sd=0.02):
    plan = syn.plan(Purpose.ADOPT, release=release)
    return judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(seed), sd=sd, effects=effects)))


def _gate(baseline, key, release="1.1.0", *, seed=1, effects=None, sd=0.02, **more):
    plan = syn.plan(release=release)
    starts = syn.starts_of(plan, np.random.default_rng(seed), sd=sd, effects=effects)
    return judge(syn.evidence(plan, starts, references_for(baseline, key, plan.rows), **more))


@pytest.fixture(scope="module")
def adopted(key):
    return adopt(None, _floor(), key, host="demo", receipt_sha256="0" * 64).baseline


def _entry(baseline, row=DECODE):
    return baseline.epochs[-1].rows[row]


# the table


def test_every_state_and_event_has_one_effect():
    assert set(TABLE) == set(itertools.product(RatchetState, Event))


def test_only_a_batch_or_a_record_ever_moves_a_floor():
    moving = {Effect.OPEN_FLOOR, Effect.RAISE_FLOOR, Effect.LOWER_FLOOR}
    assert {event for (_, event), effect in TABLE.items() if effect in moving} == {
        Event.BATCH,
        Event.BATCH_OF_IMPROVED,
        Event.REBASE,
    }
    assert {key for key, effect in TABLE.items() if effect is Effect.LOWER_FLOOR} == {
        (RatchetState.ACTIVE, Event.REBASE)
    }


WHOLE = """
event              NONE        ACTIVE              RETIRED
BATCH              OPEN_FLOOR  KEEP                OPEN_FLOOR
BATCH_OF_IMPROVED  OPEN_FLOOR  RAISE_FLOOR         OPEN_FLOOR
PASSED             BLOCK       SET_LAST            BLOCK
IMPROVED           BLOCK       SET_LAST_ASK_BATCH  BLOCK
RED                BLOCK       BLOCK               BLOCK
SHIFT              BLOCK       BLOCK               BLOCK
INCONCLUSIVE       BLOCK       BLOCK               BLOCK
SUSPECT            BLOCK       BLOCK               BLOCK
VOID               BLOCK       BLOCK               BLOCK
FAILED             BLOCK       BLOCK               BLOCK
MISSING            BLOCK       BLOCK               BLOCK
NO_FLOOR           BLOCK       BLOCK               BLOCK
UNPLANNED          KEEP        BLOCK               KEEP
REBASE             REFUSE      LOWER_FLOOR         REFUSE
RETIRE             REFUSE      RETIRE              REFUSE
"""


def test_the_table_is_the_design_s_entry_by_entry():
    """Written out a second time, by hand from STATISTICS §5: nothing in the table changes without this changing too."""
    header, *lines = (line.split() for line in WHOLE.strip().splitlines())
    wanted = {
        (RatchetState(state), Event(event)): Effect(effect)
        for event, *effects in lines
        for state, effect in zip(header[1:], effects, strict=True)
    }
    assert dict(TABLE) == wanted
    assert all(effect_of(*at) is effect for at, effect in wanted.items())


def test_every_verdict_is_its_own_event():
    same = {verdict: verdict.name for verdict in RowVerdict}
    same |= {RowVerdict.PASS: "PASSED", RowVerdict.NEW: "BATCH", RowVerdict.MISSING_FLOOR: "NO_FLOOR"}
    assert {verdict: event.name for verdict, event in EVENT_OF.items()} == same


# adopt


def test_adopting_opens_every_floor(adopted, key):
    epoch = adopted.epochs[-1]
    assert len(epoch.rows) == 8
    assert epoch.opened_by == "1.0.0"
    for entry in epoch.rows.values():
        assert entry.floor.n == 6
        assert entry.floor.df == 5
        assert len(entry.floor.d) == 6
        assert entry.floor.value == pytest.approx(np.mean(entry.floor.d))
        assert entry.floor.ss == pytest.approx(5 * np.var(entry.floor.d, ddof=1))
        assert (entry.last, entry.history, entry.first) == (None, (), entry.floor.value)
    assert references_for(adopted, key, epoch.rows).differences == ()


def test_a_batch_that_is_no_floor_adopts_nothing(key):
    plan = syn.plan(Purpose.ADOPT)
    short = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(0), pairs=4)))
    moved = adopt(None, short, key, host="demo", receipt_sha256="0" * 64)
    assert not moved.changed
    assert moved.baseline.epochs == ()
    assert len(moved.moves) == 8


def test_measuring_again_until_it_is_luckier_raises_nothing(adopted, key):
    lucky = _floor("1.0.0", seed=9, effects={"decode": 1.3})
    moved = adopt(adopted, lucky, key, host="demo", receipt_sha256="1" * 64)
    assert not moved.changed
    assert moved.baseline == adopted
    assert {move.effect for move in moved.moves} == {Effect.KEEP}


def test_a_new_epoch_stands_behind_the_old_one(adopted, key):
    other = key.model_copy(update={"host": key.host.model_copy(update={"cores": 4})})
    moved = adopt(adopted, _floor("1.1.0", seed=4), other, host="demo", receipt_sha256="2" * 64)
    assert moved.changed
    assert [epoch.opened_by for epoch in moved.baseline.epochs] == ["1.0.0", "1.1.0"]
    assert moved.baseline.epochs[0] == adopted.epochs[0]


def test_a_new_model_joins_its_epoch(adopted, key):
    both = key.model_copy(update={"models": {**key.models, "n": "c" * 64}})
    plan = syn.plan(Purpose.ADOPT, models=("n",))
    batch = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(0))))
    moved = adopt(adopted, batch, both, host="demo", receipt_sha256="3" * 64)
    (epoch,) = moved.baseline.epochs
    assert epoch.key.models == both.models
    assert len(epoch.rows) == 16


# advance


def test_a_pass_sets_last_and_history_and_leaves_the_floor(adopted, key):
    judgement = _gate(adopted, key)
    assert judgement.outcome is Outcome.PASS
    moved = advance(adopted, judgement, key, receipt_sha256="1" * 64)
    before, after = _entry(adopted), _entry(moved.baseline)
    assert after.floor == before.floor
    assert after.last.release == "1.1.0"
    assert after.history == (after.last,)
    assert after.last.n == 3
    result = next(row for row in judgement.rows if row.row == DECODE)
    assert after.last == point_of(result, release="1.1.0", receipt_sha256="1" * 64)
    assert after.last.value == pytest.approx(result.band.estimate)
    assert after.last.comparator_mean == pytest.approx(np.log(result.comparator))
    assert after.last.comparator_sd == pytest.approx(np.std(np.log(result.comparator_values), ddof=1))
    assert moved.changed
    again = _gate(moved.baseline, key, "1.2.0", seed=3)
    twice = advance(moved.baseline, again, key, receipt_sha256="2" * 64).baseline
    assert [point.release for point in _entry(twice).history] == ["1.1.0", "1.2.0"]


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ({"effects": {"ttft@512": 2.0}}, Outcome.RED),
        ({"effects": {"decode": 1.8}}, Outcome.UNDECIDED),
        ({"voids": {DECODE: syn.failed(Reason.VOID_CORRECTNESS)}}, Outcome.UNDECIDED),
        ({"problems": ("edited",)}, Outcome.INVALID),
    ],
)
def test_anything_but_a_pass_leaves_the_baseline_byte_for_byte(adopted, key, how, outcome):
    judgement = _gate(adopted, key, **how)
    assert judgement.outcome is outcome
    moved = advance(adopted, judgement, key, receipt_sha256="1" * 64)
    assert not moved.changed
    assert canonical_bytes(baseline_to_json(moved.baseline)) == canonical_bytes(baseline_to_json(adopted))
    assert len(moved.moves) == 8
    assert {move.effect for move in moved.moves} <= {Effect.KEEP, Effect.BLOCK}


def test_a_pass_in_an_unknown_epoch_changes_nothing(adopted, key):
    other = key.model_copy(update={"protocol_sha256": "0" * 64})
    assert not advance(adopted, _gate(adopted, key), other, receipt_sha256="1" * 64).changed


def test_an_improvement_is_locked_in_by_a_fresh_batch_only(adopted, key):
    better = {"decode": 1.15}
    judgement = _gate(adopted, key, effects=better)
    assert judgement.outcome is Outcome.PASS
    passed = advance(adopted, judgement, key, receipt_sha256="1" * 64).baseline
    entry = _entry(passed)
    assert entry.improved_by == "1.1.0"
    assert entry.floor == _entry(adopted).floor  # never the data that proved it
    assert entry.best_ever.value > entry.floor.value

    stranger = adopt(passed, _floor("1.0.5", seed=7, effects=better), key, host="demo", receipt_sha256="2" * 64)
    assert _entry(stranger.baseline).floor == entry.floor

    fresh = adopt(passed, _floor("1.1.0", seed=8, effects=better), key, host="demo", receipt_sha256="3" * 64)
    raised = _entry(fresh.baseline)
    assert raised.floor.value > entry.floor.value
    assert raised.floor.receipt_sha256 == "3" * 64
    assert (raised.floor_source, raised.improved_by) == (FloorSource.BATCH, "")
    assert raised.first == entry.first  # the cumulative give-up still counts from the first floor
    effects = {move.row.short: move.effect for move in fresh.moves}
    assert effects["decode"] is Effect.RAISE_FLOOR
    assert effects["agg@4"] is Effect.KEEP


def test_a_fresh_batch_that_does_not_repeat_the_improvement_keeps_the_floor(adopted, key):
    passed = advance(adopted, _gate(adopted, key, effects={"decode": 1.15}), key, receipt_sha256="1" * 64).baseline
    worse = adopt(passed, _floor("1.1.0", seed=8, effects={"decode": 0.9}), key, host="demo", receipt_sha256="3" * 64)
    entry = _entry(worse.baseline)
    assert entry.floor == _entry(adopted).floor
    assert entry.improved_by == ""


def test_a_met_target_is_remembered_by_its_first_release(adopted, key):
    plan_targets = {"decode": 0.7}
    first = advance(adopted, _gate(adopted, key, targets=plan_targets), key, receipt_sha256="1" * 64).baseline
    assert _entry(first).target_met_by == "1.1.0"
    assert _entry(first, RowId.parse("m/agg@1")).target_met_by == ""
    assert references_for(first, key, [DECODE]).targets_met == (DECODE,)
    second = _gate(first, key, "1.2.0", seed=5, targets=plan_targets)
    assert _entry(advance(first, second, key, receipt_sha256="2" * 64).baseline).target_met_by == "1.1.0"


def test_two_percent_a_release_is_caught_by_the_anchored_floor(key):
    """Against the last release alone every step passes; the floor sees the sum."""
    plan = syn.plan(Purpose.ADOPT, floor_pairs=10, release="1.0.0")
    batch = judge(syn.evidence(plan, syn.starts_of(plan, np.random.default_rng(0), sd=0.005)))
    baseline = adopt(None, batch, key, host="demo", receipt_sha256="0" * 64).baseline
    for k in range(1, 21):
        gate = syn.plan(floor_pairs=10, margin=0.10, release=f"1.{k}.0")
        starts = syn.starts_of(gate, np.random.default_rng(k), sd=0.005, effects={"decode": 0.98**k})
        judgement = judge(syn.evidence(gate, starts, references_for(baseline, key, gate.rows)))
        if judgement.outcome is not Outcome.PASS:
            break
        baseline = advance(baseline, judgement, key, receipt_sha256=f"{k}").baseline
    assert judgement.outcome is Outcome.RED
    assert k <= 4
    (red,) = [row for row in judgement.rows if row.verdict is RowVerdict.RED]
    assert red.row == DECODE
    assert red.band.red_by == "floor"


def test_every_move_is_said_in_words(adopted, key):
    """What a move did to its row, in the words of the notes and of the receipt's reader."""
    first = adopt(None, _floor(), key, host="demo", receipt_sha256="0" * 64)
    floor = math.exp(_entry(adopted).floor.value)
    assert _text(first) == f"floor set to {floor:.3f}"
    better = {"decode": 1.15}
    judgement = _gate(adopted, key, effects=better)
    passed = advance(adopted, judgement, key, receipt_sha256="1" * 64)
    asked = f"floor stays at {floor:.3f}; improved: a fresh batch of this release may raise it"
    assert _text(passed) == asked
    assert _text(passed, "m/agg@4").endswith("; last release recorded")
    fresh = adopt(passed.baseline, _floor("1.1.0", seed=8, effects=better), key, host="demo", receipt_sha256="3" * 64)
    raised = _entry(fresh.baseline)
    assert _text(fresh) == f"floor {floor:.3f} → {math.exp(raised.floor.value):.3f}"
    assert raised.best_ever == max(_entry(passed.baseline).best_ever, raised.floor, key=lambda point: point.value)
    kept = math.exp(_entry(adopted, RowId.parse("m/agg@4")).floor.value)
    assert _text(fresh, "m/agg@4") == f"floor stays at {kept:.3f}"


def _text(moved, row="m/decode"):
    return next(move.text for move in moved.moves if str(move.row) == row)


def test_a_run_that_moved_nothing_says_which_rows_blocked(adopted, key):
    judgement = _gate(adopted, key, effects={"ttft@512": 2.0})
    moved = advance(adopted, judgement, key, receipt_sha256="1" * 64)
    blocked = {move.row.short for move in moved.moves if move.effect is Effect.BLOCK}
    assert blocked == {row.row.short for row in judgement.rows if row.verdict not in ("PASS", "IMPROVED")}
    assert "ttft@512" in blocked
    assert "decode" not in blocked
    assert {move.text for move in moved.moves} == {"the run is RED: floor, last and history stay"}
    short = _floor().model_copy(update={"outcome": Outcome.UNDECIDED})
    again = adopt(adopted, short, key, host="demo", receipt_sha256="1" * 64)
    assert {move.effect for move in again.moves} == {Effect.KEEP}
    assert {move.effect for move in adopt(None, short, key, host="demo", receipt_sha256="1" * 64).moves} == {
        Effect.KEEP
    }


def test_a_row_that_passed_without_an_entry_gets_none(adopted, key):
    """A PASS of rows that the epoch never held (an edited baseline) records nothing for them."""
    judgement = _gate(adopted, key)
    epoch = adopted.epochs[0]
    without = {row: entry for row, entry in epoch.rows.items() if row != DECODE}
    less = adopted.model_copy(update={"epochs": (epoch.model_copy(update={"rows": without}),)})
    moved = advance(less, judgement, key, receipt_sha256="1" * 64)
    assert DECODE not in moved.baseline.epochs[0].rows
    assert _text(moved) == "nothing changes"


def test_only_the_epoch_of_the_run_moves(adopted, key):
    other = key.model_copy(update={"protocol_sha256": "0" * 64})
    both = adopt(adopted, _floor("1.0.9", seed=5), other, host="demo", receipt_sha256="8" * 64).baseline
    moved = advance(both, _gate(both, key), key, receipt_sha256="1" * 64).baseline
    assert moved.epochs[1] == both.epochs[1]
    assert moved.epochs[0] != both.epochs[0]
    record = _parsed(_record(adopted, _lowered(adopted, 0.1, "1")[1]))
    again = rebase(both, record, _lowered(adopted, 0.1, "1")[1], name="r")
    assert again.epochs[1] == both.epochs[1]
    assert _entry(again).floor == _entry(both).floor


def test_the_best_ever_is_the_best_and_the_first_of_equals(adopted, key):
    entry = _entry(adopted)
    worse = advance(adopted, _gate(adopted, key, effects={"decode": 0.95}), key, receipt_sha256="1" * 64).baseline
    assert _entry(worse).best_ever == entry.best_ever
    same = entry.floor.model_copy(update={"receipt_sha256": "e" * 64})
    assert _best(entry.floor, same) is entry.floor
    asked = entry.model_copy(update={"improved_by": "1.1.0"})
    closed = _raised(asked, same)
    assert (closed.floor, closed.improved_by, closed.best_ever) == (entry.floor, "", entry.best_ever)
    little = entry.floor.model_copy(update={"value": entry.best_ever.value + 0.1})
    assert _raised(asked, little).best_ever == little
    term = asked.model_copy(update={"floor": same.model_copy(update={"value": -9.0}), "floor_before": entry.floor})
    assert _raised(term, same).floor_before is None  # as high as what the term's end would bring back


# records


def _record(adopted, evidence, **update):
    entry = _entry(adopted)
    body = {
        "schema": "lqw-rebase/1",
        "host": "demo",
        "epoch_sha256": adopted.epochs[-1].key.sha256,
        "row": "m/decode",
        "old_floor": math.exp(entry.floor.value),
        "new_floor": math.exp(evidence.value),
        "reason": REASON,
        "evidence_receipt_sha256": evidence.receipt_sha256,
        "author": "Ada",
        "approver": "Grace",
        "created": "2026-03-01",
        "expires": "2026-06-01",
        **update,
    }
    return {name: value for name, value in body.items() if value is not KeyError}


@pytest.fixture(scope="module")
def evidence(adopted):
    floor = _entry(adopted).floor
    return floor.model_copy(update={"value": floor.value - 0.1, "receipt_sha256": "e" * 64})


def _parsed(body, kind=RebaseRecord):
    return parse_record(kind, canonical_bytes(body), name="records/0001.json")


def test_a_rebase_lowers_one_floor_to_what_was_measured(adopted, evidence):
    lowered = rebase(adopted, _parsed(_record(adopted, evidence)), evidence, name="records/0001.json")
    entry, before = _entry(lowered), _entry(adopted)
    assert entry.floor == evidence
    assert entry.floor_source is FloorSource.REBASE
    assert (entry.floor_expires, entry.floor_before) == ("2026-06-01", before.floor)
    assert (entry.first, entry.best_ever) == (before.first, before.best_ever)
    others = [row for row in lowered.epochs[-1].rows if row != DECODE]
    assert all(_entry(lowered, row) == _entry(adopted, row) for row in others)
    for_ever = _record(adopted, evidence, expires=KeyError, permanent=True)
    entry = _entry(rebase(adopted, _parsed(for_ever), evidence, name="r"))
    assert (entry.floor_expires, entry.floor_before) == ("", None)


@pytest.mark.parametrize(
    "update",
    [
        {"reason": "too short"},
        {"reason": "because " * 40},
        {"approver": "Ada"},
        {"approver": " ada "},
        {"author": ""},
        {"expires": KeyError},
        {"permanent": True},
        {"expires": "2026-02-30"},
        {"expires": "2026-03-01"},
        {"created": "yesterday"},
        {"new_floor": 9.0},
        {"new_floor": -1.0},
        {"evidence_receipt_sha256": "abc"},
        {"row": "m/speed"},
        {"schema": "lqw-retire/1"},
        {"comment": "x"},
        {"host": KeyError},
    ],
)
def test_a_record_that_is_not_whole_is_refused_by_name(adopted, evidence, update):
    with pytest.raises(ParamsError, match=r"records/0001\.json") as caught:
        _parsed(_record(adopted, evidence, **update))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("update", "field", "told"),
    [
        ({"host": "other"}, "host", ("the baseline is of demo", "use that host's baseline")),
        ({"epoch_sha256": "0" * 64}, "epoch_sha256", ("unknown epoch; known: {epoch}", "see lqw baseline show")),
        ({"row": "m/ttft@4096"}, "row", ("has no floor in this epoch", "see lqw baseline show")),
        (
            {"old_floor": 1.5},
            "old_floor",
            ("the baseline's floor on 2026-03-01 is {floor}", "look it up with lqw baseline show"),
        ),
        ({"new_floor": 0.5}, "new_floor", ("the evidence measured {new}", "a floor is measured, never chosen")),
        (
            {"evidence_receipt_sha256": "d" * 64},
            "evidence_receipt_sha256",
            ("the evidence is of receipt eeeeeeeeeeee…", "name its receipt"),
        ),
    ],
)
def test_a_record_that_contradicts_the_baseline_is_refused_by_field(adopted, evidence, update, field, told):
    problem, remedy = told
    body = _record(adopted, evidence, **update)
    with pytest.raises(ParamsError) as caught:
        rebase(adopted, _parsed(body), evidence, name="records/0001.json")
    floor, new = (f"{math.exp(point.value):.4f}" for point in (_entry(adopted).floor, evidence))
    shown = problem.format(epoch=adopted.epochs[0].key.sha256[:12], floor=floor, new=new)
    value = repr(body[field])
    assert str(caught.value) == f"records/0001.json: {field} = {value}: {shown}\n  remedy: {remedy}"


@pytest.mark.parametrize("change", [1 + 9e-4, 1 - 9e-4])
def test_a_record_may_round_its_ratios(adopted, evidence, change):
    body = _record(adopted, evidence)
    body |= {"old_floor": body["old_floor"] * change, "new_floor": body["new_floor"] * change}
    assert _entry(rebase(adopted, _parsed(body), evidence, name="r")).floor == evidence
    body |= {"old_floor": body["old_floor"] * (1 + 2.2e-3)}
    with pytest.raises(ParamsError, match="old_floor"):
        rebase(adopted, _parsed(body), evidence, name="r")


def _lowered(baseline, by, receipt, **update):
    """The baseline after a rebase of decode by *by*, and the evidence."""
    held = _entry(baseline).floor_on(update.get("created", "2026-03-01"))
    seen = held.model_copy(update={"value": held.value - by, "receipt_sha256": receipt * 64})
    body = _record(baseline, seen, old_floor=math.exp(held.value), **update)
    return rebase(baseline, _parsed(body), seen, name="r", record_sha256=receipt * 64), seen


def test_what_a_rebase_accepted_passes_against_the_last_release_too(adopted, key):
    """The last release had the old level; were it kept as the second reference, no run at the new level could pass."""
    passed = advance(adopted, _gate(adopted, key), key, receipt_sha256="1" * 64).baseline
    lowered, seen = _lowered(passed, 0.2, "2")
    assert _entry(lowered).last is None
    assert _entry(lowered).history == _entry(passed).history
    at_new_level = _gate(lowered, key, "1.2.0", seed=4, effects={"decode": math.exp(-0.2)})
    assert at_new_level.outcome is Outcome.PASS
    after = _entry(advance(lowered, at_new_level, key, receipt_sha256="3" * 64).baseline)
    assert (after.last.release, after.floor) == ("1.2.0", seen)


def test_terms_never_add_up(adopted):
    """A second term on a lowered floor ends at the floor that had none, not at the first term's."""
    once, first = _lowered(adopted, 0.1, "1", expires="2026-06-01")
    twice, second = _lowered(once, 0.1, "2", created="2026-05-01", expires="2026-09-01")
    entry = _entry(twice)
    assert entry.record_sha256 == "2" * 64
    assert entry.floor_on("2026-08-31") == second
    assert entry.floor_on("2026-09-01") == _entry(adopted).floor
    assert second.value < first.value


def test_after_a_term_the_record_starts_from_the_floor_that_came_back(adopted):
    once, _ = _lowered(adopted, 0.1, "1", expires="2026-06-01")
    later, seen = _lowered(once, 0.05, "2", created="2026-07-01", expires="2026-09-01")
    assert seen.value == pytest.approx(_entry(adopted).floor.value - 0.05)
    assert _entry(later).floor_on("2026-09-01") == _entry(adopted).floor


@pytest.mark.parametrize("gain", [2e-4, 0.0])
def test_evidence_that_rounds_to_a_loss_but_is_none_rebases_nothing(adopted, gain):
    held = _entry(adopted).floor
    seen = held.model_copy(update={"value": held.value + gain, "receipt_sha256": "e" * 64})
    body = _record(adopted, seen, new_floor=math.exp(held.value - 2e-4))
    with pytest.raises(ParamsError) as caught:
        rebase(adopted, _parsed(body), seen, name="r")
    problem = f"the evidence is no worse than the floor of {math.exp(held.value):.6f}"
    assert str(caught.value) == f"r: new_floor = {body['new_floor']!r}: {problem}\n  remedy: there is nothing to rebase"


@pytest.mark.parametrize(("gain", "term"), [(1.03, False), (0.98, True)])
def test_a_raised_floor_is_not_lowered_by_the_end_of_a_term(adopted, key, gain, term):
    """A fresh batch above what the term's end would bring back ends the term; one below it keeps the term."""
    lowered, _ = _lowered(adopted, 0.08, "1", expires="2026-06-01")
    better = {"decode": gain}
    passed = advance(lowered, _gate(lowered, key, effects=better), key, receipt_sha256="5" * 64).baseline
    assert _entry(passed).improved_by == "1.1.0"
    batch = _floor("1.1.0", seed=8, effects=better)
    entry = _entry(adopt(passed, batch, key, host="demo", receipt_sha256="3" * 64).baseline)
    assert entry.floor.receipt_sha256 == "3" * 64
    assert (entry.floor_before is not None, entry.floor_expires != "") == (term, term)
    assert entry.floor_on("2027-01-01").value >= entry.floor.value


def test_a_row_is_retired_once_only(adopted):
    with pytest.raises(ParamsError, match="twice"):
        _retire_record(adopted, rows=("m/decode", "m/decode"))


def _retire_record(adopted, rows=("m/decode",)):
    drop = {"row", "old_floor", "new_floor", "expires"}
    floor = _entry(adopted).floor
    body = {name: value for name, value in _record(adopted, floor).items() if name not in drop}
    body |= {"schema": "lqw-retire/1", "rows": list(rows), "evidence_receipt_sha256": "0" * 64}
    return _parsed(body, RetireRecord)


def test_a_retired_row_gates_no_more_and_keeps_its_best(adopted, key):
    gone = retire(adopted, _retire_record(adopted), name="r.json")
    assert _entry(gone).state is RatchetState.RETIRED
    assert _entry(gone).best_ever == _entry(adopted).best_ever
    standing = references_for(gone, key, [RowId.parse("m/ttft@512")])
    assert DECODE not in standing.dropped
    with pytest.raises(ParamsError) as caught:
        retire(gone, _retire_record(adopted), name="r.json")
    assert str(caught.value) == "r.json: rows = 'm/decode': is RETIRED\n  remedy: retire active rows only"
    with pytest.raises(ParamsError) as caught:
        rebase(
            gone, _parsed(_record(adopted, _entry(adopted).floor, new_floor=0.1)), _entry(adopted).floor, name="r.json"
        )
    assert str(caught.value) == "r.json: row = 'm/decode': is RETIRED\n  remedy: rebase active rows only"


def test_a_retired_row_names_its_record_and_leaves_the_others(adopted):
    gone = retire(adopted, _retire_record(adopted, rows=("m/decode", "m/agg@4")), name="r.json", record_sha256="9" * 64)
    changed = {str(row) for row, entry in gone.epochs[0].rows.items() if entry != adopted.epochs[0].rows[row]}
    assert changed == {"m/decode", "m/agg@4"}
    assert _entry(gone).record_sha256 == "9" * 64
    assert _entry(gone).floor == _entry(adopted).floor
    assert _entry(retire(adopted, _retire_record(adopted), name="r.json")).record_sha256 == ""


def test_a_row_that_comes_back_is_new_and_remembers_its_best(adopted, key):
    gone = retire(adopted, _retire_record(adopted), name="r.json")
    blocked = _gate(gone, key)
    assert next(row for row in blocked.rows if row.row == DECODE).verdict is RowVerdict.MISSING_FLOOR
    moved = adopt(gone, _floor("1.4.0", seed=12, effects={"decode": 0.8}), key, host="demo", receipt_sha256="9" * 64)
    entry = _entry(moved.baseline)
    assert entry.state is RatchetState.ACTIVE
    assert entry.floor.release == "1.4.0"
    assert entry.best_ever == _entry(adopted).best_ever
    assert entry.first == _entry(adopted).first  # what was given up is still counted from the first floor

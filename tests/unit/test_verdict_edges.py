"""What mutants of the deciding code showed that no other test had noticed, each by its own small test."""

import dataclasses
import importlib
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lqw.metrics import RowId
from lqw.noise.rows import Call, Reference, RowBand, RowData, RowReferences
from lqw.outcomes import Arm, Outcome, Purpose, Reason, RowState, RowVerdict
from lqw.plan import Policy
from lqw.ratchet import RatchetState
from lqw.ratchet.machine import TABLE, Effect, _blocks
from lqw.ratchet.session import session_sd
from lqw.verdict import GuardFinding, judge, standing_to_json
from lqw.verdict.guards import comparator_history
from lqw.verdict.results import Confirmation, Counts, SuiteResult
from lqw.verdict.rows import Judged, row_result, too_good, unmeasured
from lqw.verdict.sanity import bimodality, drift
from lqw.verdict.sentence import UNCONFIRMED, Findings, reasons_of, sentence_of
from lqw.verdict.suite import TAU_COMMON, Members, Z, suite_calls
from tests.support import synthetic as syn

POLICY = Policy(looks=(3, 5, 7, 9), floor_pairs=10, margin=0.10, margin_class="A")
DECODE = RowId.parse("m/decode")
RATES = ("decode", "agg@1", "agg@4")


# the sentence


def _row(short, verdict, text="text", **more):
    row = unmeasured(RowId.parse(f"m/{short}"), syn.failed(Reason.TIMEOUT))
    return row.model_copy(
        update={"state": RowState.MEASURED, "verdict": RowVerdict(verdict), "text": text, "gating": True, **more}
    )


def _found(*rows, suites=()):
    return Findings((), rows, suites, (), ())


def _sentence(*rows):
    counts = Counts(planned=8, measured=8, gating=8, void=0, failed=0)
    return sentence_of(syn.plan(margin=0.10), Outcome.UNDECIDED, _found(*rows), counts)


def _not_measured(text):
    return Confirmation(state="NOT MEASURED", release="1.0.0", text=text)


def test_a_confirmation_that_was_not_measured_says_why_for_rows_and_families():
    moved = _row("decode", "SUSPECT", "the comparator moved")
    assert reasons_of(_found(moved)) == ("SUSPECT decode of m the comparator moved",)
    good = moved.model_copy(update={"confirmation": _not_measured("2 of 7 tuples")})
    assert "TOO GOOD, UNCONFIRMED: 2 of 7 tuples; it blocks either way" in reasons_of(_found(good))
    family = SuiteResult(family="rate", rows=3, mean_delta=math.log(0.9), se=0.01, threshold=math.log(0.97), red=True)
    together = "the 3 rate rows together are at 0.900× their floors (RED below 0.970)"
    assert reasons_of(_found(suites=[family])) == (together, UNCONFIRMED)
    short = family.model_copy(update={"confirmation": _not_measured("2 of 7 tuples")})
    assert reasons_of(_found(suites=[short])) == (
        together,
        "RED-UNCONFIRMED: 2 of 7 tuples; it blocks either way",
    )


def test_the_sentence_counts_what_it_does_not_name():
    rows = [_row(short, "SUSPECT", short) for short in syn.DEMO_ROWS[:5]]
    assert _sentence(*rows[:3]).endswith("prefill@512 of m prefill@512.")
    assert _sentence(*rows[:4]).endswith("; and 1 more.")
    assert _sentence(*rows).endswith("; and 2 more.")


def _open(short, lower, pairs):
    return _row(short, "INCONCLUSIVE", f"words of {short}", lower_ratio=lower, pairs_needed=pairs)


@pytest.mark.parametrize(
    ("pairs", "tail"),
    [
        ((12, 20, 15), "; about 20 pairs would decide all of them"),
        ((12, None, 15), "; about 15 pairs would decide 2 of them; more pairs alone will not decide 1"),
        ((None, None, None), "; more pairs alone will not decide 3"),
    ],
)
def test_open_rows_together_say_the_worst_and_what_would_decide_them(pairs, tail):
    rows = [_open(*one) for one in zip(("decode", "agg@1", "agg@4"), (0.85, 0.75, 0.8), pairs, strict=True)]
    assert _sentence(*rows) == (
        "UNDECIDED: 3 rows INCONCLUSIVE (m/decode, m/agg@1, m/agg@4): losses of up to 25 % (m/agg@1) cannot be "
        f"excluded, margin 10 %{tail}."
    )


def test_rows_with_other_tokens_leave_the_tokens_to_the_reasons():
    rows = [_row(short, "VOID", "prose: token 3 differs: 'a' differs: 'b'") for short in RATES]
    assert _sentence(*rows) == "UNDECIDED: 3 rows VOID (m/decode, m/agg@1, m/agg@4): prose: token 3 differs."


def test_rows_that_shifted_name_every_release_that_moved_with_them():
    rows = [_row(short, "SHIFT", short, confirm_with=release) for short, release in zip(RATES, "bab", strict=True)]
    assert _sentence(*rows) == (
        "UNDECIDED: 3 rows SHIFT (m/decode, m/agg@1, m/agg@4): NOT CONFIRMED, a, b measured side by side has moved as "
        "well: the machine, not the engine alone."
    )


# rows


def _band(**changed):
    band = RowBand(
        row=DECODE, look=0, n=3, estimate=-0.1, s2=9e-4, v=11, sd=0.03, nu=12, floor=0.1, delta_floor=-0.2,
        se_floor=0.02, t_red=4.0, u_pass=2.8, threshold=-0.08, lower=-0.256, band_fraction=0.077, call=Call.RED,
        red_by="floor",
    )  # fmt: skip
    return band.model_copy(update=changed)


def _result(band, **more):
    floor = Reference(value=0.1, n=10, ss=0.01, df=9, release="1.0.0", receipt_sha256="f")
    last = floor.model_copy(update={"value": 0.2, "release": "1.4.0", "receipt_sha256": "e"})
    data = RowData(DECODE, (1, 2, 3), (-0.1, -0.11, -0.09), (90.0, 91.0, 92.0), (100.0, 101.0, 102.0))
    return row_result(
        Judged(data, band, RowReferences(floor=floor, last=last), POLICY, Purpose.GATE, False, **more), None
    )


def test_a_row_carries_what_it_was_held_against_and_what_was_measured():
    row = _result(_band(last=0.2, delta_last=-0.3))
    assert (row.floor_ratio, row.last_ratio) == (math.exp(0.1), math.exp(0.2))
    assert (row.against_floor, row.against_last) == (math.exp(-0.2), math.exp(-0.3))
    assert (row.subject_values, row.comparator_values) == ((90.0, 91.0, 92.0), (100.0, 101.0, 102.0))


@pytest.mark.parametrize(
    ("changed", "more", "release"),
    [
        ({}, {}, "1.0.0"),
        ({"red_by": "last", "threshold_last": -0.1, "delta_last": -0.3}, {}, "1.4.0"),
        ({"call": Call.PASS, "red_by": "", "delta_floor": 0.5}, {}, "1.0.0"),  # too good
        ({"call": Call.PASS, "red_by": "", "delta_floor": 0.5}, {"suspect": "the comparator moved"}, None),
        ({"call": Call.PASS, "red_by": "", "delta_floor": 0.0}, {}, None),
        ({"call": Call.OPEN, "red_by": "", "delta_floor": -0.05}, {}, None),
    ],
)
def test_the_release_measured_beside_a_row_is_the_one_it_was_judged_by(changed, more, release):
    assert _result(_band(**changed), **more).confirm_with == release


def test_two_hundred_pairs_are_the_most_that_is_advised():
    def least(n):  # the smallest change that n pairs would pass
        return math.log(0.9) + 2.8 * math.sqrt(0.03**2 * (1 / n + 1 / 10) + 2 * POLICY.tau**2)

    for delta, need in ((least(200) + 1e-9, 200), (least(201) + 1e-9, None)):
        band = _band(call=Call.OPEN, red_by="", delta_floor=delta)
        assert _result(band).pairs_needed == need


def test_a_method_without_t_has_no_noise_that_a_gain_must_exceed():
    gain, se = np.float64(0.25), np.float64(0.3)
    assert too_good(gain, se, np.float64(math.nan), POLICY)
    without = _result(_band(call=Call.PASS, red_by="", delta_floor=0.25, se_floor=0.3, t_red=None))
    assert without.verdict is RowVerdict.SUSPECT


# guards


def _data(name, d, comparator=None):
    y = tuple(comparator or (50.0,) * len(d))
    return RowData(
        RowId.parse(name), tuple(range(1, len(d) + 1)), tuple(d), tuple(v * math.exp(x) for v, x in zip(y, d, strict=True)), y
    )  # fmt: skip


def _table(*rows):
    return {row.row: row for row in rows}


def _starts(n):
    return syn.starts_of(syn.plan(), np.random.default_rng(0), pairs=n)


def test_a_drift_is_named_by_its_row_and_hidden_by_no_short_one():
    falling = [-0.02 * i for i in range(9)]
    rows = _table(_data("m/agg@1", falling[:4]), _data("m/decode", falling))
    assert [(found.subject, found.guard) for found in drift(rows, _starts(9), POLICY)] == [("m/decode", "drift")]


def test_noise_whose_interval_holds_no_change_is_no_drift():
    up_and_down = (0.0, 0.30, -0.20, 0.25, -0.10, 0.35, 0.0, 0.4, 0.15)
    wide = _table(_data("m/decode", up_and_down))
    assert abs(np.polyfit(range(9), up_and_down, 1)[0] * 8) > POLICY.margin / 2
    assert drift(wide, _starts(9), POLICY) == []


def test_a_broad_upper_group_is_as_broad_as_a_lower_one():
    for logs in ((0.0, 0.01, 0.29, 0.30, 0.39), (0.0, 0.09, 0.10, 0.38, 0.39)):
        assert bimodality(_table(_data("m/decode", logs)), POLICY) == []


def test_a_comparator_that_did_not_move_is_not_called_unjudgeable():
    row = _data("m/decode", (0.0,) * 3, (49.0, 49.1, 49.2))
    points = (syn.ComparatorPoint(release="r", mean=math.log(49.1), sd=0.001, n=3),)
    (found,) = comparator_history(_table(row), {row.row: points}, POLICY)
    assert (found.text, found.effect) == ("comparator of m/decode is at 1.00× its own history (1 sessions)", "none")


# families


def _members(rng, models, pairs, floor_pairs, *, gating=None):
    """A family whose pairs scatter; rows that do not gate hold numbers too large to be overlooked."""
    rows = len(models)
    gating = np.ones(rows, dtype=bool) if gating is None else gating
    noise = np.where(gating, 0.05, 50.0)
    return Members(
        gating=gating,
        delta=noise * rng.standard_normal(rows),
        se=np.where(gating, 1e-6, 50.0),  # so small that the limit is what the pairs say
        d=noise[:, None] * rng.standard_normal((rows, pairs)),
        n=np.full(rows, float(pairs)),
        floor_d=noise[:, None] * rng.standard_normal((rows, floor_pairs)),
        n_floor=np.full(rows, float(floor_pairs)),
        models=np.array(models),
    )


def _numbers(call):
    return call.rows, call.mean, call.se, call.threshold


def test_rows_that_do_not_gate_are_as_good_as_absent_release_by_release():
    """Two simulated releases at once say what each says alone without its rows that do not gate."""
    rng = np.random.default_rng(3)
    masks = [np.array(mask, dtype=bool) for mask in ((1, 1, 0, 1, 1, 0), (1, 0, 0, 1, 1, 1))]
    one = [_members(rng, (0, 0, 0, 1, 1, 2), 5, 8, gating=mask) for mask in masks]
    one[0].floor_d[1, 5:], one[0].n_floor[1] = np.nan, 5.0  # one release has a shorter floor, ...
    one[1].floor_d[1, :], one[1].n_floor[1] = np.nan, np.nan  # ... the other none, of a row that does not gate
    both = Members(
        **{
            f.name: getattr(one[0], f.name) if f.name == "models" else np.stack([getattr(m, f.name) for m in one])
            for f in dataclasses.fields(Members)
        }
    )
    (together,) = suite_calls([both])
    for i, (members, mask) in enumerate(zip(one, masks, strict=True)):
        (alone,) = suite_calls([members.of(mask)])
        np.testing.assert_allclose([x[i] for x in _numbers(together)], _numbers(alone))


def _by_hand(members, pairs, floor_pairs):
    """The limit of a family of one model: *pairs* and *floor_pairs* are those that count."""
    d, f = members.d[:, :pairs].mean(axis=0), members.floor_d[:, :floor_pairs].mean(axis=0)
    ss, df = ((d - d.mean()) ** 2).sum() + ((f - f.mean()) ** 2).sum(), pairs + floor_pairs - 2
    shared = ss / df * (1 / pairs + 1 / members.n_floor.min())
    common = 2 * TAU_COMMON**2
    as_shared = math.sqrt(stats.t.isf(0.005, df) ** 2 * shared + Z**2 * common)
    return -max(as_shared, Z * math.sqrt((members.se**2).sum() / len(members.se) ** 2 + common))


@pytest.mark.parametrize("pairs", [1, 4])
def test_floors_of_unequal_length_line_up_as_far_as_the_shortest(pairs):
    members = _members(np.random.default_rng(4), (0, 0, 0), pairs, 8)
    members.floor_d[1, 5:] = np.nan
    members.n_floor[1] = 5.0
    (call,) = suite_calls([members])
    assert call.threshold == pytest.approx(_by_hand(members, pairs, 5))


def test_without_a_second_pair_anywhere_a_family_is_held_to_its_rows_alone():
    members = _members(np.random.default_rng(4), (0, 0, 1), 1, 0)
    (call,) = suite_calls([members])
    independent = (members.se**2).sum() / 9 + 2 * TAU_COMMON**2
    assert call.threshold == pytest.approx(-Z * math.sqrt(independent))
    assert call.se == pytest.approx(math.sqrt(independent))


# the judge


@pytest.fixture(scope="module")
def standing():
    return syn.floor(np.random.default_rng(1), sd=0.02, rows=RATES, models=("m", "n"))[1]


def _judged(standing, *, pairs=3, purpose=Purpose.GATE, effects=None, sd=0.02, change=None, plan=None, **more):
    plan = plan or syn.plan(purpose, rows=RATES, models=("m", "n"), margin=0.10)
    starts = syn.starts_of(plan, np.random.default_rng(2), sd=sd, pairs=pairs, effects=effects)
    return judge(syn.evidence(plan, change(starts) if change else starts, standing, **more))


SLOW = {"m/decode": 0.5}


def test_a_red_row_asks_for_its_floor_s_release_and_for_nothing_else(standing):
    two = syn.plan(rows=RATES[:2], models=("m",), margin=0.10)  # two rows are no family
    judgement = _judged(standing, plan=two, effects=SLOW)
    assert (judgement.outcome, judgement.confirming) == (Outcome.RED, {"m": ("1.0.0",)})
    assert _judged(standing).confirming == {}


@pytest.mark.parametrize("why", ["needing", "problem", "order", "null control"])
def test_a_run_that_is_not_over_or_not_to_be_believed_asks_for_no_batch(standing, why):
    how = {
        "needing": {"change": lambda starts: [s for s in starts if s.model == "m" or s.pair < 3]},
        "problem": {"problems": ("the seal is broken",)},
        "order": {"change": lambda starts: [*starts, starts[0]]},
        "null control": {"change": _alternating, "pairs": 9},
    }[why]
    judgement = _judged(standing, effects=SLOW, **how)
    assert any(row.verdict is RowVerdict.RED for row in judgement.rows)
    assert bool(judgement.models_needing_pairs) is (why == "needing")
    assert judgement.confirming == {}


def _slowed(starts, factor):
    """The same starts, each rate divided by *factor* of its start."""
    return [
        start.model_copy(
            update={
                "requests": [
                    r.model_copy(update={"gaps_ns": [round(gap * factor(start)) for gap in r.gaps_ns]})
                    for r in start.requests
                ]
            }
        )
        for start in starts
    ]


def _alternating(starts):
    """Every second start of a comparator is a third slower: it differs from itself."""
    return _slowed(starts, lambda s: 1.5 if s.arm is Arm.COMPARATOR and s.pair % 2 and s.model == "n" else 1.0)


def test_the_judge_hands_on_the_batch_s_window_and_what_targets_raised(standing, monkeypatch):
    seen = {}

    def batch_rows(batch, rows, *, min_window_s):
        seen.update(batch=batch, rows=rows, window=min_window_s)
        return {}

    def confirm_suites(suites, rows, beside, raised):
        seen["raised"] = raised
        return suites

    module = importlib.import_module("lqw.verdict.judge")  # its function has the same name
    monkeypatch.setattr(module, "batch_rows", batch_rows)
    monkeypatch.setattr(module, "confirm_suites", confirm_suites)
    monkeypatch.setattr(module, "raised_of", lambda *_: {"all": "told"})
    monkeypatch.setattr(module, "confirm_rows", lambda rows, *_: rows)
    judgement = _judged(standing, effects=SLOW, batch="a batch")
    rows = tuple(row.row for row in judgement.rows)
    assert seen == {"batch": "a batch", "rows": rows, "window": syn.WINDOW_S, "raised": {"all": "told"}}


def test_what_a_model_without_a_start_has_is_no_pair_and_no_look(standing):
    none = _judged(standing, change=lambda starts: [])
    assert (none.pairs, none.look, none.suites) == ({"m": 0, "n": 0}, 0, ())
    assert none.pairs_saved == 0
    five = _judged(standing, pairs=9, sd=0.1)
    assert five.look == max(row.look for row in five.rows) > 0


def test_a_floor_says_nothing_of_rows_that_are_no_longer_measured(standing):
    plan = syn.plan(Purpose.ADOPT, rows=RATES)
    gone = standing.model_copy(update={"dropped": (RowId.parse("m/agg@16"),)})
    judgement = _judged(gone, plan=plan, pairs=6)
    assert (judgement.outcome, judgement.reasons) == (Outcome.FLOOR, ())


def test_a_floor_is_made_of_no_pair_beyond_its_plan(standing):
    more = syn.plan(Purpose.ADOPT, rows=RATES, floor_pairs=9)
    starts = syn.starts_of(more, np.random.default_rng(2), sd=0.02)
    judgement = judge(syn.evidence(syn.plan(Purpose.ADOPT, rows=RATES), starts, standing))
    assert judgement.outcome is Outcome.INVALID
    assert {row.n for row in judgement.rows} == {6}


def test_guards_see_no_pair_beyond_the_look_that_decided(standing):
    """Later pairs that drift change no finding, as they change no number."""
    short = _judged(standing, pairs=9, change=lambda starts: [s for s in starts if s.pair <= 3])
    drifting = lambda s: 1 + 0.05 * s.pair * (s.pair > 3 and s.arm is Arm.SUBJECT)  # noqa: E731 - used once
    long = _judged(standing, pairs=9, change=lambda starts: _slowed(starts, drifting))
    assert {row.n for row in long.rows} == {3}
    said = [[guard for guard in judgement.guards if guard.guard != "order"] for judgement in (short, long)]
    assert said[0] == said[1]


def test_an_open_row_of_a_run_that_goes_on_says_that_more_is_wanted(standing):
    judgement = _judged(standing, sd=0.1)
    assert judgement.models_needing_pairs
    open_rows = [row for row in judgement.rows if row.verdict is RowVerdict.INCONCLUSIVE]
    assert open_rows
    assert all(row.text.endswith("; more pairs are wanted") for row in open_rows)


def test_a_drift_is_found_by_the_judge_itself(standing):
    plan = syn.plan(rows=RATES, looks=(9,), margin=0.10)
    warming = lambda s: 1 - 0.01 * s.pair * (s.arm is Arm.SUBJECT)  # noqa: E731 - used once
    judgement = _judged(standing, plan=plan, pairs=9, sd=0.005, change=lambda starts: _slowed(starts, warming))
    assert {guard.subject for guard in judgement.guards if guard.guard == "drift"} == {f"m/{row}" for row in RATES}


def test_a_void_row_without_a_number_keeps_its_name(standing):
    voids = {DECODE: syn.failed(Reason.VOID_CORRECTNESS, "token 3 differs")}
    row = next(row for row in _judged(standing, change=lambda starts: [], voids=voids).rows if row.row == DECODE)
    assert (row.verdict, row.n, row.text) == (RowVerdict.VOID, 0, "VOID_CORRECTNESS: token 3 differs")


def test_a_guard_that_cannot_tell_blocks_though_every_row_passes(standing):
    doubt = GuardFinding(guard="parity", effect="undecided", subject="m", text="no parity receipt")
    judgement = _judged(standing, parity=(doubt,))
    assert {row.verdict for row in judgement.rows} <= {RowVerdict.PASS, RowVerdict.IMPROVED}
    assert (judgement.outcome, judgement.reasons) == (Outcome.UNDECIDED, ("parity of m: no parity receipt",))
    well = _judged(standing, parity=(doubt.model_copy(update={"effect": "none"}),))
    assert well.outcome is Outcome.PASS


def test_a_new_epoch_is_the_run_s_and_asks_to_adopt(standing):
    held = standing.model_copy(update={"references": {}, "differences": ("host.gpu: 'A' became 'B'",)})
    judgement = _judged(held)
    assert [guard.subject for guard in judgement.guards if guard.guard == "epoch"] == ["run"]
    assert {row.text for row in judgement.rows} == {"no floor in this epoch; adopt one"}


def test_a_standing_is_written_as_plain_json(standing):
    form = standing_to_json(standing)
    assert form == json.loads(json.dumps(form))


# the ratchet


@pytest.mark.parametrize("state", list(RatchetState))
def test_what_blocks_blocks_in_every_state(state):
    """The table is made when the module is imported; made again, its part says the same."""
    made = _blocks(state)
    assert len(made) == 8
    assert made == {key: TABLE[key] for key in made}
    assert set(made.values()) == {Effect.BLOCK}


def _point(value, receipt, n, variance):
    return SimpleNamespace(release="1", receipt_sha256=receipt, value=value, n=n, ss=variance * (n - 1), df=n - 1)


def test_the_session_term_by_hand_with_sessions_of_one_two_and_many_pairs():
    """A session of one pair has a mean but no variance; one of two pairs has both; five and seven weigh 4 to 6."""
    rows, total = [], 0.0
    for sizes in ((1, 2, 3, 6, 9), (2, 2, 4, 5, 6, 7, 8)):
        means = np.linspace(0.0, 0.1, len(sizes)) ** 1.5
        variances = np.linspace(1e-5, 4e-5, len(sizes))
        rows.append([_point(m, str(i), n, v) for i, (m, n, v) in enumerate(zip(means, sizes, variances, strict=True))])
        within = np.mean([v / n for n, v in zip(sizes, variances, strict=True) if n > 1])
        total += (len(sizes) - 1) * (np.var(means, ddof=1) - within)
    assert session_sd(rows) == pytest.approx(math.sqrt(total / 10), rel=1e-12)


def test_sessions_of_one_pair_each_have_no_noise_to_take_away():
    single = [_point(mean, str(mean), 1, 0.0) for mean in (0.0, 0.01, 0.02, 0.03, 0.05)]
    assert session_sd([single]) == pytest.approx(np.std([point.value for point in single], ddof=1))

"""What the judge says, word for word, and the small rules behind a row's clause, each at its edge."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from lqw.errors import IntegrityError
from lqw.metrics import RowId
from lqw.metrics.digits import percent
from lqw.noise.rows import Call, Reference, RowBand, RowData, RowReferences
from lqw.outcomes import Outcome, Purpose, Reason, RowState, RowVerdict
from lqw.verdict.results import Confirmation, Counts, GuardFinding, SuiteResult, judgement_from_json, judgement_to_json
from lqw.verdict.rows import Judged, _too_good, row_result, unmeasured, void
from lqw.verdict.sentence import UNCONFIRMED, Findings, reasons_of, sentence_of
from tests.support import synthetic as syn

DECODE, TTFT, RSS = (RowId.parse(f"m/{short}") for short in ("decode", "ttft@512", "rss_peak"))
POLICY = syn.plan(margin=0.10).policy


def _reference(value=0.0, release="1.0.0", n=10):
    return Reference(value=value, n=n, ss=0.01, df=n - 1, release=release, receipt_sha256=release)


def _band(row=DECODE, *, delta=-0.2, floor=0.1, se=0.02, t_red=4.0, u_pass=2.8, call=Call.RED, red_by="floor", **more):
    return RowBand(
        row=row, look=0, n=3, estimate=floor + delta, s2=9e-4, v=11, sd=0.03, nu=12, floor=floor, delta_floor=delta,
        se_floor=se, t_red=t_red, u_pass=u_pass, threshold=-t_red * se, lower=delta - u_pass * se,
        band_fraction=-math.expm1(-t_red * se), call=call, red_by=red_by, **more,
    )  # fmt: skip


def _judged(band, *, last=None, purpose=Purpose.GATE, needing=False, floor=True, policy=POLICY, **more):
    data = RowData(band.row, (1, 2, 3), (-0.1, -0.11, -0.09), (90.0, 91.0, 92.0), (100.0, 101.0, 102.0))
    references = RowReferences(floor=_reference(band.floor) if floor else None, last=last)
    return Judged(data, band, references, policy, purpose, needing, **more)


def _said(band, **more):
    result = row_result(_judged(band, **more), None)
    return str(result.verdict), result.text


# a row's clause


def test_a_fall_below_the_floor_in_the_words_of_each_family():
    numbers = "(floor 1.11, band ±7.7 %, 3 pairs)"
    assert _said(_band()) == ("RED", f"is 0.82× what 1.0.0 had {numbers}")
    assert _said(_band(TTFT)) == ("RED", f"takes 1.22× what 1.0.0 took {numbers}")
    assert _said(_band(RSS)) == ("RED", f"needs 1.22× what 1.0.0 needed {numbers}")
    folded = _said(_band(folded=True))[1]
    assert folded == "is 0.82× what 1.0.0 had (floor 1.11 raised to the target it met, band ±7.7 %, 3 pairs)"


def test_a_fall_below_the_last_release_names_it():
    band = _band(red_by="last", last=0.2, delta_last=-0.3, se_last=0.03, t_last=4.1, threshold_last=-0.123)
    text = "is 0.74× what 1.4.0 had, the last release (limit 0.88, 3 pairs)"
    assert _said(band, last=_reference(0.2, "1.4.0")) == ("RED", text)


def _wanted_pairs(delta, *, n=3, floor=10, sd=0.03, u=2.8, tau=POLICY.tau, margin=0.10):
    for pairs in range(n + 1, 201):
        se = math.sqrt(sd * sd / pairs + sd * sd / floor + 2 * tau * tau)
        if delta - u * se > math.log(1 - margin):
            return pairs
    return None


@pytest.mark.parametrize("delta", [-0.03, -0.05, -0.06, -0.065, -0.08])
def test_an_open_row_says_what_cannot_be_excluded_and_how_many_pairs_would(delta):
    band = _band(delta=delta, call=Call.OPEN, red_by="")
    need = _wanted_pairs(delta)
    verdict, text = _said(band)
    loss = 1 - math.exp(delta - 2.8 * 0.02)
    assert verdict == "INCONCLUSIVE"
    tail = f"about {need} pairs would decide it" if need else "more pairs alone will not decide it"
    assert text.endswith(f": a loss of {percent(loss)} cannot be excluded, margin 10 %; {tail}")
    assert row_result(_judged(band), None).pairs_needed == need
    more = _said(band, needing=True)[1]
    assert more.endswith("margin 10 %; more pairs are wanted")


def test_pairs_needed_has_an_end_and_starts_at_one_more():
    assert {_wanted_pairs(d) for d in (-0.03, -0.08)} == {4, None}
    at_end = next(d / 1e5 for d in range(-8000, -6000) if _wanted_pairs(d / 1e5) is not None)
    assert _wanted_pairs(at_end) > 100
    for delta in (at_end, at_end - 1e-5):
        result = row_result(_judged(_band(delta=delta, call=Call.OPEN, red_by="")), None)
        assert result.pairs_needed == _wanted_pairs(delta)


def test_only_an_inconclusive_row_is_told_how_many_pairs():
    assert row_result(_judged(_band(delta=-0.03, call=Call.PASS, red_by="")), None).pairs_needed is None
    assert row_result(_judged(_band()), None).pairs_needed is None


def test_a_floor_being_measured_says_ratio_scatter_and_pairs():
    band = _band(delta=0.0, floor=0.1, call=Call.OPEN, red_by="")
    assert _said(band, purpose=Purpose.ADOPT) == ("NEW", "1.11× the comparator, pair SD 3.0 %, 3 pairs")


def test_no_floor_and_a_moved_comparator_come_before_the_row_itself():
    assert _said(_band(), floor=False, no_floor="none here") == ("MISSING_FLOOR", "none here")
    assert _said(_band(), suspect="it moved") == ("SUSPECT", "it moved")
    assert _said(_band(), floor=False, no_floor="none here", suspect="it moved")[0] == "MISSING_FLOOR"


@pytest.mark.parametrize(
    ("delta", "verdict"), [(0.0465, "PASS"), (0.04653, "IMPROVED"), (-0.01, "PASS"), (0.0, "PASS")]
)
def test_improved_begins_beyond_the_one_sided_99_percent_bound(delta, verdict):
    assert _said(_band(delta=delta, call=Call.PASS, red_by=""))[0] == verdict  # 2.326 × 0.02 = 0.04652


def test_a_row_too_good_says_so():
    verdict, text = _said(_band(delta=0.5, call=Call.PASS, red_by=""))
    assert verdict == "SUSPECT"
    assert (
        text
        == "is 1.65× what 1.0.0 had (floor 1.11, band ±7.7 %, 3 pairs): too good to be believed without a second look"
    )


QUARTER, MIRROR = math.log(1.25), -math.log(1 - 0.5)


@pytest.mark.parametrize(
    ("margin", "se", "t_red", "edge"),
    [
        (0.10, 0.05, 4.0, QUARTER),  # a quarter
        (0.50, 0.09, 4.0, MIRROR),  # the margin's own mirror image
        (0.10, 0.06, 4.0, 0.24),  # the row's own noise
        (0.10, 0.02, 4.0, 0.16),  # eight standard errors
        (0.10, 0.001, 4.0, -math.log1p(-0.01)),  # never less than δ
    ],
)
def test_too_good_begins_at(margin, se, t_red, edge):
    policy = SimpleNamespace(delta=0.01, margin=margin)
    for delta, suspect in ((edge - 1e-9, False), (edge + 1e-9, True)):
        assert _too_good(SimpleNamespace(delta_floor=delta, se_floor=se, t_red=t_red), policy) is suspect


def test_at_no_change_nothing_is_too_good():
    assert not _too_good(SimpleNamespace(delta_floor=0.0, se_floor=0.01, t_red=4.0), POLICY)


# rows without numbers


def test_a_row_without_numbers_keeps_its_reason():
    few, dead = syn.failed(Reason.TOO_FEW_PAIRS, "2 pairs"), syn.failed(Reason.ENGINE_DIED, "exit 139")
    missing, failed, voided = unmeasured(DECODE, few), unmeasured(DECODE, dead), void(DECODE, dead, None)
    assert (missing.state, missing.verdict) == (RowState.MISSING, RowVerdict.MISSING)
    assert (failed.state, failed.verdict) == (RowState.FAILED, RowVerdict.FAILED)
    assert (voided.state, voided.verdict, voided.n, voided.row) == (RowState.VOID, RowVerdict.VOID, 0, DECODE)
    assert [row.reason for row in (missing, failed, voided)] == [few, dead, dead]
    assert [row.text for row in (missing, failed)] == ["TOO_FEW_PAIRS: 2 pairs", "ENGINE_DIED: exit 139"]
    kept = void(DECODE, dead, _judged(_band()).data)
    assert (kept.n, kept.d, kept.reason, kept.text) == (3, (-0.1, -0.11, -0.09), dead, "ENGINE_DIED: exit 139")


# the sentence


def _row(short, verdict, text="text", **more):
    state = {"VOID": RowState.VOID, "FAILED": RowState.FAILED, "MISSING": RowState.MISSING}
    row = RowId.parse(f"m/{short}")
    return unmeasured(row, syn.failed(Reason.TIMEOUT)).model_copy(
        update={"state": state.get(verdict, RowState.MEASURED), "verdict": RowVerdict(verdict), "text": text, **more}
    )


def _found(*rows, suites=(), guards=(), problems=(), dropped=()):
    return Findings(problems, rows, suites, guards, dropped)


def _counts(measured=8):
    return Counts(planned=8, measured=measured, gating=8, void=0, failed=8 - measured)


def _guard(name, effect, text, subject="run"):
    return GuardFinding(guard=name, effect=effect, subject=subject, text=text)


def _sentence(outcome, found, purpose=Purpose.GATE, counts=None):
    return sentence_of(syn.plan(purpose, margin=0.10), outcome, found, counts or _counts())


def test_a_pass_names_the_weakest_row_and_what_improved():
    rows = [
        _row("decode", "PASS", gating=True, lower_ratio=0.95),
        _row("agg@1", "IMPROVED", gating=True, lower_ratio=0.93),
        _row("agg@4", "IMPROVED", gating=True, lower_ratio=1.05),
        _row("rss_peak", "NEW", gating=False, lower_ratio=0.5),
    ]
    start = "PASS: 8 of 8 rows of 1.1.0 hold their floors; the largest loss that cannot be excluded is "
    assert _sentence(Outcome.PASS, _found(*rows)) == (
        f"{start}7.0 % (m/agg@1), margin class D allows 10 %; improved: agg@1, agg@4."
    )
    assert _sentence(Outcome.PASS, _found(rows[0])) == f"{start}5.0 % (m/decode), margin class D allows 10 %."
    assert f"{start}0.0 % (m/agg@4)" in _sentence(Outcome.PASS, _found(rows[2]))


def test_rows_that_share_a_fate_are_said_once():
    rows = [_row(short, "VOID", "other tokens") for short in syn.DEMO_ROWS[:5]] + [_row("rss_peak", "FAILED", "died")]
    assert _sentence(Outcome.UNDECIDED, _found(*rows)) == (
        "UNDECIDED: 5 rows VOID (m/ttft@128, m/ttft@512, m/prefill@512 and 2 more): other tokens; "
        "FAILED: m/rss_peak: died."
    )
    two = _found(*rows[:2], rows[5])
    assert _sentence(Outcome.UNDECIDED, two).startswith("UNDECIDED: 2 rows VOID (m/ttft@128, m/ttft@512): other tokens")
    assert "(m/ttft@128, m/ttft@512, m/prefill@512): other" in _sentence(Outcome.UNDECIDED, _found(*rows[:3]))
    single_first = _found(_row("agg@1", "SHIFT", "moved"), *rows[:2])
    assert _sentence(Outcome.UNDECIDED, single_first).endswith("; 2 rows VOID (m/ttft@128, m/ttft@512): other tokens.")


@pytest.mark.parametrize(("purpose", "verb"), [(Purpose.GATE, "pass"), (Purpose.ADOPT, "make a floor")])
def test_zero_rows_never_pass_and_never_make_a_floor(purpose, verb):
    found = _found(_row("decode", "FAILED", "died"))
    assert _sentence(Outcome.UNDECIDED, found, purpose, _counts(0)) == (
        f"UNDECIDED: nothing valid was measured, and zero rows never {verb}; FAILED: m/decode: died."
    )
    assert "nothing valid" not in _sentence(Outcome.RED, found, purpose, _counts(0))


def test_reasons_stand_in_the_order_of_their_weight_and_the_sentence_names_three():
    suite = SuiteResult(family="rate", rows=3, mean_delta=math.log(0.9), se=0.01, threshold=math.log(0.97), red=True)
    rows = [
        _row("agg@4", "INCONCLUSIVE", "open"),
        _row("ttft@128", "SUSPECT", "moved", gating=True),
        _row("ttft@512", "MISSING_FLOOR", "none"),
        _row("agg@1", "SHIFT", "both fell", gating=True),
        _row("decode", "RED", "fell", gating=True),
        _row("rss_peak", "PASS"),
    ]
    guards = [
        _guard("integrity", "invalid", "told as a problem"),
        _guard("order", "invalid", "blocked"),
        _guard("null_control", "undecided", "cannot tell"),
        _guard("one_token_prefill", "red", "one by one", "m/ttft@512"),
        _guard("epoch", "undecided", "new epoch"),
        _guard("dispersion", "undecided", "loud"),
        _guard("comparator_history", "undecided", "told by its row", "m/ttft@128"),
        _guard("comparator_history", "undecided", "moved too", "m/rss_peak"),
        _guard("drift", "flag", "never a reason", "m/decode"),
    ]
    found = _found(*rows, suites=[suite], guards=guards, problems=["edited"], dropped=["m/agg@16"])
    reasons = (
        "edited",
        "blocked",
        "cannot tell",
        "one by one (m/ttft@512)",
        "decode of m fell",
        "the 3 rate rows together are at 0.900× their floors (RED below 0.970)",
        "new epoch",
        "too loud for a floor: loud; quiet the machine and measure again",
        "moved too",
        "m/agg@16 has a floor but is no longer measured: it needs a retire record",
        UNCONFIRMED,
        "SHIFT agg@1 of m both fell",
        "MISSING_FLOOR m/ttft@512: none",
        "SUSPECT ttft@128 of m moved",
        "INCONCLUSIVE m/agg@4: open",
    )
    assert reasons_of(found) == reasons
    assert _sentence(Outcome.INVALID, found) == "INVALID: edited; blocked; cannot tell; and 11 more."
    confirmed = dataclasses.replace(found, rows=[rows[4].model_copy(update={"confirmed": True})])
    assert UNCONFIRMED in reasons_of(confirmed)  # the family is not
    third = Confirmation(state="CONFIRMED", release="1.0.0", text="CONFIRMED in 7 tuples: 0.900×")
    both = dataclasses.replace(confirmed, suites=[suite.model_copy(update={"confirmation": third})])
    assert UNCONFIRMED not in reasons_of(both)
    assert any(reason.endswith("(RED below 0.970); CONFIRMED in 7 tuples: 0.900×") for reason in reasons_of(both))


def test_a_floor_says_rows_and_pairs():
    text = _sentence(Outcome.FLOOR, _found(), Purpose.ADOPT)
    assert text == "FLOOR: all 8 rows of 1.1.0 measured with 6 pairs each, nothing gated."


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda form: [], r"^judgement: not an object$"),
        (lambda form: {**form, "exit_status": 1}, r"^judgement: exit_status 1 is not that of FLOOR$"),
        (lambda form: {**form, "extra": 1}, r"^judgement: 1 validation error"),
    ],
)
def test_a_judgement_that_is_none_is_refused_in_words(spoil, text):
    form = judgement_to_json(syn.floor(np.random.default_rng(0))[0])
    with pytest.raises(IntegrityError, match=text):
        judgement_from_json(spoil(form))

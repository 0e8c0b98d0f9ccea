"""Which old build set a reference: asked of its own receipt before a batch is begun, and whenever one is verified."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from lqw.canonical import canonical_bytes, sha256_bytes
from lqw.collect import ThirdArm
from lqw.collect.arms import Site
from lqw.collect.batch import ConfirmBatch
from lqw.errors import IntegrityError, UsageError
from lqw.metrics import Family
from lqw.outcomes import Arm, BatchArm, Purpose, RowVerdict
from lqw.params import EngineSpec
from lqw.ratchet import parse_baseline
from lqw.receipt import verify_receipt
from lqw.receipt.beside import held_beside
from lqw.receipt.inputs import standing_for
from lqw.receipt.thirdarm import (
    _answered,
    _asks,
    _ran,
    _rests_on,
    build_of,
    build_problems,
    declared_build,
    refuse_foreign,
    without_batch,
)
from lqw.testing.params import name_sha256
from lqw.testing.receipts import adopt_floor, receipt_of
from lqw.testing.synthetic import synthetic_params, synthetic_run
from lqw.verdict.results import SuiteResult

SPEC = {"engine": "fake", "sha256": "a" * 64, "settings": {"threads": 2}, "env": {"X": "1"}}
BUILD = {"engine": "fake", "binary_sha256": "a" * 64, "settings": {"threads": 2}, "env": {"X": "1"}}


def _receipt(starts=(), **changed):
    return {"header": {"params": {"release": {"subject": {**SPEC, **changed}}}}, "starts": list(starts)}


def _start(arm, binary):
    return {"arm": arm, "engine": None if binary is None else {"binary_sha256": binary}}


def test_a_receipts_build_is_what_ran_as_its_subject_and_else_what_was_declared():
    assert build_of(_receipt()) == BUILD
    ran = [_start(Arm.COMPARATOR, "c" * 64), _start(Arm.SUBJECT, None), _start(Arm.SUBJECT, "b" * 64)]
    assert build_of(_receipt(ran)) == {**BUILD, "binary_sha256": "b" * 64}
    bare = {"header": {"params": {"release": {"subject": {"engine": "fake"}}}}, "starts": []}
    assert build_of(bare) == {"engine": "fake", "binary_sha256": None, "settings": {}, "env": {}}
    assert declared_build(EngineSpec.model_validate({"engine": "fake", **SPEC})) == BUILD
    with pytest.raises(IntegrityError, match="not a receipt: KeyError"):
        build_of({})


def _batch(starts=(), **earlier):
    return SimpleNamespace(declared=SimpleNamespace(earlier=earlier), starts=starts)


def _ran_as(arm, release, binary):
    engine = None if binary is None else SimpleNamespace(binary_sha256=binary)
    return SimpleNamespace(arm=arm, release=release, engine=engine)


def test_what_stood_for_a_release_in_a_batch_is_what_ran_under_its_name():
    starts = [
        _ran_as(BatchArm.CANDIDATE, "old", "c" * 64),
        _ran_as(BatchArm.EARLIER, "older", "d" * 64),
        _ran_as(BatchArm.EARLIER, "old", None),
        _ran_as(BatchArm.EARLIER, "old", "b" * 64),
    ]
    assert _ran(_batch(starts, old=SPEC), "old") == {**BUILD, "binary_sha256": "b" * 64}
    assert _ran(_batch(old=SPEC), "old") == BUILD
    assert _ran(_batch(), "old") == {"engine": None, "binary_sha256": None, "settings": {}, "env": {}}


ASKED = SimpleNamespace(state="CONFIRMED")


def _row(name, *, family=Family.RATE, gating=True, verdict=RowVerdict.PASS, red_by="floor", told=None, band=True):
    return SimpleNamespace(
        row=name, family=family, gating=gating, verdict=verdict, confirmation=told, confirm_with=told and "old",
        band=SimpleNamespace(red_by=red_by) if band else None,
    )  # fmt: skip


def _suite(family, *, red=True, confirmation=ASKED):
    return SuiteResult.model_construct(family=family, red=red, confirmation=confirmation)


def _references(*names):
    def point(name, kind):
        return SimpleNamespace(release=f"{kind} of {name}", receipt_sha256="1" * 64)

    both = {name: SimpleNamespace(floor=point(name, "floor"), last=point(name, "last")) for name in names}
    return SimpleNamespace(references=both)


def _rest(rows, suites=(), told=_answered, standing=None):
    judgement = SimpleNamespace(rows=rows, suites=suites)
    names = [row.row for row in rows if row.row != "unknown"]
    return [release for release, _ in _rests_on(judgement, standing or _references(*names), told)]


@pytest.mark.parametrize("told", [_answered, _asks])
def test_a_confirmation_rests_on_the_reference_that_a_row_was_red_by_and_a_family_on_every_floor(told):
    rows = [
        _row("unknown", told=ASKED),
        _row("a", told=ASKED),
        _row("b", told=ASKED, red_by="last"),
        _row("c", told=ASKED, band=False),
        _row("d"),
    ]
    assert _rest(rows, told=told) == ["floor of a", "last of b", "floor of c"]
    family = [
        _row("a"),
        _row("b", gating=False),
        _row("c", verdict=RowVerdict.SUSPECT),
        _row("d", family=Family.MEMORY),
        _row("e", told=ASKED, red_by="last"),
    ]
    assert _rest(family, [_suite(Family.RATE)], told) == ["floor of a", "floor of e", "last of e"]
    none = SimpleNamespace(references={"a": SimpleNamespace(floor=None, last=None)})
    assert _rest([_row("a", told=ASKED)], told=told, standing=none) == []


def test_what_was_not_measured_rests_on_nothing_and_what_is_not_red_asks_for_nothing():
    lacking = SimpleNamespace(state="NOT MEASURED")
    assert _rest([_row("a", told=lacking)], [_suite(Family.RATE, confirmation=lacking)]) == []
    assert _rest([_row("a")], [_suite(Family.RATE, confirmation=None)]) == []
    assert _rest([_row("a")], [_suite(Family.RATE, red=False)], _asks) == []


def _two(first, second):
    """Judge a batch that rests on two releases, whose receipts are these bytes."""
    rows = [_row(name, told=ASKED) for name in "ab"]
    standing = _references("a", "b")
    held = {"floor of a": first, "floor of b": second}
    batch = _batch(**dict.fromkeys(held, SPEC))
    return build_problems(
        batch, SimpleNamespace(rows=rows, suites=()), standing, lambda release, _sha256: held[release]
    )


def test_every_release_that_a_batch_rests_on_is_looked_at():
    other = canonical_bytes(_receipt(env={"X": "2"}))
    assert _two(canonical_bytes(_receipt()), canonical_bytes(_receipt())) == ([], "")
    for unknown, words in (
        (None, "the receipt of floor of a (111111111111), which says what build set the reference, is not beside it"),
        (b"{", "the receipt of floor of a"),
        (b"{}", "not a receipt"),
    ):
        problems, why = _two(unknown, other)
        assert [one.field for one in problems] == ["batch.earlier.floor of b.env"]
        assert why.startswith("the third arm does not count: ")
        assert words in why
    problems, why = _two(other, canonical_bytes(_receipt(settings={})))
    assert [one.field for one in problems] == ["batch.earlier.floor of a.env", "batch.earlier.floor of b.settings"]
    assert (problems[0].recorded, problems[0].recomputed, why) == ({"X": "1"}, {"X": "2"}, "")


def test_a_verdict_without_its_batch_says_why_once_and_first():
    class Alone(SimpleNamespace):
        def model_copy(self, *, update):
            return update

    alone = Alone(outcome="RED", sentence="RED: slow", reasons=("slow",))
    assert without_batch(alone, "no") == {"sentence": "RED: no; slow", "reasons": ("no", "slow")}


# before a batch is begun ----------------------------------------------------------------------------------------------

CANDIDATE = synthetic_params(rows=("ttft@16", "decode"), release="1.1.0", repeats=1)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """Return a RED run's judgement and standing, and the search in its store."""
    params = synthetic_params(rows=("ttft@16", "decode"), release="1.0.0", repeats=1)
    store = adopt_floor(tmp_path_factory.mktemp("store"), params, sd=0.02)
    run = synthetic_run(CANDIDATE, Purpose.GATE, seed=3, effects={"ttft@16": 1.6}, sd=0.02)
    place = store.baseline(CANDIDATE.host.name)
    standing = standing_for(parse_baseline(place.read_bytes()), run.header, run.starts)
    return SimpleNamespace(
        run=run,
        judgement=verify_receipt(receipt_of(run, store)).judgement,
        standing=standing,
        find=held_beside(place),
        spec=params.release.subject.model_copy(update={"sha256": name_sha256("binary", "subject")}),
    )


def _declared(red, *, spec=None, find=None):
    """Declare a batch beside 1.0.0; return what was written, who claimed, and what was refused."""
    written, claims, tally = [], [], SimpleNamespace(batch_refused=None)
    looks = SimpleNamespace(
        judgement=lambda _voids: red.judgement, standing=red.standing, header=red.run.header, tally=tally,
        starts=dict(enumerate(red.run.starts)), append=written.append, note=str,
    )  # fmt: skip
    site = Site(**{field.name: None for field in fields(Site)} | {"params": CANDIDATE})
    third = ThirdArm({"1.0.0": spec or red.spec}, lambda *who: claims.append(who), dict, find or red.find)
    ConfirmBatch(site, looks, third, None, {})._declare()
    return written, claims, tally.batch_refused


def test_a_batch_is_begun_beside_the_build_of_the_very_receipt_that_set_the_reference(red):
    (record,), claims, refused = _declared(red)
    assert (sorted(record.earlier), len(claims), refused) == (["1.0.0"], 1, None)
    (where,) = {(one.floor.release, one.floor.receipt_sha256) for one in red.standing.references.values()}
    assert sha256_bytes(red.find(*where)) == where[1]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"sha256": "f" * 64}, "binary_sha256"), ({"settings": {"x": 1}}, "settings"), ({"env": {"x": "1"}}, "env")],
)
def test_another_build_spends_no_batch(red, change, field):
    written, claims, refused = _declared(red, spec=red.spec.model_copy(update=change))
    assert (written, claims) == ([], [])
    assert f"another build of 1.0.0 than set the reference: {field} not as in the receipt of 1.0.0" in refused
    assert "then --resume" in refused


def test_a_reference_whose_receipt_is_gone_or_none_spends_no_batch(red):
    for content, words in ((None, "is not in the store"), (b"{}", "not a receipt"), (b"{", "the receipt of 1.0.0")):
        written, claims, refused = _declared(red, find=lambda *_: content)  # noqa: B023
        assert (written, claims, words in refused) == ([], [], True), refused


def test_a_release_that_no_file_names_is_not_looked_for(red):
    with pytest.raises(UsageError, match="not in the store") as caught:
        refuse_foreign(red.judgement, red.standing, {"1.0.0": red.spec}, lambda *_: None)
    assert caught.value.remedy == "bring it back from git, then --resume"
    refuse_foreign(red.judgement, red.standing, {}, lambda *_: None)
    rows = [_row(name, told=ASKED) for name in "ab"]
    asking, standing = SimpleNamespace(rows=rows, suites=()), _references("a", "b")
    with pytest.raises(UsageError, match=r"the receipt of floor of b \(1{12}\), which"):
        refuse_foreign(asking, standing, {"floor of b": red.spec}, lambda *_: None)
    other = canonical_bytes(_receipt(env={"X": "2"}, settings={}))
    with pytest.raises(UsageError, match="reference: settings, env not as in"):
        refuse_foreign(asking, standing, {"floor of b": EngineSpec.model_validate(SPEC)}, lambda *_: other)

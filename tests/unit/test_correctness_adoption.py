"""Adopting a token reference: from a run, beside what the host holds, and by hand from the command line."""

import json
import os
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lqw.canonical import canonical_bytes, sha256_bytes
from lqw.cli.reference import app
from lqw.correctness import IdentityTask, adopt_reference, model_sha256, reference_from
from lqw.errors import Exit, ParamsError, UsageError
from lqw.outcomes import Purpose
from lqw.samples import Answer, Header, HostFacts, IdentityRecord

SHA = "ab" * 32
PROMPTS = {"code": "def f(x):"}


def task(release="1.0.0", models=("m",), prompts=PROMPTS, sha=SHA):
    return IdentityTask(dict.fromkeys(models, sha), "box", release, prompts, output_tokens=4, repeats=2)


def record(ids=(1, 2, 3, 4), model="m", prompts=PROMPTS):
    answers = [
        Answer(prompt=p, shape="single", repeat=r, ids=list(ids), text="four good words here", finish="limit")
        for p in prompts
        for r in range(2)
    ]
    return IdentityRecord(model=model, position=0, started_utc="x", wall_s=1.0, answers=answers)


HELD = reference_from([record()], [], task=task())


def test_the_first_adoption_takes_all():
    adoption = adopt_reference(None, HELD)
    assert (adoption.reference, adoption.added, adoption.refused) == (HELD, ("m",), {})


def test_equal_answers_of_a_later_release_leave_the_reference_as_it_is():
    adoption = adopt_reference(HELD, reference_from([record()], [], task=task("1.1.0")))
    assert (adoption.reference, adoption.kept, adoption.added) == (HELD, ("m",), ())


def test_changed_answers_are_refused_and_the_held_ones_stay():
    adoption = adopt_reference(HELD, reference_from([record([1, 2, 9, 4])], [], task=task("1.1.0")))
    assert adoption.reference == HELD
    assert adoption.refused.keys() == {"m"}
    assert "code (single): token 2 differs" in adoption.refused["m"]


def test_a_new_model_joins_and_each_names_its_own_release():
    both = reference_from([record(), record(model="n")], [], task=task("1.1.0", ("m", "n")))
    adoption = adopt_reference(HELD, both)
    assert (adoption.added, adoption.kept) == (("n",), ("m",))
    assert {name: m.release for name, m in adoption.reference.models.items()} == {"m": "1.0.0", "n": "1.1.0"}


def test_a_model_that_the_run_did_not_have_stays_and_other_bytes_are_another_model():
    only_n = reference_from([record(model="n")], [], task=task("1.1.0", ("n",)))
    assert set(adopt_reference(HELD, only_n).reference.models) == {"m", "n"}
    other = reference_from([record([9, 9, 9, 8])], [], task=task("1.1.0", sha="cd" * 32))
    assert adopt_reference(HELD, other).added == ("m",)


def test_other_prompts_replace_the_whole_reference():
    prompts = {"code": "def g(x):"}
    new = reference_from([record([7, 8, 9, 10], prompts=prompts)], [], task=task("2.0.0", prompts=prompts))
    assert adopt_reference(HELD, new).reference == new


def test_a_missing_answer_is_a_difference():
    two = {"code": "def f(x):", "prose": "Once"}
    held = reference_from([record(prompts=two)], [], task=task(prompts=two))
    less = held.model_copy(update={"models": {"m": HELD.models["m"]}})
    assert adopt_reference(held, less).refused["m"] == "prose (single): no such answer now"


# the command line


def journal(folder, ids=(1, 2, 3, 4), release="1.0.0"):
    host = HostFacts(name="box", cpu_model="c", cores=2, ram_gib=8, kernel="k", python="3")
    params = {
        "protocol": {"identity": {"output_tokens": 4, "repeats": 2}},
        "host": {"name": "box"},
        "release": {"release": release},
        "prompts": PROMPTS,
    }
    header = Header(
        run_id="r", purpose=Purpose.ADOPT, started_utc="x", plan={}, plan_sha256="", params=params, host=host,
        models={"m": SHA}, lqw_version="0", lqw_source_sha256="",
    )  # fmt: skip
    folder.mkdir()
    lines = [canonical_bytes(r.model_dump(mode="json", by_alias=True)) for r in (header, record(ids))]
    (folder / "samples.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return folder


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_adopt_writes_the_reference_and_show_prints_it(tmp_path):
    done = call("adopt", journal(tmp_path / "run"), "--store", tmp_path / "store")
    assert (done.exit_code, done.output) == (0, "adopted: m, answers of release 1.0.0\n")
    assert json.loads((tmp_path / "store/box/reference.json").read_bytes())["release"] == "1.0.0"
    shown = call("show", "box", "--store", tmp_path / "store").output
    assert "release 1.0.0" in shown
    assert "'four good words here'" in shown


def test_adopting_changed_answers_is_exit_1_and_leaves_the_file_alone(tmp_path):
    call("adopt", journal(tmp_path / "one"), "--store", tmp_path)
    before = (tmp_path / "box/reference.json").read_bytes()
    again = call("adopt", journal(tmp_path / "two", [1, 2, 3, 5], "1.1.0"), "--store", tmp_path)
    assert again.exit_code == 1
    assert "REFUSED: m: code (single): token 3 differs" in again.output
    assert (tmp_path / "box/reference.json").read_bytes() == before


@pytest.mark.parametrize("outcome", ["RED", "INVALID"])
def test_a_red_run_sets_no_reference(tmp_path, monkeypatch, outcome):
    run = journal(tmp_path / "run")
    (run / "receipt.json").write_text("{}")
    if outcome == "RED":
        monkeypatch.setattr("lqw.receipt.verify_receipt", lambda _path: SimpleNamespace(outcome="RED"))
    done = call("adopt", run, "--store", tmp_path / "store")
    assert isinstance(done.exception, UsageError)
    assert f"receipt.json: {outcome}" in done.exception.message
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("words", [("adopt", "garbage"), ("show", "box")])
def test_nothing_to_adopt_and_nothing_to_show_are_exit_2(tmp_path, words):
    journal(tmp_path / "garbage", [7])
    path = tmp_path / words[1] if words[0] == "adopt" else words[1]
    error = call(words[0], path, "--store", tmp_path / "store").exception
    assert isinstance(error, UsageError)
    assert error.exit_status is Exit.USAGE
    assert not (tmp_path / "store").exists()


# a change of numerics, by record


REASON = (
    "The attention kernel of 1.1.0 sums the heads in another order, which is neither better nor worse: the reference "
    "implementation agrees with the new tokens in every prompt, perplexity on the held-out text moved by less than one "
    "part in ten thousand, and the cosine record of the host passed with its usual margin."
)


@pytest.fixture
def signed(tmp_path, monkeypatch):
    """A host that holds 1.0.0, a run of 1.1.0 with other tokens and a receipt, and the record that fits both."""
    call("adopt", journal(tmp_path / "one"), "--store", tmp_path)
    run = journal(tmp_path / "two", [1, 2, 3, 5], "1.1.0")
    (run / "receipt.json").write_bytes(b"{}")
    monkeypatch.setattr("lqw.receipt.verify_receipt", lambda _path: SimpleNamespace(outcome="UNDECIDED"))
    new = reference_from([record([1, 2, 3, 5])], [], task=task("1.1.0"))
    form = {
        "schema": "lqw-reference-rebase/1", "host": "box", "model": "m", "held_sha256": model_sha256(HELD.models["m"]),
        "new_sha256": model_sha256(new.models["m"]), "reason": REASON, "evidence_receipt_sha256": sha256_bytes(b"{}"),
        "author": "Ada Byron", "approver": "Grace Hopper", "created": "2026-01-05",
    }  # fmt: skip

    def rebase(**changes):
        (tmp_path / "record.json").write_text(json.dumps({**form, **changes}), encoding="utf-8")
        return call("rebase", run, tmp_path / "record.json", "--store", tmp_path)

    return rebase


def test_a_signed_record_replaces_the_answers_and_is_kept(tmp_path, signed):
    done = signed()
    assert (done.exit_code, done.output.startswith("rebased: m, answers of release 1.1.0")) == (0, True)
    held = json.loads((tmp_path / "box/reference.json").read_bytes())["models"]["m"]
    assert held["shapes"]["single"]["code"]["ids"] == [1, 2, 3, 5]
    assert (tmp_path / "box/records/reference-m-1.1.0.json").read_bytes() == (tmp_path / "record.json").read_bytes()
    assert isinstance(signed().exception, ParamsError), "a record is good for one change"
    (tmp_path / "two/receipt.json").unlink()  # it is none, and its run would be refused
    assert call("adopt", tmp_path / "two", "--store", tmp_path).exit_code == 0, "the new answers are now the held ones"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": "other"}, "host = 'other'"),
        ({"model": "n"}, "holds no answers of it"),
        ({"held_sha256": "0" * 64}, "the hash of the answers held is"),
        ({"new_sha256": "0" * 64}, "the hash of the run's answers is"),
        ({"evidence_receipt_sha256": "0" * 64}, "the hash of the run's receipt is"),
        ({"reason": "faster"}, "reason"),
        ({"reason": "x " * 200}, "20 different words"),
        ({"approver": "ada byron"}, "two people"),
        ({"created": "yesterday"}, "yesterday"),
        ({"schema": "lqw-rebase/1"}, "schema"),
    ],
)
def test_a_record_that_fits_nothing_changes_nothing(tmp_path, signed, change, words):
    before = (tmp_path / "box/reference.json").read_bytes()
    error = signed(**change).exception
    assert isinstance(error, ParamsError)
    assert words in str(error)
    assert (tmp_path / "box/reference.json").read_bytes() == before
    assert not (tmp_path / "box/records").exists()


@pytest.mark.usefixtures("signed")
def test_refused_answers_print_the_hashes_a_record_needs(tmp_path):
    (tmp_path / "two/receipt.json").unlink()
    again = call("adopt", tmp_path / "two", "--store", tmp_path)
    assert f"held_sha256 {model_sha256(HELD.models['m'])}" in again.output


@pytest.mark.parametrize("outcome", ["RED", "INVALID"])
def test_a_receipt_that_is_red_or_does_not_verify_is_no_evidence(tmp_path, signed, monkeypatch, outcome):
    before = (tmp_path / "box/reference.json").read_bytes()
    monkeypatch.setattr("lqw.receipt.verify_receipt", lambda _path: SimpleNamespace(outcome=outcome))
    error = signed().exception
    assert isinstance(error, UsageError)
    assert f"receipt.json: {outcome}" in str(error)
    assert (tmp_path / "box/reference.json").read_bytes() == before
    assert not (tmp_path / "box/records").exists()


def test_killed_between_record_and_reference_the_same_command_ends_it(tmp_path, signed, monkeypatch):
    before = (tmp_path / "box/reference.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(
            "lqw.correctness.reference_to_json", lambda _reference: os.abort
        )  # no JSON: dies before the write
        assert signed().exit_code != 0
    assert (tmp_path / "box/reference.json").read_bytes() == before
    assert [path.name for path in (tmp_path / "box/records").iterdir()] == ["reference-m-1.1.0.json"]
    assert signed().exit_code == 0
    held = json.loads((tmp_path / "box/reference.json").read_bytes())["models"]["m"]
    assert held["release"] == "1.1.0"


def test_a_run_without_receipt_is_no_evidence(tmp_path, signed):
    (tmp_path / "two/receipt.json").unlink()
    assert isinstance(signed().exception, UsageError)

"""Opening a run from a notebook's parameters, and the run folder itself."""

import shutil
from pathlib import Path

import pytest

from lqw.canonical import canonical_bytes
from lqw.errors import IntegrityError, NothingMeasured, ParamsError, RatchetRed, Undecided, UsageError
from lqw.outcomes import Outcome, Purpose
from lqw.params import load_params
from lqw.pipeline import gate, steps
from lqw.pipeline.artefacts import read_artefact, write_artefact
from lqw.pipeline.begin import begin
from lqw.pipeline.gate import Order, prepare, replay_into
from lqw.pipeline.kernels import SCRUBBED, kernel_environment
from lqw.pipeline.runs import Folder, new_run_id, own_store, read_run, repository_root
from lqw.pipeline.shown import Table
from lqw.testing.synthetic import synthetic_params, synthetic_run
from lqw.verdict import Counts, Judgement

ROOT = Path(__file__).parents[2]
PARAMS = str(ROOT / "params/demo/1.1.0.yaml")


@pytest.fixture
def replayed(tmp_path):
    journal = synthetic_run(synthetic_params(), Purpose.GATE).write(tmp_path / "source")
    replay_into(Folder(tmp_path / "run"), journal, tmp_path / "store")
    return tmp_path / "run"


def test_notebook_10_can_start_a_run_of_its_own(tmp_path):
    run = begin("10_collect", run_dir=str(tmp_path / "r"), params_file=PARAMS, store=str(tmp_path / "s"))
    assert (run.info.purpose, run.info.run_id, run.params.release.release) == (Purpose.GATE, "r", "1.1.0")
    assert begin("10_collect", run_dir=str(tmp_path / "r")).info == run.info  # by run_dir alone
    assert "1.1.0" in repr(run)
    assert '<th scope="row">release</th>' in run._repr_html_()


@pytest.mark.parametrize(
    ("field", "value"),
    [("run_dir", 3), ("run_dir", ""), ("run_dir", None), ("purpose", "bless"), ("host", True), ("params_file", 1.5)],
)
def test_ill_typed_parameters_are_named(tmp_path, field, value):
    given = {"run_dir": str(tmp_path / "r"), "params_file": PARAMS, field: value}
    with pytest.raises(ParamsError) as err:
        begin("10_collect", **given)
    assert err.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_a_later_stage_starts_nothing(tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        begin("20_correctness", run_dir=str(tmp_path / "r"), params_file=PARAMS)


@pytest.mark.parametrize(("field", "value"), [("purpose", "adopt"), ("host", "other"), ("store", "elsewhere")])
def test_parameters_that_contradict_the_run_are_refused(replayed, field, value):
    begin("20_correctness", run_dir=str(replayed))
    with pytest.raises(ParamsError, match="this run has"):
        begin("20_correctness", run_dir=str(replayed), **{field: value})


def test_a_replay_is_judged_by_the_params_in_its_journal(replayed):
    run = begin("30_noise_band", run_dir=str(replayed))
    assert run.params == synthetic_params()
    assert run.info.replayed is not None


def test_artefacts_are_bound_to_their_inputs(replayed):
    folder, info = read_run(replayed)
    write_artefact(folder, "20_correctness", info.run_id, {"x": 1}, inputs=["samples.jsonl"])
    assert read_artefact(folder, "20_correctness", info.run_id)["x"] == 1
    with folder.journal.open("a") as out:
        out.write("\n")
    with pytest.raises(IntegrityError, match="has changed"):
        read_artefact(folder, "20_correctness", info.run_id)


def test_a_run_file_of_another_shape_is_refused(tmp_path):
    (tmp_path / "run.json").write_bytes(canonical_bytes({"schema": "lqw-run/1", "run_id": 1}))
    with pytest.raises(IntegrityError, match=r"run\.json"):
        read_run(tmp_path)


def test_results_are_cleared_and_the_journal_stays(replayed):
    folder, _ = read_run(replayed)
    (replayed / "report.html").write_text("")
    folder.clear_results()
    assert {path.name for path in replayed.iterdir()} == {"run.json", "samples.jsonl"}


def test_run_ids_are_safe_names_and_differ():
    one, other = new_run_id("1.0/../x"), new_run_id("1.0/../x")
    assert one != other
    assert "/" not in one


def test_the_root_is_above_params():
    assert repository_root(PARAMS) == ROOT


@pytest.mark.parametrize("link", ["runs", "runs/receipts", "runs/receipts/demo"])
def test_a_store_behind_a_link_out_of_the_repository_is_refused_by_name(tmp_path, link):
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "params", root / "params")
    params = root / "params/demo/1.1.0.yaml"
    (root / "inside").mkdir()
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(root / "inside")
    assert own_store(load_params(params)) == root / "runs/receipts", "a link that stays inside is no way out"
    (root / link).unlink()
    (root / link).symlink_to(tmp_path)
    for start in (
        lambda: begin("10_collect", run_dir=str(tmp_path / "r"), params_file=str(params)),
        lambda: prepare(Order(params, Purpose.GATE)),
    ):
        with pytest.raises(ParamsError, match="leads out of") as err:
            start()
        assert (err.value.field, err.value.file) == ("receipts", str(root / "params/hosts/demo.yaml"))
        assert "--store" in err.value.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repository"]


def test_the_kernel_environment_is_scrubbed_and_marked(monkeypatch, tmp_path):
    for name in SCRUBBED:
        monkeypatch.setenv(name, "x")
    env = kernel_environment("mark", tmp_path)
    assert [name for name in SCRUBBED if env.get(name) == "x"] == []
    assert (env["LQW_RUN_ID"], env["IPYTHONDIR"]) == ("mark", str(tmp_path / "ipython"))


def judged(outcome, measured=8):
    counts = Counts(planned=8, measured=measured, gating=measured, void=0, failed=8 - measured)
    return Judgement(
        purpose=Purpose.GATE, release="1", outcome=outcome, sentence="so", reasons=("why",), counts=counts, rows=()
    )


@pytest.mark.parametrize(
    ("outcome", "measured", "error"),
    [
        (Outcome.RED, 8, RatchetRed),
        (Outcome.RED, 0, RatchetRed),
        (Outcome.UNDECIDED, 8, Undecided),
        (Outcome.UNDECIDED, 0, NothingMeasured),
        (Outcome.INVALID, 8, IntegrityError),
        (Outcome.INVALID, 0, IntegrityError),
        (Outcome.INCOMPLETE, 8, IntegrityError),
        (Outcome.PASS, 0, NothingMeasured),  # zero rows never pass, whatever was said
    ],
)
def test_conclude_raises_for_everything_but_pass_and_floor(outcome, measured, error):
    with pytest.raises(error) as err:
        steps.conclude(judged(outcome, measured))
    assert type(err.value) is error
    assert "rows: planned 8" in str(err.value)


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.FLOOR])
def test_conclude_prints_what_passed(outcome, capsys):
    steps.conclude(judged(outcome))
    assert "rows: planned 8, measured 8" in capsys.readouterr().out


def test_tables_are_text_and_escaped_html():
    table = Table("C", ("a", "b"), (("<x>", "1"),))
    assert repr(table).splitlines() == ["C", "a    b", "<x>  1"]
    assert '<th scope="row">&lt;x&gt;</th><td>1</td>' in table._repr_html_()
    assert repr(Table("C", ("a",), ())) == "C: nothing"


@pytest.mark.parametrize(
    "err", [ValueError("No template sub-directory with name 'base'"), OSError(28, "No space left")]
)
def test_a_page_that_cannot_be_made_is_a_note_and_no_end_of_the_run(replayed, monkeypatch, err):
    def cannot(*_, **__):
        raise err

    monkeypatch.setattr("lqw.report.render", cannot)
    page, notes = gate._report(Folder(replayed), ())
    assert page is None
    assert notes == (f"no report: {type(err).__name__}: {err}",)

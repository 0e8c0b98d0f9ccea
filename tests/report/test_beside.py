"""Engines beside in receipt, page, summary and terminal: shown with value or reason, and of no weight at all."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from lqw.outcomes import Outcome, Purpose, Reason
from lqw.params import BesideSpec
from lqw.receipt import verify_receipt
from lqw.report.beside import beside_tables
from lqw.report.gather import gather_receipt
from lqw.report.html import page_html
from lqw.report.markdown import summary_md
from lqw.report.terminal import print_facts
from lqw.samples import BesideRecord, Failure
from lqw.testing.synthetic import synthetic_run
from tests.report.fakes import MODEL, floor_of, make_params, make_receipt, resealed

NAMES = ("ollama", "vllm", "later")
SAID = "GGUF model with architecture <qwen35> is not supported yet."


@pytest.fixture(scope="module")
def receipt():
    """A PASS whose params declare three engines: one measured, one that cannot load the model, one not reached."""
    params = make_params()
    specs = [BesideSpec(name=name, engine="ollama" if name == "later" else name) for name in NAMES]
    params = params.model_copy(update={"release": params.release.model_copy(update={"beside": specs})})
    run = synthetic_run(params, Purpose.GATE, sd=0.03, seed=3)
    launches = range(len(params.protocol.launches))
    last = 1 + max(one.position for one in (*run.starts, *run.identities))
    besides = [_beside(run, "ollama", launch, last + launch) for launch in launches]
    why = Failure(reason=Reason.UNSUPPORTED, detail=SAID)
    besides += [
        _beside(run, "vllm", launch, last + 9 + launch, failure=why, engine=None, requests=[], memory=None)
        for launch in launches
    ]
    return make_receipt(params, run, floor_of(make_params("1.0.0")), besides)


def _beside(run, name, launch, position, **other):
    start = next(one for one in run.starts if one.launch == launch)
    value = start.model_dump(exclude={"kind", "pair", "arm"})
    return BesideRecord.model_validate({**value, "name": name, "position": position, **other})


@pytest.fixture(scope="module")
def facts(receipt, tmp_path_factory):
    path = tmp_path_factory.mktemp("beside") / "1.1.0.json"
    path.write_bytes(resealed(receipt))
    return gather_receipt(path)


def test_the_receipt_carries_them_and_its_verdict_does_not(receipt):
    checked = verify_receipt(resealed(receipt))
    assert checked.problems == ()
    assert checked.outcome is Outcome.PASS
    without = verify_receipt(resealed({key: value for key, value in receipt.items() if key != "beside"}))
    assert without.judgement == checked.judgement
    assert not [row for row in checked.judgement.rows if row.row.model != MODEL]


def test_every_planned_row_has_a_value_or_a_reason(facts):
    (table,) = beside_tables(facts)
    assert table.heads == ("row", "subject", "comparator", *NAMES)
    assert [cells[0] for cells in table.cells] == [row.short for row in facts.planned]
    for cells in table.cells:
        assert "×)" in cells[3]
        assert cells[4:] == ("† UNSUPPORTED", "not measured")
    assert table.reasons == (f"vllm: UNSUPPORTED: {SAID}",)


def test_ratios_are_above_one_where_it_is_better(facts):
    (table,) = beside_tables(facts)
    slower = replace(facts, besides=tuple(_slowed(one) for one in facts.besides))
    (worse,) = beside_tables(slower)
    for before, after in zip(table.cells, worse.cells, strict=True):
        if before[0].startswith(("ttft", "prefill", "decode")):
            assert _ratio(after[3]) < _ratio(before[3]), before[0]


def _slowed(record):
    asked = [
        one.model_copy(update={"ttft_ns": 2 * one.ttft_ns, "gaps_ns": [2 * gap for gap in one.gaps_ns]})
        for one in record.requests
    ]
    return record.model_copy(update={"requests": asked})


def _ratio(cell):
    return float(cell.rpartition("(")[2].partition("×")[0])


def test_page_summary_and_terminal_show_them_as_not_gating(facts):
    page = page_html(facts)
    section = page[page.index('id="beside"') :]
    section = section[: section.index("</section>")]
    assert "not gating" in section
    assert "UNSUPPORTED" in section
    assert "&lt;qwen35&gt;" in section  # an engine's words are text, never markup
    assert "No further engine" not in page
    assert "Beside, measured and not gating: ollama, vllm, later" in summary_md(facts)
    out = io.StringIO()
    print_facts(facts, Console(file=out, width=120))
    assert "Beside, not gating: gemma3-270m" in out.getvalue()
    assert "architecture <qwen35>" in out.getvalue()


@pytest.mark.parametrize("edit", ["twice", "undeclared", "another's position"])
def test_a_start_that_was_not_planned_is_no_honest_record(receipt, edit):
    edited = json.loads(json.dumps(receipt))
    first = edited["beside"][0]
    if edit == "twice":
        edited["beside"].append({**first, "position": 900})
    elif edit == "undeclared":
        first["name"] = "tgi"
    else:
        first["position"] = edited["starts"][0]["position"]
    checked = verify_receipt(resealed(edited))
    assert checked.outcome is Outcome.INVALID
    assert any(("beside" in problem.field) or (problem.field == "position") for problem in checked.problems)

"""Summary, JUnit and terminal: the page's words in the page's order."""

import io
import json
from xml.etree import ElementTree as ET

import fakes
import pytest
from rich.console import Console

from lqw.outcomes import Purpose
from lqw.report import render
from lqw.report.gather import gather_receipt, gather_run
from lqw.report.markdown import MOST_LINES, summary_md
from lqw.report.terminal import print_facts
from lqw.testing.batches import with_batch
from lqw.testing.receipts import adopt_floor, receipt_of
from lqw.testing.synthetic import synthetic_run

KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_summary_is_short_and_says_the_verdict_first(pages, kind):
    text = (pages[kind] / "summary.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    word = {"FAILED": "UNDECIDED", "FULL": "RED"}.get(kind, kind)
    assert word in lines[0]
    assert "rows: planned" in text


def test_summary_shows_every_blocking_row_before_others_and_counts_the_rest(pages):
    lines = (pages["FULL"] / "summary.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and "/" in line]
    red = [index for index, line in enumerate(rows) if "RED" in line]
    assert red == list(range(len(red)))
    assert len(red) >= 2
    rest = next(line for line in lines if line.startswith("and "))
    assert int(rest.split()[1]) + len(rows) == 65


def test_summary_stays_short_with_hundreds_of_blocking_rows(tmp_path):
    models = [f"model-{i}" for i in range(12)]
    params = fakes.make_params(models=models)
    run = fakes.synthetic_run(params, fakes.Purpose.GATE, pairs=3)
    facts = gather_run(fakes.write_run(tmp_path, fakes.make_receipt(params, run)))
    assert len(facts.blocking) == 96
    assert len(summary_md(facts).splitlines()) <= MOST_LINES


def _junit(folder):
    return ET.fromstring((folder / "junit.xml").read_text())  # noqa: S314 - our own file


@every_kind
def test_junit_has_one_case_per_row(pages, kind):
    root = _junit(pages[kind])
    models = [suite for suite in root if suite.get("name") not in ("suites and guards", "run")]
    cases = [case for suite in models for case in suite]
    assert len(cases) == (65 if kind == "FULL" else 8)
    for suite in root:
        assert int(suite.get("tests")) == len(suite)
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors")) == len(suite.findall("testcase/error"))


def test_junit_fails_blocking_rows_and_no_other(pages):
    def trouble(kind, tag):
        root = _junit(pages[kind])
        return {case.get("name") for case in root.iter("testcase") if case.find(tag) is not None}

    assert {"ttft@128", "ttft@512", "ttft_cached@512"} <= trouble("RED", "failure")
    assert "decode" not in trouble("RED", "failure")
    assert trouble("PASS", "failure") == trouble("PASS", "error") == set()
    assert trouble("FLOOR", "failure") == set()
    assert len(trouble("VOID", "failure")) >= 8
    assert len(trouble("FAILED", "error")) >= 7
    assert len(trouble("INCOMPLETE", "error")) == 9  # every planned row, and the chain


def test_junit_survives_characters_that_xml_cannot_hold(tmp_path):
    run = fakes.broken_run(tmp_path)
    render(run, broken=["a\x00b\x1b\ufffe</x>"])
    assert "a\ufffdb" in (run / "junit.xml").read_text()
    assert len(list(_junit(run).iter("error"))) == 9


@every_kind
def test_terminal_fits_80_columns_without_colour(pages, kind):
    console = Console(width=80, color_system=None, force_terminal=False, record=True, file=io.StringIO())
    print_facts(gather_run(pages[kind]), console)
    text = console.export_text()
    long = [line for line in text.splitlines() if len(line.rstrip()) > 80 and not line.startswith("  lqw ")]
    assert long == []
    assert "\x1b" not in text
    short = "ttft@4096" if kind == "FULL" else "ttft_cached@512"
    assert short in text


def test_terminal_page_and_summary_tell_the_same_in_the_same_order(pages):
    console = Console(width=400, color_system=None, record=True, file=io.StringIO())
    print_facts(gather_receipt(pages["RED"] / "receipt.json"), console)
    told = console.export_text()
    for text in (
        told,
        (pages["RED"] / "summary.md").read_text().replace("\\", ""),
        (pages["RED"] / "report.html").read_text(),
    ):
        places = [text.index(words) for words in ("do not tag 1.2.0", "It is us, not the machine", "rows: planned 8")]
        assert places == sorted(places)
        for short in ("ttft@128", "decode", "rss_peak"):
            assert short in text


@pytest.mark.parametrize(("earlier", "word"), [({}, "CONFIRMED"), ({"decode": 0.5}, "NOT CONFIRMED")])
def test_page_summary_terminal_and_junit_name_the_third_arm(tmp_path, earlier, word):
    params, slow = fakes.make_params(rows=("ttft@128", "decode")), {"decode": 0.5}
    store = adopt_floor(tmp_path / "store", fakes.make_params("1.0.0", rows=("ttft@128", "decode")), seed=9, sd=0.03)
    run = synthetic_run(params, Purpose.GATE, sd=0.02, seed=3, effects=slow)
    run = with_batch(run, params, effects=slow, earlier_effects=earlier, sd=0.02)
    folder = fakes.write_run(tmp_path / "run", receipt_of(run, store))
    (folder / "run.json").write_text(json.dumps({"store": str(store.root), "host": params.host.name}))
    render(tmp_path / "run")
    page, summary = ((tmp_path / "run" / name).read_text() for name in ("report.html", "summary.md"))
    assert '<h2 id="third">' in page
    assert f"1 {word.lower()}." in page
    assert f"comparator measured side by side once more: 1 {word.lower()}." in summary.replace("\\", "")
    said = io.StringIO()
    print_facts(gather_run(tmp_path / "run"), Console(file=said, width=400))
    assert f"third arm gemma3-270m/decode: {word} in 7 tuples: is 0.5" in said.getvalue() or earlier
    assert f"{word} in 7 tuples" in said.getvalue()

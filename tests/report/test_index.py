"""The page of all receipts: releases and rows, links, and what does not verify."""

import json
import sys

import pytest

from lqw.cli.app import run
from lqw.receipt.build import seal
from lqw.report import render
from lqw.report.history import read_history
from lqw.report.index import write_index

fakes, markup = sys.modules["fakes"], sys.modules["markup"]


def _dated(receipt, day):
    receipt["header"]["started_utc"] = f"2026-01-{day:02d}T00:00:00Z"
    return receipt


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    kinds, folder = fakes.kinds(), root / "receipts" / "demo"
    folder.mkdir(parents=True)
    for day, (name, kind) in enumerate({"1.0.0": "FLOOR", "1.1.0": "PASS", "1.2.0": "RED", "1.3.0": "VOID"}.items(), 1):
        (folder / f"{name}.json").write_bytes(seal(_dated(kinds[kind], day)))
    edited = (folder / "1.1.0.json").read_bytes().replace(b'"seed":', b'"seed": ')
    (folder / "1.1.0.attempt2.json").write_bytes(edited)
    (folder / "baseline.json").write_text("{}")
    (root / "reports" / "demo" / "1.2.0").mkdir(parents=True)
    (root / "reports" / "demo" / "1.2.0" / "report.html").write_text("page")
    return root


def test_receipts_stand_in_the_order_they_ran(store):
    past = read_history(store / "receipts" / "demo")
    assert [(one.name, str(one.kind)) for one in past] == [
        ("1.1.0.attempt2", "INVALID"), ("1.0.0", "FLOOR"), ("1.1.0", "PASS"), ("1.2.0", "RED"), ("1.3.0", "VOID"),
    ]  # fmt: skip
    assert past[0].rows == {}
    assert read_history(store / "nowhere") == ()


def test_index_has_every_row_and_run_and_links_only_to_pages_that_exist(store):
    html = write_index(store / "receipts", store / "reports").read_text()
    page = markup.Page(html)
    assert page.faults == []
    heat = [one for one in page.all("table") if one["attrs"].get("class") == "heat"]
    assert len(heat) == 1
    links = [one["attrs"]["href"] for one in page.all("a") if one["attrs"]["href"].endswith(".html")]
    assert links == ["demo/1.2.0/report.html"] * 2  # in the heat map, and where it says what blocked
    rows = [one["text"].strip() for one in page.all("th") if one["attrs"].get("class") == "row"]
    assert set(rows) == {"row", *(row["row"].split("/")[1] for row in fakes.kinds()["RED"]["judgement"]["rows"])}
    cells = [one for one in page.all("td") if one["text"].startswith("✕−")]
    assert [one["text"].split() for one in cells] == [["✕−43"], ["✕−47"], ["✕−47"], ["✕−43"]]
    assert all("x" in one["attrs"]["class"].split() for one in cells)
    sparks = [one for one in page.all("svg") if one["attrs"].get("class") == "spark"]
    assert len(sparks) == 2 * (len(rows) - 1)  # small in the heat map, large below
    drawn = {one["attrs"]["id"] for one in page.all("g") if "id" in one["attrs"]}
    assert [one["attrs"]["href"][1:] in drawn for one in page.all("use")] == [True] * len(drawn)
    assert len(drawn) == len(rows) - 1
    assert "over 3 runs" in sparks[0]["attrs"]["aria-label"]
    assert "<script" not in html
    assert "blocked 2 times, last in 1.3.0" in next(
        one["attrs"]["aria-label"] for one in sparks if "ttft@512" in one["attrs"]["aria-label"]
    )


def test_index_says_what_blocked_with_the_largest_loss_first_and_no_number_of_a_void_row(store):
    page = markup.Page(write_index(store / "receipts", store / "reports").read_text())
    (stops,) = [one["text"].split() for one in page.all("table") if one["attrs"].get("class") == "plain stops"]
    said = " ".join(stops)
    assert said.index("1.3.0") < said.index("1.2.0") < said.index("1.1.0.attempt2")
    assert "✕ RED ✕ gemma3-270m/prefill@512 −47 %" in said
    assert "and 1 more" in said
    assert "not what its digest says" in said
    void = said[said.index("⊘ VOID") : said.index("1.2.0")]
    assert "%" not in void


def test_index_of_two_hundred_runs_of_sixty_five_rows_stays_small(store, tmp_path):
    many = fakes.full()
    many = {part: many[part] for part in ("header", "judgement")}
    rows = many["judgement"]["rows"]
    assert len(rows) == 65
    folder = tmp_path / "receipts" / "five"
    folder.mkdir(parents=True)
    data = seal(many)
    for number in range(200):
        (folder / f"2.{number}.0.json").write_bytes(data)
    page = write_index(tmp_path / "receipts", tmp_path)
    assert page.stat().st_size < 1_000_000
    assert page.read_text().partition("</table>")[0].count("<tr><th") == 65 + 5 + 1


def test_a_page_from_a_store_shows_the_staircase_of_its_past(store, tmp_path):
    text = render(store / "receipts" / "demo" / "1.3.0.json", tmp_path).read_text()
    stairs = [one["attrs"]["aria-label"] for one in markup.Page(text).all("svg")
              if "ratio by release" in one["attrs"].get("aria-label", "")]  # fmt: skip
    assert len(stairs) == 8
    assert "1.0.0" in stairs[0]
    assert "1.2.0" in stairs[0]


def test_report_index_from_the_command_line(store, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["report", "--index", str(store / "receipts")]) == 0
    assert capsys.readouterr().out.strip() == "reports/index.html"
    assert run(["report", "--index"]) == 2
    assert "receipts: no such folder" in capsys.readouterr().err
    assert run(["report"]) == 2
    assert "--index" in capsys.readouterr().err
    assert json.dumps((tmp_path / "reports" / "index.html").read_text()).count("demo")

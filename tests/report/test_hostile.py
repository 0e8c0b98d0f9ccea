"""Hostile and damaged content: escaped, named, never executed, never an exception."""

import json
from dataclasses import replace

import fakes
import mistune
import pytest
from markup import Page

from lqw.report import render

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`&"


def _evil_chain():
    html = '<table><tr><td>kept</td></tr></table><script>alert(1)</script><p onclick="x()">also</p><style>p{}</style>'
    return {
        "10_collect": fakes.notebook(
            fakes.prose(
                f"# Title {EVIL}\n\n{EVIL}\n\n[link](javascript:alert(1)) ![pic](https://example.invalid/x.png)"
            ),
            fakes.code(EVIL, outputs=[fakes.shown(html), fakes.shown(text=EVIL)]),
            fakes.code("b", n=2, outputs=[{"output_type": "stream", "name": "stdout", "text": EVIL + "\x1b[31mred"}]),
        ),
        "40_verdict": fakes.notebook(fakes.code("x", outputs=[fakes.raised(EVIL, EVIL, EVIL)])),
    }


def _poisoned_run():
    """Return a RED run whose free texts are hostile: words of the vocabulary and numbers stay."""
    params = fakes.make_params("1.2.0", subject_settings={"threads": 2})
    margin = params.host.margin.model_copy(update={"reason": EVIL})
    params = params.model_copy(update={"host": params.host.model_copy(update={"margin": margin})})
    run = fakes.synthetic_run(params, fakes.Purpose.GATE, sd=0.03, seed=5, effects=fakes.SLOW, run_id=EVIL)
    host = run.header.host.model_copy(update={"cpu_model": EVIL, "kernel": EVIL})
    starts = []
    for start in run.starts:
        engine = start.engine.model_copy(update={"command": [EVIL], "settings": {EVIL: EVIL}, "env": {EVIL: EVIL}})
        starts.append(
            start.model_copy(
                update={"engine": engine, "telemetry": {EVIL: 1.0, "gpu": {"throttled": {EVIL: EVIL}, "skipped": EVIL}}}
            )
        )
    header = run.header.model_copy(update={"host": host})
    return params, replace(run, header=header, starts=tuple(starts), calibration={EVIL: EVIL})


def test_hostile_strings_are_text_everywhere(tmp_path):
    params, run = _poisoned_run()
    floor = fakes.floor_of(fakes.make_params("1.0.0"))
    folder = fakes.write_run(tmp_path, fakes.make_receipt(params, run, floor), notebooks=_evil_chain())
    page = Page(render(folder).read_text(encoding="utf-8"))
    assert page.faults == []
    assert page.all("script", "img", "iframe") == []
    assert not [name for one in page.elements for name in one["attrs"] if name.startswith("on")]
    assert not [one for one in page.all("a") if one["attrs"]["href"].lower().startswith("javascript")]
    assert len(page.all("style")) == 1
    assert page.text().count("alert(1)") >= 12
    assert "kept" in page.text()
    assert "<script" not in (folder / "junit.xml").read_text()
    told = mistune.create_markdown(escape=False, plugins=["table", "strikethrough"])(
        (folder / "summary.md").read_text()
    )
    assert "alert(1)" in told
    assert not [one for one in Page(told).elements if one["tag"] in ("script", "img")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"judgement": 3}',
        b'{"header": []}',
        b"\xff\xfe",
        b'{"a": NaN}',
        b"null",
        b'{"judgement": {}}',
    ],
)
def test_a_receipt_that_is_none_gives_an_incomplete_page_naming_it(tmp_path, data):
    (tmp_path / "receipt.json").write_bytes(data)
    text = Page(render(tmp_path).read_text()).text()
    assert "INCOMPLETE, NOT A VERDICT" in text
    assert "may be tagged" not in text


def test_recorded_words_of_an_edited_receipt_are_escaped_too(tmp_path):
    receipt = fakes.kinds()["RED"]
    receipt["judgement"]["sentence"] = receipt["judgement"]["rows"][0]["text"] = EVIL
    page = Page(render(fakes.write_run(tmp_path, receipt)).read_text())
    assert page.faults == []
    assert page.all("script", "img") == []
    assert "INVALID : do not tag" in page.text()
    assert "alert(1)" in page.text()


@pytest.mark.parametrize("field", ["header", "standing", "correctness", "judgement", "calibration", "starts", "run"])
@pytest.mark.parametrize("bad", [None, 3, {"x": 1}])
def test_damaged_parts_do_not_stop_the_report_and_never_pass(tmp_path, field, bad):
    receipt = fakes.kinds()["PASS"]
    receipt[field] = bad
    page = Page(render(fakes.write_run(tmp_path, receipt)).read_text())
    assert page.faults == []
    verdict = page.all("h1")[0]["text"].split()[0]
    assert verdict in ({"INVALID", "INCOMPLETE,"} | ({"PASS"} if field == "calibration" else set()))
    assert "may be tagged" not in page.text() or field == "calibration"


@pytest.mark.parametrize("place", ["plan", "params"])
@pytest.mark.parametrize("bad", [{}, {"policy": 3, "rows": [None, 4, "m/decode"]}, {"orders": [], "host": 3}])
def test_a_hostile_header_is_not_believed(tmp_path, place, bad):
    receipt = fakes.kinds()["PASS"]
    receipt["header"][place] = bad
    assert "may be tagged" not in Page(render(fakes.write_run(tmp_path, receipt)).read_text()).text()
    folder = fakes.broken_run(tmp_path / "journal")
    journal = folder / "samples.jsonl"
    first, rest = journal.read_bytes().split(b"\n", 1)
    journal.write_bytes(json.dumps({**json.loads(first), place: bad}).encode() + b"\n" + rest)
    assert "INCOMPLETE, NOT A VERDICT" in Page(render(folder).read_text()).text()


@pytest.mark.parametrize("book", ["", "{", "[]", '{"cells": 3}', '{"nbformat": 4, "cells": [{"cell_type": "code"}]}'])
def test_a_damaged_notebook_is_named(tmp_path, book):
    folder = fakes.write_run(tmp_path, notebooks=fakes.broken_chain())
    (folder / "notebooks" / "20_correctness.ipynb").write_text(book)
    text = Page(render(folder).read_text()).text()
    assert "20_correctness broke" in text
    assert "20_correctness.ipynb cannot be read" in text


def test_a_torn_journal_shows_what_was_planned(tmp_path):
    folder = fakes.broken_run(tmp_path)
    journal = folder / "samples.jsonl"
    journal.write_bytes(journal.read_bytes()[:-50])
    text = Page(render(folder).read_text()).text()
    assert "3 engine starts are in the journal" in text
    assert text.count("NOT JUDGED") == 8


def test_an_empty_folder_is_incomplete_and_counts_nothing(tmp_path):
    text = Page(render(tmp_path).read_text()).text()
    assert "rows: planned 0, measured 0, gating 0, void 0, failed 0" in text
    assert "there is no receipt.json" in text


def test_pictures_without_words_are_left_out_and_described_ones_kept(tmp_path):
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    outputs = [fakes.shown(png=png, text="<Figure>"), fakes.shown(png=png, alt="decode at 44 tok/s in 3 pairs")]
    book = {"10_collect": fakes.notebook(fakes.code("x", outputs=outputs))}
    page = Page(render(fakes.write_run(tmp_path, fakes.kinds()["PASS"], notebooks=book)).read_text())
    assert [one["attrs"]["alt"] for one in page.all("img")] == ["decode at 44 tok/s in 3 pairs"]


def test_an_unwritable_folder_is_the_callers_error(tmp_path):
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(OSError, match="file"):
        render(tmp_path, tmp_path / "file")

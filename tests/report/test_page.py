"""The page: well-formed, accessible, without script or request, and unmistakable about its verdict."""

import re
from dataclasses import replace
from itertools import pairwise

import fakes
import pytest
from markup import Page

from lqw.outcomes import Purpose, Reason
from lqw.report import render
from lqw.samples import Failure
from lqw.testing.synthetic import synthetic_run

KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def page(parsed, kind):
    return parsed(kind)


@every_kind
def test_well_formed_with_one_h1_and_headings_in_order(page):
    assert page.faults == []
    levels = [int(one["tag"][1]) for one in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


@every_kind
def test_ids_are_unique_and_every_reference_has_its_target(page):
    ids = [one["attrs"]["id"] for one in page.elements if "id" in one["attrs"]]
    assert len(ids) == len(set(ids))
    wanted = [one["attrs"]["aria-labelledby"] for one in page.elements if "aria-labelledby" in one["attrs"]]
    wanted += [one["attrs"]["href"][1:] for one in page.all("a") if one["attrs"]["href"].startswith("#")]
    assert set(wanted) <= set(ids)


@every_kind
def test_no_script_and_no_request(pages, kind, page):
    html = (pages[kind] / "report.html").read_text(encoding="utf-8")
    assert page.all("script", "iframe", "object", "embed", "link", "base", "form") == []
    assert not [a for one in page.elements for a in one["attrs"] if a.startswith("on")]
    loads = [one["attrs"].get(name, "") for one in page.elements for name in ("src", "srcset", "data", "xlink:href")]
    assert not [url for url in loads if url and not url.startswith("data:image/png")]
    css = page.all("style")[0]["text"]
    assert "url(" not in css
    assert "@import" not in css
    assert "default-src 'none'" in html


@every_kind
def test_landmarks_language_and_title(page):
    assert page.all("html")[0]["attrs"]["lang"] == "en"
    assert [len(page.all(tag)) for tag in ("main", "nav", "header", "footer")] == [1, 1, 1, 1]
    title = page.all("title")[0]["text"]
    assert re.match(r"(PASS|RED|UNDECIDED|VOID|FLOOR|INVALID|INCOMPLETE): .+ on demo", title)


@every_kind
def test_every_picture_says_its_values(page):
    drawn = [one for one in page.all("svg") if one["attrs"].get("role") == "img"]
    told = [one["attrs"]["aria-label"] for one in drawn] + [one["attrs"]["alt"] for one in page.all("img")]
    assert all(re.search(r"\d", text) and len(text) > 20 for text in told)
    silent = [one for one in page.all("svg") if one["attrs"].get("role") != "img" and "svg" not in one["inside"]]
    assert all(one["attrs"].get("aria-hidden") == "true" for one in silent)
    if page.all("title")[0]["text"].startswith(("RED", "PASS")):
        assert len(drawn) >= 16  # eight rows: one forest line and one strip each


@every_kind
def test_tables_have_captions_and_scopes(page):
    assert len(page.all("table")) == len(page.all("caption")) >= 1
    assert all(one["attrs"].get("scope") in ("col", "row") for one in page.all("th"))
    rows = [one for one in page.all("tr") if "tbody" in one["inside"]]
    assert len(page.all("th")) >= len([r for r in rows if "note" not in r["attrs"].get("class", "")])


@every_kind
def test_small_enough(pages, kind):
    assert (pages[kind] / "report.html").stat().st_size < (2_000_000 if kind == "FULL" else 400_000)


def test_kinds_differ_in_word_symbol_and_border(pages):
    heads, glyphs, borders = set(), set(), set()
    kinds = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "INCOMPLETE")
    for kind in kinds:
        html = (pages[kind] / "report.html").read_text(encoding="utf-8")
        heads.add(Page(html).all("h1")[0]["text"].split()[0].strip(":,"))
        glyphs.add(re.search(r'<div class="mark">(.*?)</div>', html, re.DOTALL).group(1))
        rules = re.findall(rf"\.kind-{kind.lower()} \.verdict\{{([^}}]*)\}}", html)
        borders.add(
            re.sub(r"#\w+|var\(--\w+\)", "", next(rule for rule in rules if "border" in rule or kind == "PASS"))
        )
    assert heads == set(kinds)
    assert len(glyphs) == len(kinds)
    assert len(borders) == len(kinds)


def test_red_page_says_what_fell_by_how_much_and_who(pages):
    text = Page((pages["RED"] / "report.html").read_text()).text()
    assert "RED : do not tag 1.2.0-one-token-prefill" in text
    assert "rows: planned 8, measured 8, gating 8, void 0, failed 0" in text
    assert "It is us, not the machine" in text
    fell = re.search(r"RED gemma3-270m/ttft@512 (\d\.\d)× slower than its floor \(−(\d+) %; noise explains ±", text)
    assert 1.6 < float(fell.group(1)) < 2.2
    assert 38 < int(fell.group(2)) < 55


def test_a_comparator_that_moved_is_said_to_have_moved(pages, tmp_path):
    sick = fakes.make_params("1.3.0")
    run = fakes.synthetic_run(sick, fakes.Purpose.GATE, sd=0.03, effects={"ttft@512": 1.9},
                              comparator_effects={"ttft@512": 0.85})  # fmt: skip
    receipt = fakes.make_receipt(sick, run, fakes.floor_of(sick))
    assert receipt["judgement"]["outcome"] in ("RED", "UNDECIDED")
    text = Page(render(fakes.write_run(tmp_path, receipt)).read_text()).text()
    assert "It is us, not the machine" not in text


def test_margin_class_stands_open_with_its_reason(pages):
    text = Page((pages["PASS"] / "report.html").read_text()).text()
    assert "Margin class D: a PASS excludes, row by row, a loss of 30 % against the floor." in text
    assert "a run made of numbers, with wide noise" in text


def test_an_edited_receipt_names_the_field_and_both_values(pages):
    text = Page((pages["INVALID"] / "report.html").read_text()).text()
    assert "INVALID : do not tag 1.1.0" in text
    assert re.search(r"judgement\.rows\.\d+\.\S+: recorded [\d.]+, but [\d.]+ follows", text)


def test_void_rows_are_struck_through_with_their_reason(pages):
    page = Page((pages["VOID"] / "report.html").read_text())
    assert len([one for one in page.all("s") if "table" in one["inside"]]) >= 8
    assert "all 8 rows of gemma3-270m" in page.text()
    assert "VOID_CORRECTNESS" in page.text()


def test_failed_start_shows_the_last_lines_of_its_log(pages):
    text = Page((pages["FAILED"] / "report.html").read_text()).text()
    assert "FAILED_START" in text
    assert "error: <no> such file" in text


def test_a_failed_identity_start_shows_the_last_lines_of_its_log_with_every_row_it_voids(tmp_path):
    """The void is the identity stage's and carries no log; the start that failed does."""
    params = fakes.make_params()
    run = synthetic_run(params, Purpose.GATE)
    dead = Failure(reason=Reason.FAILED_START, detail="apr exited with status 6", log_tail=["error: <no> 'gemma3'"])
    failed = [one.model_copy(update={"failure": dead, "answers": []}) for one in run.identities]
    receipt = tmp_path / "receipt.json"
    receipt.write_bytes(fakes.resealed(fakes.make_receipt(params, replace(run, identities=tuple(failed)))))
    text = Page(render(tmp_path).read_text()).text()
    assert "FAILED_START: start: apr exited with status 6" in text
    assert "error: <no> 'gemma3'" in text


def test_incomplete_page_names_the_notebook_its_error_and_the_planned_rows(pages):
    text = Page((pages["INCOMPLETE"] / "report.html").read_text()).text()
    assert "INCOMPLETE, NOT A VERDICT on 1.1.0" in text
    assert "It ended in 20_correctness: RuntimeError: engine <b>died</b>" in text
    assert "30_noise_band not started" in text
    assert text.count("NOT JUDGED") == 8
    assert "4 engine starts are in the journal" in text
    assert "--resume" in text


def test_a_told_reason_makes_any_receipt_incomplete(tmp_path):
    folder = fakes.write_run(tmp_path, fakes.kinds()["PASS"], notebooks=fakes.chain())
    text = Page(
        render(folder, broken=["kernel of 40_verdict was killed", "left behind: llama-server"]).read_text()
    ).text()
    assert "INCOMPLETE, NOT A VERDICT" in text
    assert "kernel of 40_verdict was killed" in text
    assert "may be tagged" not in text


def test_notebook_prose_is_open_and_code_is_folded(pages):
    html = (pages["PASS"] / "report.html").read_text()
    page = Page(html)
    assert "in an order drawn from the seed" in page.text()
    code = [one for one in page.all("code") if "steps.collect" in one["text"]]
    assert code
    assert all("details" in one["inside"] for one in code)


def test_both_engines_settings_stand_side_by_side_and_differences_are_marked(pages):
    text = Page((pages["RED"] / "report.html").read_text()).text()
    assert "≠ ubatch 1 –" in text


def test_commands_to_reproduce_are_exact(pages):
    text = Page((pages["RED"] / "report.html").read_text()).text()
    assert "lqw gate params/1.2.0-one-token-prefill.yaml --host demo" in text
    assert "lqw verify" in text


def test_targets_are_shown_as_distance_to_go(pages):
    text = Page((pages["RED"] / "report.html").read_text()).text()
    assert re.search(r"prefill@512 0\.80× 0\.5\d× 0\.\d\d× OPEN, 1\.\d\d× to go", text)


def test_only_models_in_which_something_blocks_are_open(pages):
    page = Page((pages["FULL"] / "report.html").read_text())
    folded = [one for one in page.all("details") if one["attrs"].get("class") == "model"]
    heads = [" ".join(one["text"].split()) for one in page.all("h3") if "summary" in one["inside"]]
    assert len(heads) == len(folded) > 20
    is_open = {head: "open" in one["attrs"] for head, one in zip(heads, folded, strict=True)}
    assert is_open == {head: head.split(":")[0] in ("qwen3.5-9b", "gemma4-e4b") for head in heads}
    assert {"qwen3.5-2b: 13 pass", "qwen3.5-9b: 2 red, 11 pass", "qwen3.5-9b: 4 met, 1 open"} <= set(heads)


def test_the_only_model_is_open(pages):
    page = Page((pages["PASS"] / "report.html").read_text())
    folded = [one for one in page.all("details") if one["attrs"].get("class") == "model"]
    assert folded
    assert all("open" in one["attrs"] for one in folded)


def test_a_row_off_the_scale_says_how_far(tmp_path):
    sick = fakes.make_params("1.4.0")
    run = fakes.synthetic_run(sick, fakes.Purpose.GATE, sd=0.03, effects={"ttft@512": 40.0}, seed=5)
    page = Page(render(fakes.write_run(tmp_path, fakes.make_receipt(sick, run, fakes.floor_of(sick)))).read_text())
    beside = [one["text"].strip() for one in page.all("text") if "←" in one["text"]]
    assert beside
    assert all(re.fullmatch(r"← 0\.02\d×", text) for text in beside)

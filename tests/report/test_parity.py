"""The parity section: who left the reference where, drawn and told; hostile witnesses draw nothing wrong."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from markup import Page

from lqw.report.parity import heat_maps, parity_context

FIXTURES = Path(__file__).parents[1] / "fixtures/parity"


def witness(name):
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def drawn(document, path="receipts/parity/x.json"):
    ((name, heats),) = heat_maps({path: document})
    return name, heats


def test_each_band_is_a_picture_whose_alt_text_has_its_values():
    name, heats = drawn(witness("lambda.serving"))
    assert name == "lambda, receipts/parity/x.json"
    assert [heat.title for heat in heats] == ["c = 1", "c = 4", "c = 8", "c = 16"]
    assert heats[3].caption == "16 of 16 slots gave the single stream's 64 tokens; formed 16: PASS"
    page = Page(str(heats[1].svg))
    (picture,) = [one for one in page.all("svg") if one["attrs"].get("role") == "img"]
    assert "c=4: 4 of 4 slots" in picture["attrs"]["aria-label"]
    assert "slot 3 agrees to token 64 of 64." in picture["attrs"]["aria-label"]
    assert [one["attrs"]["class"] for one in page.all("rect")] == ["agree"] * 4
    assert [one["text"] for one in page.all("text")] == ["slot", "token 0", "64", "0", "1", "2", "3"]


def test_a_slot_of_one_token_and_slots_that_differ_look_and_read_unlike():
    heats = drawn(witness("lambda.serving.garbage_slot"))[1]
    bad = next(heat for heat in heats if 'class="run"' in heat.svg)
    assert "slot 2 agrees to token 3 of 64, one token 61 times from 3" in bad.svg
    ties = drawn(witness("gemma3-270m-tie.serving"))[1]
    assert 'class="differ"' in ties[1].svg
    assert 'class="run"' not in ties[1].svg
    assert ties[1].caption.startswith("0 of 4 slots")


@pytest.mark.parametrize(
    "document",
    [
        "a text",
        {"bands": 7},
        {"bands": [7, {"slots": 7}, {"slots": [7, {"completion_tokens": True, "agree_to": 0}]}]},
        {"bands": [{"slots": [{"completion_tokens": 3, "agree_to": -1}]}]},
    ],
)
def test_what_is_no_witness_is_no_picture(document):
    assert heat_maps({"x.json": document}) == []


def test_markup_in_a_witness_stays_text():
    form = witness("lambda.serving")
    form["host"], form["bands"][0]["c"] = "<script>", '"><script>'
    name, heats = drawn(form)
    assert "<script>" in name, "the template escapes it"
    assert "<script>" not in heats[0].svg
    assert "&lt;script&gt;" in heats[0].svg


def test_a_release_without_a_blessed_model_says_that_nothing_is_claimed():
    facts = SimpleNamespace(params={"release": {}}, judgement=None, parity={})
    assert "nothing is claimed of the batched path" in parity_context(facts)["parity_lead"]
    blessed = SimpleNamespace(
        params={"release": {"blessed": "m"}}, judgement=None, parity={"w": witness("lambda.serving")}
    )
    context = parity_context(blessed)
    assert (context["parity_lead"].startswith("Blessed: m."), len(context["heat_maps"])) == (True, 1)

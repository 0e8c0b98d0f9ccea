"""Garbage detectors: each fires on its fault, none voids a real answer of the small demo model."""

import json
from pathlib import Path

import pytest
import yaml

from lqw.canonical import sha256_file
from lqw.correctness.detectors import CONSTANT_RUN, detect, longest_run, shortest_cycle
from lqw.samples import Answer

ROOT = Path(__file__).parents[2]
REAL = json.loads((ROOT / "tests/fixtures/correctness/gemma3-270m.json").read_text(encoding="utf-8"))
PROMPTS = yaml.safe_load((ROOT / "params/prompts/identity.yaml").read_text(encoding="utf-8"))["prompts"]
PROMPT = "Say something of your own about the sea, please."


def answer(text="the sea is wide and grey", ids=(5, 6, 7, 8, 9, 10), finish="limit"):
    return Answer(
        prompt="p", shape="single", repeat=0, text=text, ids=None if ids is None else list(ids), finish=finish
    )


def states(found):
    return {finding.kind: finding.state for finding in found if finding.state != "ok"}


def fired(one, want=None, prompt=PROMPT):
    return states(detect(one, want=len(one.ids or []) if want is None else want, prompt=prompt))


def test_a_healthy_answer_fires_nothing():
    assert fired(answer()) == {}


def test_one_token_repeated_sixteen_times_is_garbage_fifteen_times_is_not():
    assert fired(answer(ids=[1, 2, 3] + [9] * CONSTANT_RUN)) == {"constant_run": "void"}
    assert fired(answer(ids=[1, 2, 3] + [9] * (CONSTANT_RUN - 1))) == {}


def test_without_ids_a_repeated_word_or_character_is_garbage():
    assert fired(answer(text="so " + "the " * 16, ids=None)) == {"constant_run": "void"}
    assert fired(answer(text="so it ends " + "!" * 64, ids=None)) == {"constant_run": "void"}
    assert fired(answer(text="Title\n" + "-" * 40 + "\nwords that follow it", ids=None)) == {}


def test_a_short_cycle_is_a_flag_never_a_void():
    assert fired(answer(ids=[1, 2] * 10)) == {"cycle": "flag"}
    assert fired(answer(ids=[1, 2, 3, 4] + [7, 8, 9] * 6)) == {"cycle": "flag"}
    assert fired(answer(ids=[7, 8, 9] * 3 + list(range(20, 40)))) == {}


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_garbage(text):
    assert fired(answer(text=text, ids=[])) == {"empty": "void"}


def test_tokens_that_nobody_can_see_are_flagged():
    assert fired(answer(text=" \n\n")) == {"empty": "flag"}


def test_too_few_tokens_are_truncated_unless_the_model_itself_ended():
    assert fired(answer(finish="limit"), want=24) == {"truncated": "void"}
    assert fired(answer(finish=""), want=24) == {"truncated": "void"}
    assert fired(answer(finish="eos"), want=24) == {"early_end": "flag"}
    assert fired(answer(), want=5) == {"truncated": "void"}, "more tokens than asked for"


def test_replacement_characters_flag_void_when_many_and_pass_where_the_limit_cut_one():
    assert fired(answer(text="a whole sentence with one \ufffd in it")) == {"replacement": "flag"}
    assert fired(answer(text="ab\ufffdcd\ufffdef")) == {"replacement": "void"}
    assert fired(answer(text="\ufffd\ufffd\ufffd")) == {"replacement": "void"}
    assert fired(answer(text="a whole sentence, cut in an emoji \ufffd")) == {}
    assert fired(answer(text="a whole sentence, cut in an emoji \ufffd\ufffd\ufffd")) == {}, "a byte each"
    assert fired(answer(text="a whole sentence" + "\ufffd" * 60)) == {"replacement": "void"}, "no cut is so long"


def test_the_prompt_sent_back_is_garbage_even_when_cut_short():
    assert fired(answer(text=PROMPT + " The sea is grey.")) == {"echo": "void"}
    assert fired(answer(text=PROMPT[:30])) == {"echo": "void"}
    assert fired(answer(text="\n" + PROMPT.replace(" ", " \t"))) == {"echo": "void"}, "with other blanks"
    assert fired(answer(text=PROMPT[:10] + " else entirely, which is my own")) == {}


@pytest.mark.parametrize("name", sorted(REAL["committed"]))
@pytest.mark.parametrize("tokens", [24, 32, 64, 96])
def test_no_detector_voids_a_real_answer_of_the_demo_model(name, tokens):
    real = REAL["committed"][name]
    one = answer(text=real["text"], ids=real["ids"][:tokens], finish=real["finish"])
    assert "void" not in fired(one, want=tokens, prompt=PROMPTS[name]).values()


def test_the_loop_of_the_real_needle_answer_is_flagged():
    real = REAL["committed"]["needle"]
    assert fired(answer(text=real["text"], ids=real["ids"])) == {"cycle": "flag"}


def test_longest_run_and_shortest_cycle_on_small_cases():
    assert [longest_run(x) for x in ([], [1], [1, 1, 2, 2, 2, 1])] == [0, 1, 3]
    assert shortest_cycle([1, 2, 1, 2, 1, 2, 1, 2]) == (2, 8)
    assert shortest_cycle([4] * 30) == (0, 0)
    assert shortest_cycle(list(range(30))) == (0, 0)


def test_the_committed_prompts_are_those_of_the_committed_hashes():
    folder = ROOT / "params/prompts"
    told = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {path.name: sha256_file(path) for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert told == files, (
        "a changed prompt is another measurement: `sha256sum * > SHA256SUMS`, new references and floors"
    )


def test_the_committed_prompts_are_the_six_kinds_and_short():
    assert list(PROMPTS) == ["code", "prose", "cjk", "emoji", "needle", "numbers"]
    assert sorted(REAL["committed"]) == sorted(PROMPTS)
    assert all(20 <= real["prompt_tokens"] <= 64 for real in REAL["committed"].values())

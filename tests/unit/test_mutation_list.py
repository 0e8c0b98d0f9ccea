"""The list of mutants that live: what a change is called, what a run says of the list, and whether it fits the code."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.__main__ import outlived, unlisted
from tests.mutation.changes import change_of, function_of, module_of
from tests.mutation.survivors import Lives, page, read_list

ROOT = Path(__file__).parents[2]
MUTANTS = """
def f(a):
    return x_f__mutmut_mutants(a)


def x_f__mutmut_orig(a, b=1):
    out = [x for x in a if x > 0]
    return sum(out, b)


def x_f__mutmut_1(a, b=2):
    out = [x for x in a if x > 0]
    return sum(out, b)


def x_f__mutmut_2(a, b=1):
    out = [x for x in a if x >= 0]
    return sum(out, b)


def x_f__mutmut_3(a, b=1):
    out = [x for x in a if x > 0]
    return sum(out, )


class C:
    def xǁCǁg__mutmut_orig(self):
        return f(
            self.a,
            b=2,
        )

    def xǁCǁg__mutmut_1(self):
        return f(
            self.a,
            )

    def other(self):
        return 1
"""


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "mutants/lqw/verdict/judge.py"
    made.parent.mkdir(parents=True)
    made.write_text(MUTANTS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "function", "change"),
    [
        ("x_f__mutmut_1", "f", "def f(a, b=1): → def f(a, b=2):"),
        ("x_f__mutmut_2", "f", "if x > → if x >="),
        ("x_f__mutmut_3", "f", "return sum(out, b) → return sum(out, )"),
        ("xǁCǁg__mutmut_1", "C.g", "b=2, → left out"),
    ],
)
def test_a_change_is_the_words_that_differ_and_two_before_them(place, name, function, change):
    mutant = f"lqw.verdict.judge.{name}"
    assert (module_of(mutant), function_of(mutant)) == ("verdict.judge", f"verdict.judge.{function}")
    assert change_of(place, mutant) == change


A, B, C = (Lives("verdict.judge.f", f"{x} → {x}0") for x in "abc")


def test_a_run_names_what_the_list_lacks_and_what_it_has_too_much():
    listed = Counter({A: 2, B: 1, C: 1})
    assert unlisted(Counter({A: 2, B: 1}), listed) == []
    assert unlisted(Counter({A: 3, B: 1}), listed) == [str(A)]
    assert outlived(Counter({A: 1}), Counter({A: 1, B: 4}), listed) == [str(A), str(B)]  # C was not drawn
    assert Lives.parse(f" {A}\n") == A
    with pytest.raises(ValueError, match="is not 'function: old → new'"):
        Lives.parse("verdict.judge.f a")


def test_the_page_is_made_of_the_list():
    assert (ROOT / "docs/methodology/survivors.md").read_text(encoding="utf-8") == page(read_list())


def test_every_module_lists_as_many_as_live_in_it():
    listed = read_list()
    lives = Counter(one.module for one in listed.lives.elements())
    assert lives == Counter({name: judged - killed for name, (killed, judged) in listed.scores.items()})
    killed, judged = (sum(score[i] for score in listed.scores.values()) for i in (0, 1))
    assert killed / judged >= 0.9


def test_every_reason_is_one_and_every_survivor_has_one_only():
    reasons = read_list().reasons
    assert all(re.fullmatch(r"[^:]{4,60}: .{40,}", why, re.DOTALL) for why in reasons)
    assert sum(len(lives) for lives in reasons.values()) == len(read_list().lives)


def test_what_a_listed_mutant_changes_stands_in_the_code():
    """A line of the list that fits no code is of code that is gone: run the mutants of that module again."""
    gone = []
    for one in read_list().lives:
        path = ROOT / "lqw" / f"{one.module.replace('.', '/')}.py"
        words = " ".join(path.read_text(encoding="utf-8").split())
        name, was = one.function.rpartition(".")[2], one.change.rpartition(" → ")[0]
        if f"def {name}(" not in words or was not in words:
            gone.append(str(one))
    assert gone == []

"""The first screen of every kind of page, and its first sheet of paper, beside kept pictures that a person has looked at.

``python -m tests.report.baselines`` keeps new ones where a page is meant to look different.
"""

import sys

import pytest

baselines, browsing = sys.modules["baselines"], sys.modules["browsing"]
SPOILT = {
    "another colour of the banner": ".verdict{background:#dfe8ff!important}",
    "the banner 4 px to the right": ".verdict{position:relative;left:4px}",
    "the banner 2 px down": ".verdict{margin-top:18px!important}",
}
WHERE = ("PASS", "1280")
SPOIL = """css => {
document.querySelector("#spoilt")?.remove();
document.head.insertAdjacentHTML("beforeend", `<style id="spoilt">${css}</style>`);
}"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def looks(pages):
    """Return the picture of each kind and view by name, and those of one page spoilt on purpose."""
    out, fonts = {}, baselines.faces()
    with browsing.opened() as tab:
        for kind in baselines.KINDS:
            baselines.shown(tab, pages[kind] / "report.html", fonts)
            for view in baselines.VIEWS:
                out[f"{kind}-{view}"] = baselines.shot(tab, view)
            for how, css in SPOILT.items() if kind == WHERE[0] else ():
                tab.evaluate(SPOIL, css)
                out[how] = baselines.shot(tab, WHERE[1])
    return out


@pytest.mark.parametrize("name", baselines.NAMES)
def test_a_page_looks_as_it_did(looks, name):
    apart = baselines.difference(looks[name], baselines.kept(name))
    assert apart <= 1, f"{name}: {apart:.2f} of what is allowed; if meant: python -m tests.report.baselines, and look"


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_page_is_told_from_the_kept_one(looks, how):
    assert baselines.difference(looks[how], baselines.kept("-".join(WHERE))) > 1


def test_the_five_kinds_are_told_apart_without_colour(looks):
    grey = [looks[f"{kind}-1280"].convert("L").convert("RGB") for kind in baselines.KINDS]
    assert min(baselines.difference(a, b) for i, a in enumerate(grey) for b in grey[:i]) > 1


def test_there_is_no_picture_that_nothing_asks_for():
    assert sorted(file.stem for file in baselines.KEPT.glob("*")) == sorted(baselines.NAMES)

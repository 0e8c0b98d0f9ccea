"""The pages in a real browser and before tools that others trust: every page is opened once, and all is asked of it.

Nothing is wider than the screen, text can be read in light and dark (every page, every width), axe-core finds nothing,
html-validate is content. Two rules of html-validate are off (``.htmlvalidate.json``): the roles of tables are not
redundant where narrow screens show rows as blocks, and blanks at the end of a line may belong to a notebook's code.

Needs Chromium (``apt-get install chromium``) and ``npm install --prefix tests/report``, which ``.ci/run`` brings. In CI
(``CI`` set) they fail without them, elsewhere they are skipped by name.
"""

import shutil
import subprocess
import sys

import pytest

from lqw.receipt.build import seal
from lqw.report.index import write_index

browsing, fakes = sys.modules["browsing"], sys.modules["fakes"]
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")
QUICK = ("RED", "INDEX")  # what make test opens; make test-slow opens every page
ALL = (*KINDS, "INDEX")
EVERY = [pytest.param(QUICK, id="quick"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]
WIDTHS = (390, 768, 1280)
LOOK = """(width) => {
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const grounds = new Map();
function ground(el) {
  if (!el) return [255, 255, 255];
  if (!grounds.has(el)) {
    const c = rgb(getComputedStyle(el).backgroundColor);
    grounds.set(el, c.length === 3 || c[3] > 0.99 ? c : ground(el.parentElement));
  }
  return grounds.get(el);
}
const faint = [], wide = [];
let texts = 0;
for (const el of document.body.querySelectorAll("*")) {
  if (![...el.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const style = getComputedStyle(el), box = el.getBoundingClientRect();
  if (!box.width || el.closest(".vh, .skip")) continue;
  texts += 1;
  const a = light(rgb(el.closest("svg") ? style.fill : style.color)), b = light(ground(el));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5)) faint.push([el.textContent.trim().slice(0, 40), ratio]);
  if (box.right > width + 1 && !el.closest(".scroll, pre, .out, .wide")) wide.push(el.textContent.trim().slice(0, 40));
}
return {texts, scroll: document.documentElement.scrollWidth, faint, wide,
        dark: light(rgb(getComputedStyle(document.body).backgroundColor)) < 0.2};
}"""
AXE = """async () => {
const found = await axe.run(document, {resultTypes: ["violations"], preload: false});
return [found.passes.length, found.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 120)])];
}"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def files(pages, tmp_path_factory):
    """Return every kind of page and the index, each a file."""
    root = tmp_path_factory.mktemp("index")
    (root / "receipts" / "demo").mkdir(parents=True)
    for name in ("PASS", "RED"):
        (root / "receipts" / "demo" / f"{name}.json").write_bytes(seal(fakes.kinds()[name]))
    index = write_index(root / "receipts", root / "reports")
    return {**{kind: pages[kind] / "report.html" for kind in KINDS}, "INDEX": index}


@pytest.fixture(scope="module", params=EVERY)
def seen(files, request):
    """Return what the browser measured on every page, width and scheme, and what axe-core found in each scheme."""
    script = browsing.NODE_MODULES / "axe-core/axe.min.js"
    axe = script.read_text(encoding="utf-8") if script.is_file() else ""
    looks, found = [], {}
    with browsing.opened() as page:
        for name in request.param:
            page.goto(files[name].as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            if axe:
                page.evaluate(axe)
            for scheme in browsing.SCHEMES:
                page.emulate_media(color_scheme=scheme)
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 900})
                    looks.append({"name": name, "width": width, "scheme": scheme, **page.evaluate(LOOK, width)})
                if axe and (request.param is ALL or scheme == "light"):
                    found[name, scheme] = page.evaluate(AXE)
    return request.param, looks, found


def test_every_page_was_looked_at_in_the_scheme_asked_for(seen):
    names, looks, _ = seen
    assert len(looks) == len(names) * len(WIDTHS) * len(browsing.SCHEMES)
    assert [one for one in looks if one["dark"] != (one["scheme"] == "dark")] == []


def test_no_page_is_wider_than_the_screen(seen):
    assert [(one["name"], one["width"], one["scroll"]) for one in seen[1] if one["scroll"] > one["width"]] == []


def test_no_text_is_cut_off(seen):
    assert [(one["name"], one["width"], one["wide"]) for one in seen[1] if one["wide"]] == []


def test_text_contrast_is_aa(seen):
    assert [(one["name"], one["scheme"], one["faint"][:3]) for one in seen[1] if one["faint"]] == []
    assert all(one["texts"] > 40 for one in seen[1])


def test_axe_finds_nothing(seen):
    browsing.npm_file("axe-core/axe.min.js")
    names, _, found = seen
    assert {name: violations for name, (_, violations) in found.items() if violations} == {}
    assert len(found) == len(names) * (2 if names is ALL else 1)
    assert all(passes > 15 for passes, _ in found.values())


@pytest.mark.parametrize("names", EVERY)
def test_html_validate_is_content(files, names):
    program = browsing.npm_file("html-validate/bin/html-validate.mjs")
    node = browsing.needed(shutil.which("node"), "node", "apt-get install nodejs npm")
    config = browsing.HERE / ".htmlvalidate.json"
    pages = [str(files[name]) for name in names]
    command = [node, str(program), "-c", str(config), "-f", "text", *pages]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout[-2000:]) == (0, "")


FOLDED = "document.querySelector('details.model:not([open]) tr[id]')"
UNSEEN = """[...document.querySelectorAll("details.model > :not(summary)")].filter(
  one => !one.checkVisibility() || one.getBoundingClientRect().height < 1).length"""


@pytest.fixture(scope="module")
def folding(files):
    """Return what is folded on the page of five models: on a screen, on paper, and after a link into it."""
    out = {}
    with browsing.opened() as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(files["FULL"].as_uri())
        out["height"] = page.evaluate("document.documentElement.scrollHeight")
        out["unseen"] = page.evaluate(UNSEEN)
        page.emulate_media(media="print")
        out["unseen on paper"] = page.evaluate(UNSEEN)
        page.emulate_media(media="screen")
        row = page.evaluate(f"{FOLDED}.id")
        page.goto(f"{files['FULL'].as_uri()}#{row}")
        out["linked"] = page.evaluate("row => document.getElementById(row).closest('details').open", row)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        out["height of all"] = page.evaluate("document.documentElement.scrollHeight")
    return out


def test_a_phone_shows_folded_models_and_paper_all(folding):
    assert folding["unseen"] > 15
    assert folding["unseen on paper"] == 0
    assert folding["height"] < 0.6 * folding["height of all"]


def test_a_link_to_a_folded_row_opens_its_model(folding):
    assert folding["linked"]

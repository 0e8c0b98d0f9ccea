"""The pages in a real browser: nothing wider than the screen, text that can be read, in light and dark.

Needs Chromium (``apt-get install chromium``), which ``.ci/run`` installs. In CI (``CI`` set) they fail without it, elsewhere they are skipped
by name.
"""

import json
import sys

import pytest

browsing = sys.modules["browsing"]
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")
WIDTHS = (390, 768, 1280)
PROBE = """
<!doctype html><meta charset="utf-8"><body style="margin:0"><pre id="out"></pre><script>
const pages = PAGES, out = [];
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgb = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
function ground(win, el) {
  for (; el; el = el.parentElement) {
    const c = rgb(win.getComputedStyle(el).backgroundColor);
    if (c.length === 3 || c[3] > 0.99) return c;
  }
  return [255, 255, 255];
}
function look(win, doc, name, width) {
  doc.querySelectorAll("details").forEach(d => d.open = true);
  const faint = [], wide = [];
  let texts = 0;
  for (const el of doc.body.querySelectorAll("*")) {
    const own = [...el.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const style = win.getComputedStyle(el), box = el.getBoundingClientRect();
    if (!own || !box.width || el.closest(".vh, .skip")) continue;
    texts += 1;
    const a = light(rgb(el.closest("svg") ? style.fill : style.color)), b = light(ground(win, el));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push([el.textContent.trim().slice(0, 40), ratio]);
    if (box.right > width + 1 && !el.closest(".scroll, pre, .out")) wide.push(el.textContent.trim().slice(0, 40));
  }
  out.push({name, width, texts, scroll: doc.documentElement.scrollWidth, faint, wide,
            dark: light(rgb(win.getComputedStyle(doc.body).backgroundColor)) < 0.2});
}
let left = pages.length;
for (const [name, width] of pages) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    look(frame.contentWindow, frame.contentDocument, name, width);
    if (!--left) document.getElementById("out").textContent = JSON.stringify(out);
  };
  frame.src = name + "/report.html";
  document.body.append(frame);
}
</script>
"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=browsing.SCHEMES)
def seen(request, pages, tmp_path_factory):
    """Return what the browser measured on every page and width, in one colour scheme."""
    root = next(iter(pages.values())).parent
    wanted = [[kind, width] for kind in KINDS for width in WIDTHS]
    probe = root / f"probe-{request.param}.html"
    probe.write_text(PROBE.replace("PAGES", json.dumps(wanted)), encoding="utf-8")
    pages_seen = json.loads(browsing.said(probe, request.param, tmp_path_factory.mktemp("browser")))
    assert len(pages_seen) == len(wanted)
    return request.param, pages_seen


def test_the_scheme_asked_for_is_the_one_shown(seen):
    scheme, looked = seen
    assert {one["dark"] for one in looked} == {scheme == "dark"}


def test_no_page_is_wider_than_the_screen(seen):
    assert [(one["name"], one["width"], one["scroll"]) for one in seen[1] if one["scroll"] > one["width"]] == []


def test_no_text_is_cut_off(seen):
    assert [(one["name"], one["width"], one["wide"]) for one in seen[1] if one["wide"]] == []


def test_text_contrast_is_aa(seen):
    assert [(one["name"], one["faint"][:3]) for one in seen[1] if one["faint"]] == []
    assert all(one["texts"] > 40 for one in seen[1])

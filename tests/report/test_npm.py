"""The pages before tools that others trust: axe-core finds nothing in light and dark, html-validate is content.

Two rules of html-validate are off (``.htmlvalidate.json``): the roles of tables are not redundant where narrow screens
show rows as blocks, and blanks at the end of a line may belong to a notebook's code.
"""

import json
import re
import shutil
import subprocess
import sys

import pytest

from lqw.receipt.build import seal
from lqw.report.index import write_index

browsing, fakes = sys.modules["browsing"], sys.modules["fakes"]
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "INCOMPLETE")
RUN = """<script src="axe.js"></script><script>
const send = found => parent.postMessage(JSON.stringify([NAME, found]), "*");
axe.run(document, {resultTypes: ["violations"]}).then(
  r => send([r.passes.length, r.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 120)])]),
  e => send([0, [["error", 1, String(e)]]]));
</script></body>"""
GATHER = """<!doctype html><pre id="out"></pre><script>
const out = [];
onmessage = e => {
  out.push(JSON.parse(e.data));
  if (out.length == COUNT) document.getElementById("out").textContent = JSON.stringify(out);
};
</script>"""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def looked_at(pages, tmp_path_factory):
    """Return the five kinds of page and the index, each a file."""
    root = tmp_path_factory.mktemp("index")
    (root / "receipts" / "demo").mkdir(parents=True)
    for name in ("PASS", "RED"):
        (root / "receipts" / "demo" / f"{name}.json").write_bytes(seal(fakes.kinds()[name]))
    index = write_index(root / "receipts", root / "reports")
    return {**{kind: pages[kind] / "report.html" for kind in KINDS}, "INDEX": index}


@pytest.mark.parametrize("scheme", browsing.SCHEMES)
def test_axe_finds_nothing(looked_at, scheme, tmp_path):
    (tmp_path / "axe.js").write_bytes(browsing.npm_file("axe-core/axe.min.js").read_bytes())
    for name, page in looked_at.items():
        open_to_scripts, policies = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
        assert policies == 1
        (tmp_path / f"{name}.html").write_text(
            open_to_scripts.replace("</body>", RUN.replace("NAME", json.dumps(name)))
        )
    frames = "".join(f'<iframe src="{name}.html" style="width:1280px;height:900px"></iframe>' for name in looked_at)
    (tmp_path / "all.html").write_text(GATHER.replace("COUNT", str(len(looked_at))) + frames)
    found = dict(json.loads(browsing.said(tmp_path / "all.html", scheme, tmp_path / "home")))
    assert {name: violations for name, (_, violations) in found.items() if violations} == {}
    assert all(passes > 15 for passes, _ in found.values())


def test_html_validate_is_content(looked_at, tmp_path):
    program = browsing.npm_file("html-validate/bin/html-validate.mjs")
    node = browsing.needed(shutil.which("node"), "node", "apt-get install nodejs npm")
    config = browsing.HERE / ".htmlvalidate.json"
    command = [node, str(program), "-c", str(config), "-f", "text", *map(str, looked_at.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout[-2000:]) == (0, "")

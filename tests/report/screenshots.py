"""``make screenshots [INTO]``: every kind of page at three widths, in light and dark, and as print PDF.

The pictures of the documentation are made too: the first screens of the example pages, which are of real runs.
"""

import importlib.util
import io
import re
import sys
import time
from pathlib import Path

from PIL import Image

from lqw.report import render

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
SHOWN = (("0.72.3", 1280, 760), ("0.72.3-per-token", 1280, 760), ("0.72.3-per-token", 390, 760))
COLOURS = 64
WIDTHS = (1280, 768, 390)
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "INCOMPLETE", "FULL")


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def shoot(tab, schemes, page, into):
    """Write the pictures and the PDF of one page; return its height at the last of the widths and its sheets of A4."""
    for scheme in schemes:
        tab.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 1600})
            tab.goto(page.as_uri())
            tab.screenshot(path=into / f"{width}-{scheme}.png")
    high_px = tab.evaluate("document.documentElement.scrollHeight")
    tab.emulate_media(media="print")
    pdf = tab.pdf(path=into / "print.pdf", prefer_css_page_size=True)
    tab.emulate_media(media="screen")
    return high_px, len(re.findall(rb"/Type\s*/Page\b", pdf))


def picture_docs(tab):
    """Write the pictures that the documentation shows of pages of real runs."""
    (DOCS / "pictures").mkdir(exist_ok=True)
    tab.emulate_media(media="screen", color_scheme="light")
    for release, width, height in SHOWN:
        tab.set_viewport_size({"width": width, "height": height})
        tab.goto((DOCS / "examples" / f"h200-{release}.html").as_uri())
        seen = Image.open(io.BytesIO(tab.screenshot())).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        seen.save(DOCS / "pictures" / f"h200-{release}-{width}.png", optimize=True)


def main(into):
    """Render every kind of page, photograph it, and print sizes, render times and lengths as a table."""
    fakes, browsing = load("fakes"), load("browsing")
    receipts = {**fakes.kinds(), "FULL": fakes.full()}
    print(f"| page | KiB | rendered in | px high at {WIDTHS[-1]} px | sheets of A4 |\n|---|--:|--:|--:|--:|")
    with browsing.opened() as tab:
        for kind in KINDS:
            folder = into / kind
            if kind == "INCOMPLETE":
                fakes.broken_run(folder)
            else:
                fakes.write_run(folder, receipts[kind], notebooks=fakes.chain())
            began = time.perf_counter()
            page = render(folder)
            took = time.perf_counter() - began
            high_px, sheets = shoot(tab, browsing.SCHEMES, page.resolve(), folder.resolve())
            print(f"| {kind} | {page.stat().st_size / 1024:.0f} | {took:.2f} s | {high_px:,} | {sheets} |", flush=True)
        picture_docs(tab)
    print(into)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/screenshots"))

"""``make screenshots [INTO]``: every kind of page at three widths, in light and dark, and as print PDF."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lqw.report import render

HERE = Path(__file__).parent
WIDTHS = (1280, 768)  # and 390 px in a frame: Chromium's own window is 500 px wide at least
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "INCOMPLETE", "FULL")


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def shoot(browsing, page, into, home):
    """Write the pictures and the PDF of one page."""
    base = [browsing.chromium(), *browsing.FLAGS, f"--user-data-dir={home}"]
    for scheme, number in browsing.SCHEMES.items():
        look = [*base, f"--blink-settings=preferredColorScheme={number}"]
        for width in WIDTHS:
            shot = f"--screenshot={into / f'{width}-{scheme}.png'}"
            subprocess.run([*look, f"--window-size={width},1600", shot, page.as_uri()], check=True, capture_output=True)
        frame = into / f"390-{scheme}.html"
        frame.write_text(
            f'<!doctype html><body style="margin:0"><iframe src="{page.as_uri()}" style="width:390px;height:1600px;'
            'border:0"></iframe>'
        )
        shot = f"--screenshot={into / f'390-{scheme}.png'}"
        subprocess.run([*look, "--window-size=500,1600", shot, frame.as_uri()], check=True, capture_output=True)
        frame.unlink()
    pdf = f"--print-to-pdf={into / 'print.pdf'}"
    subprocess.run([*base, "--no-pdf-header-footer", pdf, page.as_uri()], check=True, capture_output=True)


def main(into):
    """Render every kind of page, photograph it, and print sizes and render times."""
    fakes, browsing = load("fakes"), load("browsing")
    receipts = {**fakes.kinds(), "FULL": fakes.full()}
    print("page          rows     KiB   rendered in")
    with tempfile.TemporaryDirectory(prefix="lqw-screenshots-") as home:
        for kind in KINDS:
            folder = into / kind
            if kind == "INCOMPLETE":
                fakes.broken_run(folder)
            else:
                fakes.write_run(folder, receipts[kind], notebooks=fakes.chain())
            began = time.perf_counter()
            page = render(folder)
            took = time.perf_counter() - began
            rows = len(receipts[kind]["judgement"]["rows"]) if kind in receipts else 0
            print(f"{kind:12} {rows:5} {page.stat().st_size / 1024:7.0f}   {took:.2f} s")
            shoot(browsing, page.resolve(), folder.resolve(), home)
    print(into)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/screenshots"))

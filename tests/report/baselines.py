"""``python -m tests.report.baselines``: keep new pictures of the first screen of every kind of page, for review.

Every picture is drawn with the fonts that matplotlib brings, so that lines break in the same places on every machine.
Compared are the means of cells of 8 and of 64 px: the edges of letters vanish; places show in the small cells, colours in
the large ones.
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image

KEPT = Path(__file__).parent / "baselines"
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "INCOMPLETE")
VIEWS = {
    "1280": ("screen", "light", 1280, 800),
    "768": ("screen", "light", 768, 800),
    "390": ("screen", "light", 390, 844),
    "390-dark": ("screen", "dark", 390, 844),
    "A4": ("print", "light", 688, 1017),  # 210 × 297 mm less the margins of 14 mm, at 96 px an inch
}
NAMES = [f"{kind}-{view}" for kind in KINDS for view in VIEWS]
MOST = {8: 45.0, 64: 5.0}  # px a cell, and how far its mean may go, of 255: see docs/measured/pages.md
COLOURS = 256  # a palette a picture: a quarter of the bytes, and cells that differ by less than letters do
FACES = (
    ("lqw-sans", "400", "DejaVuSans"),
    ("lqw-sans", "600 800", "DejaVuSans-Bold"),
    ("lqw-mono", "400", "DejaVuSansMono"),
    ("lqw-mono", "600 800", "DejaVuSansMono-Bold"),
)
DRESS = """async faces => {
for (const [family, weight, data] of faces) {
  const bytes = Uint8Array.from(atob(data), one => one.charCodeAt(0));
  document.fonts.add(await new FontFace(family, bytes, {weight}).load());
}
for (const name of ["sans", "mono"]) document.documentElement.style.setProperty(`--${name}`, `lqw-${name}`);
await document.fonts.ready;
}"""


def faces():
    """Return family, weights and base64 of every font, as :data:`DRESS` takes them."""
    folder = Path(mpl.get_data_path()) / "fonts/ttf"
    return [
        [family, weight, base64.b64encode((folder / f"{name}.ttf").read_bytes()).decode()]
        for family, weight, name in FACES
    ]


def shown(tab, page, fonts):
    """Open *page* in the tab, drawn with *fonts*."""
    tab.goto(page.as_uri())
    tab.evaluate(DRESS, fonts)


def shot(tab, view):
    """Return the picture of what the tab shows in one of :data:`VIEWS`, RGB."""
    media, scheme, width, height = VIEWS[view]
    tab.emulate_media(media=media, color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": height})
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


def kept(name):
    """Return the kept picture of one of :data:`NAMES`, RGB."""
    return Image.open(KEPT / f"{name}.png").convert("RGB")


def difference(one, other):
    """Return how far two pictures are apart, as a share of what is allowed: above 1 they differ."""
    if one.size != other.size:
        return float("inf")
    apart = np.asarray(one, float) - np.asarray(other, float)
    return max(_largest(apart, cell) / most for cell, most in MOST.items())


def _largest(apart, cell):
    """Return the largest mean of a channel over a square of *cell* px."""
    high, wide = apart.shape[0] // cell, apart.shape[1] // cell
    cells = apart[: high * cell, : wide * cell].reshape(high, cell, wide, cell, 3).mean(axis=(1, 3))
    return float(np.abs(cells).max())


def main():
    """Render the five kinds, write their pictures, and say how far each is from the one it replaces."""
    from lqw.report import render  # noqa: PLC0415 - the tests that use this module have their pages
    from tests.report.screenshots import load  # noqa: PLC0415

    fakes, browsing = load("fakes"), load("browsing")
    KEPT.mkdir(exist_ok=True)
    fonts = faces()
    with tempfile.TemporaryDirectory() as root, browsing.opened() as tab:
        for kind in KINDS:
            folder = Path(root) / kind
            if kind == "INCOMPLETE":
                fakes.broken_run(folder)
            else:
                fakes.write_run(folder, fakes.kinds()[kind], notebooks=fakes.chain())
            shown(tab, render(folder), fonts)
            for view in VIEWS:
                name, picture = f"{kind}-{view}", shot(tab, view)
                file = KEPT / f"{name}.png"
                apart = f"{difference(picture, kept(name)):.2f} of what is allowed" if file.is_file() else "new"
                picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
                sys.stdout.write(f"{name:20} {apart}\n")


if __name__ == "__main__":
    main()

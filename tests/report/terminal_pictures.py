"""``python -m tests.report.terminal_pictures``: the documentation's pictures of a terminal of 80 columns, each of a real run.

``lqw show`` of a committed receipt, and a gate while it measures, on the fake engine (tmux keeps its screen).
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.command import LQW
from tests.support.fake_params import ENVIRONMENT, SPEED, write_params

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, LINES = 80, 34
COLOURS = 32
PAGE = (
    "<!doctype html><style>body{{margin:0;background:{background};color:{foreground}}}{stylesheet}"
    "pre{{display:inline-block;margin:0;padding:14px;font:14px/1.25 'DejaVu Sans Mono',monospace}}</style><pre>{code}</pre>"
)
MINUTES_3 = 180


def shown():
    """Return what ``lqw show`` prints of a receipt that is RED, with its colours."""
    command = [*LQW, "show", "receipts/h200/0.72.3-per-token.json"]
    wide = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    return subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=True).stdout


def running():
    """Return the screen of a gate on the fake engine while half of its starts are done; None without tmux."""
    if shutil.which("tmux") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        release = write_params(Path(folder), releases={"1.0.0": SPEED}) / "1.0.0.yaml"
        tmux = ["tmux", "-S", f"{folder}/tmux"]
        gate = [*LQW, "baseline", "adopt", str(release), "--store", "store", "--run", "run"]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        known = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
        subprocess.run([*tmux, "new-session", "-d", *size, *gate], cwd=folder, env=known, check=True)
        try:
            until = time.monotonic() + MINUTES_3
            while time.monotonic() < until:
                seen = subprocess.run(
                    [*tmux, "capture-pane", "-p", "-e"], capture_output=True, text=True, check=True
                ).stdout
                if " 6/12 " in seen and "·" in seen:
                    return seen
                time.sleep(0.1)
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
    raise TimeoutError(f"no gate of 12 starts had 6 of them done within {MINUTES_3} s; its last screen: {seen}")


def picture(tab, ansi, name):
    """Write a picture of terminal output, its colours kept."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(ansi.rstrip()))
    tab.set_content(console.export_html(theme=MONOKAI, code_format=PAGE))
    seen = Image.open(io.BytesIO(tab.locator("pre").screenshot())).convert("RGB")
    seen.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / f"terminal-{name}.png", optimize=True)


def main():
    """Write the pictures; say which could not be made."""
    from tests.report.browsing import opened  # noqa: PLC0415

    with opened() as tab:
        picture(tab, shown(), "show")
        live = running()
        if live is None:
            sys.stdout.write("no tmux (apt-get install tmux): terminal-running.png is left as it was\n")
        else:
            picture(tab, live, "running")


if __name__ == "__main__":
    main()

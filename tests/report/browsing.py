"""Chromium without a window, and the npm tools beside it: found or skipped by name; in CI they must be there."""

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE_MODULES = HERE / "node_modules"
SCHEMES = {"dark": 0, "light": 1}  # as Chromium's preferredColorScheme counts them
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--allow-file-access-from-files", "--hide-scrollbars",
)  # fmt: skip


def needed(found, name, how):
    """Return *found*; without it fail in CI, and elsewhere skip by name."""
    if not found and not os.environ.get("CI"):
        pytest.skip(f"no {name} on this machine (CI installs it and must not skip): {how}")
    assert found, f"CI installs {name}: {how}"
    return found


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return needed(next(filter(None, map(shutil.which, names)), None), "Chromium", "apt-get install chromium")


def npm_file(path):
    found = NODE_MODULES / path
    return needed(found if found.is_file() else None, path.split("/")[0], "npm install --prefix tests/report")


def said(page, scheme, home):
    """Return what the scripts of *page* leave in ``<pre id="out">``."""
    command = [chromium(), *FLAGS, f"--user-data-dir={home}", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
               "--virtual-time-budget=60000", "--dump-dom", page.as_uri()]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env={**os.environ, "HOME": str(home)}
    )
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return html.unescape(found.group(1))

"""Chromium without a window, and the npm tools beside it: found or skipped by name; in CI they must be there."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE_MODULES = HERE / "node_modules"
SCHEMES = ("light", "dark")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none", "--hide-scrollbars")


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


@contextmanager
def opened():
    """Yield one page of one browser process; every file is shown in it in turn."""
    program = chromium()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - slow to load, and of no use without Chromium

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser.new_page()
        finally:
            browser.close()

"""The lab as an analyst meets it: ``lqw lab``, JupyterLab, Chromium; a slider is moved and the tables change."""

import io
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from lqw.host.ports import free_port

ROOT = Path(__file__).parents[2]
SHOTS = "LQW_LAB_SCREENSHOTS"  # a folder, where pictures are wanted
MINUTES_2 = 120_000

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]


def _chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if not found and not os.environ.get("CI"):
        pytest.skip("no Chromium on this machine (CI installs it and must not skip): apt-get install chromium")
    assert found, "CI installs chromium"
    return found


@contextmanager
def _lab(home):
    """Yield the address that ``lqw lab`` prints; the server ends with the block."""
    own = {name: str(home / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR",
                                               "IPYTHONDIR", "HOME")}  # fmt: skip
    for folder in own.values():
        Path(folder).mkdir(exist_ok=True)
    command = [sys.executable, "-c", "from lqw.cli.app import main; main()", "lab", "--folder", str(home / "lab"),
               "--port", str(free_port()), "--no-browser", *(["--allow-root"] if os.geteuid() == 0 else [])]  # fmt: skip
    environment = {**os.environ, **own, "PYTHONPATH": str(ROOT), "JUPYTER_TOKEN": "of-this-test"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    try:
        yield _address(server, home / "server.log")
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address(server, log):
    while server.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/lab/tree/\S+\.ipynb", log.read_text())
        if found:
            return f"{found[0]}?token=of-this-test"
        try:
            server.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"lqw lab ended: {log.read_text()[-2000:]}")


def _run_all(page):
    page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=MINUTES_2)
    page.get_by_text(re.compile(r"Python 3.*Idle")).first.wait_for(timeout=MINUTES_2)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.get_by_text("test_method_two_errors.py: not written").first.wait_for(timeout=MINUTES_2)
    page.locator(".widget-tab .lqw-lab tbody tr").first.wait_for(timeout=MINUTES_2)


SEEN = "what => [...document.querySelectorAll(what)].find(one => one.offsetParent)?.textContent ?? ''"
FIGURE = ".widget-tab .lqw-lab"
CHANGED = f"([what, before]) => {{ const now = ({SEEN})(what); return now !== '' && now !== before }}"


def _moved(page, what, before):
    """Return what the visible element shows once it is no longer *before*."""
    page.wait_for_function(CHANGED, arg=[what, before], timeout=60_000)
    return page.evaluate(SEEN, what)


def _shot(page, name):
    if SHOTS in os.environ:
        into = Path(os.environ[SHOTS])
        into.mkdir(parents=True, exist_ok=True)
        seen = Image.open(io.BytesIO(page.locator(".jp-OutputArea-output:has(.widget-tab)").first.screenshot()))
        seen.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(into / f"{name}.png", optimize=True)


def test_a_slider_moved_in_jupyterlab_changes_the_tables_and_a_tried_method_is_there(tmp_path):
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - its import alone takes a second

    table, summary = ".widget-tab .lqw-lab table", ".widget-vbox > .widget-html .lqw-lab table"
    with _lab(tmp_path) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 1500})
        page.goto(address)
        _run_all(page)
        assert page.locator(".lqw-lab.warn", has_text="SYNTHETIC").count() == 1
        assert "two-errors" in page.evaluate(SEEN, summary)
        margin = page.locator(".widget-slider .noUi-handle").nth(1)
        seen = ""
        for name, key in (("Releases", "Home"), ("Rows", "End"), ("Flips", "Home")):
            page.locator(".widget-tab .lm-TabBar-tab", has_text=name).click()
            seen, said = _moved(page, table, seen), page.evaluate(SEEN, summary)
            margin.focus()
            began = time.perf_counter()
            page.keyboard.press(key)
            seen = _moved(page, table, seen)
            sys.stdout.write(f"{name}: margin moved, changed page after {time.perf_counter() - began:.2f} s\n")
            assert "gate-v1" in seen
            assert _moved(page, summary, said) != said
            if name == "Rows":
                _shot(page, "rows-moved")
        page.locator(".widget-tab .lm-TabBar-tab", has_text="Curves").click()
        page.locator(".widget-tab figure svg[role=img]").nth(2).wait_for()
        drawn = page.evaluate(SEEN, FIGURE)
        margin.focus()
        began = time.perf_counter()
        page.keyboard.press("PageUp")
        assert _moved(page, FIGURE, drawn) != drawn
        sys.stdout.write(f"Curves: margin moved, changed page after {time.perf_counter() - began:.2f} s\n")
        control = page.locator(".widget-dropdown", has_text="simulated releases").locator("select")
        for asked in ("2000", "100"):  # 2,000 are begun and shown, then no longer asked for
            drawn = page.evaluate(SEEN, FIGURE)
            began = time.perf_counter()
            control.select_option(asked)
            assert _moved(page, FIGURE, drawn) != drawn
            sys.stdout.write(f"Curves: {asked} asked for, changed page after {time.perf_counter() - began:.2f} s\n")
            if asked == "2000":
                assert "of 2000 simulated" in page.evaluate(SEEN, FIGURE)
        margin.focus()
        page.keyboard.press("PageUp")
        page.locator(FIGURE, has_text=re.compile(r"\(\d+ of 100 simulated")).first.wait_for()
        _complete(page, "100")
        page.wait_for_timeout(1500)  # nothing else that began before may still be drawing
        assert page.evaluate(SEEN, FIGURE).count("(100 simulated)") == 2
        _shot(page, "curves")
        browser.close()


def _complete(page, asked):
    """Wait until both simulations have the number asked for; nobody touches the page."""
    began = time.perf_counter()
    page.wait_for_function(f"() => ({SEEN})({FIGURE!r}).split('({asked} simulated)').length === 3", timeout=2 * MINUTES_2)
    sys.stdout.write(f"Curves: all {asked} releases simulated {time.perf_counter() - began:.2f} s later\n")

"""The analysts' notebook, run headless and no notebook of the chain knows of it."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from lqw.errors import UsageError
from lqw.lab import guard
from lqw.pipeline.runs import STAGES

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "sandbox" / "noise_band_lab.ipynb"


def _need(*modules, chromium=False):
    """Skip by name what this machine lacks; CI installs it and must not skip."""
    missing = [name for name in modules if shutil.which(name) is None and not _found(name)]
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    missing += ["chromium"] if chromium and browser is None else []
    if missing and not os.environ.get("CI"):
        pytest.skip(f"not on this machine: {', '.join(missing)} (make test installs [lab]; apt-get install chromium)")
    assert not missing, f"CI installs {missing}"
    return browser


def _found(module):
    import importlib.util  # noqa: PLC0415

    return importlib.util.find_spec(module) is not None


def test_no_notebook_of_the_chain_knows_of_the_lab():
    assert NOTEBOOK.stem not in STAGES
    for stage in STAGES:
        assert "lqw.lab" not in (ROOT / "notebooks" / f"{stage}.py").read_text()


def test_every_change_of_a_control_changes_what_is_shown():
    _need("ipywidgets")
    from lqw.lab.panel import VIEWS, open_lab  # noqa: PLC0415

    lab = open_lab([])
    releases, rows, flips, curves, needs = range(len(VIEWS))
    shown = lambda: lab.views[VIEWS[lab.tabs.selected_index]].value  # noqa: E731
    assert "SYNTHETIC" in lab.panel.children[0].value
    assert "never gates" in lab.panel.children[0].value
    changes = {
        releases: [(lab.margin, 1.5), (lab.second, "fixed-band-10"), (lab.looks, "3, 5")],
        rows: [(lab.alpha, 9.0), (lab.tau, 2.0), (lab.release, 10)],
        flips: [(lab.tau, 0.0), (lab.second, "fixed-band-5")],
        curves: [(lab.margin, 20.0), (lab.sims, 100)],
        needs: [(lab.tau, 3.0)],
    }
    for tab, settings in changes.items():
        lab.tabs.selected_index = tab
        for control, value in settings:
            before = shown()
            control.value = value
            assert shown() != before, (VIEWS[tab], control.description)
    assert "gate-v1" in lab.summary.value
    assert "flips of the record" in lab.summary.value
    assert "✖ RED" in lab.release.options[10][0]
    before = shown()
    lab.looks.value = "5, 3"
    assert "rising" in lab.message.value
    assert shown() == before
    lab.looks.value = "3, 5"
    assert lab.message.value == ""


def test_a_simulation_shows_what_it_knows_goes_on_behind_and_stops_at_the_next_change(monkeypatch):
    _need("ipywidgets")
    from lqw.lab import behind, panel  # noqa: PLC0415

    monkeypatch.setattr(panel, "AT_ONCE_S", 0.0)
    monkeypatch.setattr(behind, "SHOWN_S", 0.0)

    async def use():
        lab = panel.open_lab([])
        lab.sims.value = 100
        lab.tabs.selected_index = panel.VIEWS.index(panel.CURVES)
        shown = lambda: re.findall(r"\((\d+(?: of \d+)?) simulated", lab.views[panel.CURVES].value)  # noqa: E731
        assert shown() == ["2 of 100", "2 of 100"]
        while shown() == ["2 of 100", "2 of 100"]:
            await asyncio.sleep(0.01)
        before = lab.policy
        lab.margin.value = 20.0
        assert shown() == ["2 of 100", "2 of 100"]
        stopped = [one.releases for one in lab._simulations.of(lab.names, before).values()]  # noqa: SLF001
        while shown() != ["100", "100"]:
            await asyncio.sleep(0.01)
        assert [one.releases for one in lab._simulations.of(lab.names, before).values()] == stopped  # noqa: SLF001
        assert max(stopped) < 100
        lab.sims.value = 400
        assert shown() != ["400", "400"]
        lab.finish()
        assert shown() == ["400", "400"]

    asyncio.run(asyncio.wait_for(use(), 60))


def test_a_change_heard_of_in_another_thread_stops_what_goes_on_in_this_one(monkeypatch):
    _need("ipywidgets")
    from lqw.lab import panel  # noqa: PLC0415

    monkeypatch.setattr(panel, "AT_ONCE_S", 0.0)

    async def elsewhere(lab):
        lab.margin.value = 20.0
        while "(100 simulated)" not in lab.views[panel.CURVES].value:
            await asyncio.sleep(0.01)

    async def use():
        lab = panel.open_lab([])
        lab.sims.value = 2000
        lab.tabs.selected_index = panel.VIEWS.index(panel.CURVES)
        lab.sims.value, before = 100, lab.policy
        lab.sims.value = 2000
        await asyncio.to_thread(lambda: setattr(lab.sims, "value", 100))
        await asyncio.to_thread(asyncio.run, elsewhere(lab))
        known = [one.releases for one in lab._simulations.of(lab.names, before).values()]  # noqa: SLF001
        await asyncio.sleep(1)
        assert [one.releases for one in lab._simulations.of(lab.names, before).values()] == known  # noqa: SLF001
        assert lab.views[panel.CURVES].value.count("(100 simulated)") == 2

    asyncio.run(asyncio.wait_for(use(), 60))


def test_a_method_that_raises_in_the_middle_of_its_simulation_is_named(monkeypatch):
    _need("ipywidgets")
    from lqw.lab import panel  # noqa: PLC0415
    from lqw.noise.methods import METHODS  # noqa: PLC0415

    monkeypatch.setattr(panel, "AT_ONCE_S", 0.0)
    asked = []

    def weak(batch, policy, look, m):
        if asked:
            raise ZeroDivisionError("<no spread>")
        return METHODS["fixed-band-10"](batch, policy, look=look, m=m)

    async def use():
        lab = panel.open_lab([])
        lab.try_method("weak", weak)
        lab.tabs.selected_index = panel.VIEWS.index(panel.NEEDS)
        asked.append(True)
        while not lab.message.value:
            await asyncio.sleep(0.01)
        assert "the simulation stopped: ZeroDivisionError: &lt;no spread&gt;" in lab.message.value

    asyncio.run(asyncio.wait_for(use(), 60))


def test_a_hostile_release_name_is_only_text():
    _need("ipywidgets")
    from dataclasses import replace  # noqa: PLC0415

    from lqw.lab.history import History  # noqa: PLC0415
    from lqw.lab.panel import Lab  # noqa: PLC0415
    from lqw.lab.synthetic import synthetic_history  # noqa: PLC0415

    one = synthetic_history(1).releases[0]
    lab = Lab(History((replace(one, name="<img src=x onerror=alert(1)>"),), "x", synthetic=True), ("<b>bad</b>",))
    shown = "".join([lab.panel.children[0].value, *(view.value for view in lab.views.values())])
    assert "<img" not in shown
    assert "<b>" not in shown
    assert "&lt;img" in shown


def test_the_lab_refuses_to_open_in_a_gating_kernel(monkeypatch):
    _need("ipywidgets")
    from lqw.lab.panel import open_lab  # noqa: PLC0415

    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", guard.CHAIN_KERNEL])
    with pytest.raises(UsageError, match="never gates"):
        open_lab()


def test_the_notebook_runs_headless_and_leaves_the_checkout_alone(tmp_path, monkeypatch):
    _need("ipywidgets")
    import nbformat  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv(guard.RECEIPTS_VARIABLE, raising=False)
    book = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}, kernel_name="python3").execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = json.dumps([cell.outputs for cell in code])
    assert "application/vnd.jupyter.widget-view+json" in outputs
    assert "test_method_two_errors.py: not written" in outputs
    assert "error" not in {one.output_type for cell in code for one in cell.outputs}
    assert not (ROOT / "lqw" / "noise" / "methods" / "two_errors.py").exists()

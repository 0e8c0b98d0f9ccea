"""Rendered pages of every kind, made once."""

import fcntl
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

import pytest

from lqw.report import render

HERE = Path(__file__).parent


def _load(name):
    """Load a helper module of this folder: pytest's importlib mode does not put it on the path."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fakes = _load("fakes")
markup = _load("markup")
browsing = _load("browsing")
baselines = _load("baselines")
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")


def _render_all(root):
    for name, receipt in {**fakes.kinds(), "FULL": fakes.full()}.items():
        fakes.write_run(root / name, receipt, notebooks=fakes.chain())
    fakes.broken_run(root / "INCOMPLETE")
    for kind in KINDS:
        render(root / kind)


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Return the folder of each kind's rendered run, by name; the workers of one session share them."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "pages"
    with (base.parent / "pages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "made").exists():
            _render_all(root)
            (root / "made").touch()
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def parsed(pages):
    """Return each kind's page as the strict reader saw it."""
    return cache(lambda kind: markup.Page((pages[kind] / "report.html").read_text(encoding="utf-8")))

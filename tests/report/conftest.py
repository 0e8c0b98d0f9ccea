"""Rendered pages of every kind, made once."""

import importlib.util
import sys
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
KINDS = ("PASS", "RED", "UNDECIDED", "VOID", "FLOOR", "INVALID", "FAILED", "INCOMPLETE", "FULL")


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Return the folder of each kind's rendered run, by name."""
    root = tmp_path_factory.mktemp("pages")
    out = {}
    for name, receipt in {**fakes.kinds(), "FULL": fakes.full()}.items():
        out[name] = fakes.write_run(root / name, receipt, notebooks=fakes.chain())
    out["INCOMPLETE"] = fakes.broken_run(root / "INCOMPLETE")
    for folder in out.values():
        render(folder)
    return out

"""Every change an analyst can make in the lab, timed: 40 releases of 65 rows, each control, tab and method.

``python -m tests.bench.lab`` writes ``docs/benchmarks/lab.md``; with ``--browser`` the same controls in JupyterLab and
Chromium, from the key to the changed page, are measured too (``tests.bench.lab_browser``).
"""

import statistics
import sys
import time

from lqw.lab.compare import judge_history
from lqw.lab.panel import QUICK, VIEWS, Lab
from lqw.lab.synthetic import synthetic_history
from lqw.noise.methods import METHODS

BESIDE = [name for name in METHODS if name != "gate-v1"]
LOOKS = ("3, 5, 7", "3, 5, 7, 9", "3, 6, 9")


def changes(lab, turn):
    """Yield the name of each control and what changes it to a value not asked before; *turn* counts the rounds."""

    def put(control, value):
        return lambda: setattr(control, "value", value)

    small = (turn % 97 + 1) / 100
    yield "margin", put(lab.margin, 11 + small)
    yield "α", put(lab.alpha, 1 + small)
    yield "session term τ", put(lab.tau, 0.5 + small)
    yield "looks", put(lab.looks, LOOKS[turn % 3])
    yield "release of Rows", put(lab.release, turn % 40)


def measured():
    """Return seconds of every change: ``{control: {(method B, tab): [s, …]}}``."""
    found, turn = {}, 0
    lab = Lab(synthetic_history())
    for name in BESIDE:
        for tab, title in enumerate(VIEWS):
            found.setdefault("method B", {}).setdefault((name, title), [])
            lab.second.value, lab.tabs.selected_index = BESIDE[BESIDE.index(name) - 1], tab
            lab.margin.value = 20 + (turn % 97) / 100  # nothing is remembered of the method that comes
            found["method B"][name, title].append(_timed(lambda name=name: setattr(lab.second, "value", name)))
            for _ in range(2):
                turn += 1
                for control, change in changes(lab, turn):
                    found.setdefault(control, {}).setdefault((name, title), []).append(_timed(change))
            there = (tab + 1) % len(VIEWS)
            taken = _timed(lambda there=there: setattr(lab.tabs, "selected_index", there))
            found.setdefault("tab", {}).setdefault((name, VIEWS[there]), []).append(taken)
    return found


def _timed(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

"""The lab's answer to a changed control, against the work it cannot do without: judging the history by both methods."""

import statistics
import time

from rich.table import Table

from lqw.lab.compare import judge_history
from lqw.lab.panel import VIEWS, Lab
from lqw.lab.synthetic import synthetic_history
from lqw.noise.methods import METHODS

REPEATS = 5


def answers():
    """Return a table of changes on 40 releases of 65 rows."""
    lab, history = Lab(synthetic_history()), synthetic_history()
    table = Table(
        "method B", "tab", "change, s", "both judged, s", "ratio",
        title="the lab, 40 releases of 65 rows: the margin moved, median of 5, method A gate-v1",
    )  # fmt: skip
    for name in ("fixed-band-5", "bayes", "bca-bootstrap", "permutation"):
        lab.second.value = name
        both = statistics.median(_timed(lambda name=name: _judge(history, name)) for _ in range(REPEATS))
        for tab, title in enumerate(VIEWS):
            lab.tabs.selected_index = tab
            taken = statistics.median(_timed(lambda: _move(lab)) for _ in range(REPEATS))
            table.add_row(name, title, f"{taken:.2f}", f"{both:.2f}", f"{taken / both:.1f}×")
    return table


def _timed(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _judge(history, name):
    for method in ("gate-v1", name):
        judge_history(history, METHODS[method], history.releases[-1].policy)


def _move(lab):
    lab.margin.value = lab.margin.value % 50 + 1.3  # a number it has not been asked before

"""Every change an analyst can make in the lab, timed: 40 releases of 65 rows, each control, tab and method.

``python -m tests.bench.lab`` writes ``docs/benchmarks/lab.md``. What a browser adds is timed where it is driven, in
``tests/notebooks/test_lab_browser.py`` with ``-s``.
"""

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

from lqw.host.fingerprint import cpu_model
from lqw.lab.panel import CURVES, SIMULATED, VIEWS, Lab
from lqw.lab.synthetic import synthetic_history
from lqw.noise.methods import METHODS
from tests.support.scratch import REPOSITORY

BESIDE = [name for name in METHODS if name != "gate-v1"]
PAGE = REPOSITORY / "docs" / "benchmarks" / "lab.md"
HEAD = """# The lab: seconds of each change

Wall time of a changed control, synthetic history of 40 releases × 65 rows, method A gate-v1; every other method as B, every
tab open in turn, each value new. `python -m tests.bench.lab` (a part of `make bench`) writes this page. {cpu}, {cores} cores,
{load:.1f} processes running or waiting beside it when it began (load of the last minute). Simulated curves show what the
judging leaves of half a second, with the number of releases they had time for ("60 of 400 simulated"), and go on behind, in slices of 0.25 s between two messages of the kernel, to the number
asked for; the next change stops them. "Whole" is that number reached, from the change on.

"""
WHOLE = ("own-t", "bca-bootstrap")  # a closed formula, and one that resamples
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
    yield "simulated releases", put(lab.sims, SIMULATED[turn % len(SIMULATED)])


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
            turn += 1
            for control, change in changes(lab, turn):
                found.setdefault(control, {}).setdefault((name, title), []).append(_timed(change))
            there = (tab + 1) % len(VIEWS)
            taken = _timed(lambda there=there: setattr(lab.tabs, "selected_index", there))
            found.setdefault("tab", {}).setdefault((name, VIEWS[there]), []).append(taken)
    return found


def completed():
    """Return seconds until curves are whole: ``{method B: {releases asked for: s}}``, from a change nobody asked before."""
    return asyncio.run(_completed())


async def _completed():
    lab, found = Lab(synthetic_history()), {}
    lab.tabs.selected_index = VIEWS.index(CURVES)
    for turn, name in enumerate(WHOLE):
        lab.second.value = name
        for asked in SIMULATED[:2]:
            lab.sims.value = asked
            begun = time.perf_counter()
            lab.margin.value = 12 + turn + asked / 1000
            while " of " in lab.views[CURVES].value.partition("<div")[0]:  # noqa: ASYNC110 - as a person waits
                await asyncio.sleep(0.01)
            found.setdefault(name, {})[asked] = time.perf_counter() - begun
    return found


def _timed(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def page(found):
    """Return the page of what was measured, Markdown."""
    lines = ["| change | in the kernel, median, s | largest, s | of it, beside | on tab |", "|---|--:|--:|---|---|"]
    for control, seen in found.items():
        every = [one for each in seen.values() for one in each]
        most, (name, title) = max((max(each), key) for key, each in seen.items())
        lines.append(f"| {control} | {statistics.median(every):.2f} | {most:.2f} | {name} | {title} |")
    return "\n".join(lines)


def whole(found):
    """Return the table of what :func:`completed` measured, Markdown."""
    asked = SIMULATED[:2]
    lines = [f"| method B | {' | '.join(f'{n} whole, s' for n in asked)} |", f"|---|{'--:|' * len(asked)}"]
    lines += [f"| {name} | {' | '.join(f'{took[n]:.1f}' for n in asked)} |" for name, took in found.items()]
    return "\n".join(lines)


def answers():
    """Measure every change, write the page and return its tables."""
    load = os.getloadavg()[0]
    tables = f"{page(measured())}\n\n{whole(completed())}"
    head = HEAD.format(cpu=cpu_model(Path("/proc/cpuinfo").read_text()), cores=os.cpu_count(), load=load)
    PAGE.write_text(f"{head}{tables}\n")
    return tables


if __name__ == "__main__":
    sys.stdout.write(answers() + "\n")

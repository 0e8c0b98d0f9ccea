"""The chain with small notebooks of its own: what counts as having run, what breaks it, what it leaves behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lqw.errors import Exit
from lqw.pipeline.chain import Job, run_chain
from lqw.pipeline.runs import STAGES, Folder, find_notebooks

RUN = "chain-test"
ARTEFACT = """\
from pathlib import Path
from lqw.pipeline.artefacts import write_artefact
from lqw.pipeline.runs import Folder
folder = Folder(Path(run_dir))
write_artefact(folder, "20_correctness", "chain-test", {"x": 1}, inputs=["input.txt"])"""
NEVER = "import time\ntime.sleep(60)"


def write(folder, stage, *cells):
    book = new_notebook()
    book.cells = [new_code_cell("run_dir = None", id="p", metadata={"tags": ["parameters"]})]
    book.cells += [new_code_cell(source, id=f"c{i}") for i, source in enumerate(cells)]
    folder.mkdir(exist_ok=True)
    nbformat.write(book, folder / f"{stage}.ipynb")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "input.txt").write_text("in")
    return tmp_path


def chain(place, *cells, stage="20_correctness", deadline_s=60.0):
    write(place / "notebooks", stage, *cells)
    run = place / "run"
    job = Job(
        folder=Folder(run),
        run_id=RUN,
        marker=f"{RUN}-{os.getpid()}",
        deadline_s=deadline_s,
        stages=(stage,),
        notebooks=place / "notebooks",
        parameters={"run_dir": str(run)},
    )
    return run_chain(job)


def test_a_whole_notebook_with_a_true_artefact_is_proven(place):
    result = chain(place, "1 + 1", ARTEFACT)
    assert (result.broken, result.status) == ((), Exit.PASS)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("1 + 1",), "correctness.json"),  # ran, and left nothing
        ((ARTEFACT, "import os; os._exit(0)"), "20_correctness"),  # the kernel dies in the last cell
        ((ARTEFACT, "import sys; sys.exit(0)", "1"), "20_correctness"),  # papermill would exit 0
        ((ARTEFACT, "raise ValueError('seen')"), "ValueError: seen"),
        ((ARTEFACT, "from lqw.errors import RatchetRed\nraise RatchetRed('red')"), "RatchetRed"),  # only 40 may
        ((ARTEFACT, "(folder.path / 'input.txt').write_text('other')"), "input.txt has changed"),
        ((ARTEFACT.replace("chain-test", "another"),), "of run 'another'"),
        ((ARTEFACT.replace('inputs=["input.txt"]', "inputs=[]"),), "names no inputs"),
    ],
)
def test_what_did_not_wholly_run_breaks_the_chain(place, cells, said):
    result = chain(place, *cells)
    assert result.status is Exit.INTERNAL
    assert said in "\n".join(result.broken)


@pytest.mark.parametrize(
    ("error", "status"), [("HostBusy", Exit.BUSY), ("UsageError", Exit.USAGE), ("IntegrityError", Exit.INVALID)]
)
def test_errors_with_a_status_of_their_own_keep_it(place, error, status):
    result = chain(place, f"from lqw.errors import {error}\nraise {error}('seen')")
    assert result.status is status
    assert "seen" in result.broken[0]


@pytest.mark.parametrize(("error", "claim"), [("RatchetRed", Exit.RED), ("NothingMeasured", Exit.UNDECIDED)])
def test_the_last_cell_of_40_may_end_in_a_verdict(place, error, claim):
    (place / "run" / "receipt.json").write_text("{}")
    result = chain(place, "1", f"from lqw.errors import {error}\nraise {error}('seen')", stage="40_verdict")
    assert (result.broken, result.claimed) == ((), claim)


def test_a_verdict_before_the_last_cell_of_40_is_a_broken_chain(place):
    (place / "run" / "receipt.json").write_text("{}")
    result = chain(place, "from lqw.errors import RatchetRed\nraise RatchetRed('seen')", "1", stage="40_verdict")
    assert result.status is Exit.INTERNAL


def test_a_process_that_outlives_its_stage_is_killed_and_named_and_fails_the_run(place):
    leave = "import subprocess\nchild = subprocess.Popen(['sleep', '77'], start_new_session=True)\n"
    result = chain(place, ARTEFACT, leave + "Path(run_dir, 'pid').write_text(str(child.pid))")
    assert result.status is Exit.INTERNAL
    assert any("sleep 77" in line for line in result.broken)
    assert not psutil.pid_exists(int((place / "run" / "pid").read_text()))


def test_the_deadline_ends_the_chain_and_its_kernel(place):
    begun = time.monotonic()
    result = chain(place, "import os\nopen(run_dir + '/pid', 'w').write(str(os.getpid()))", NEVER, deadline_s=4.0)
    assert result.status is Exit.INTERNAL
    assert "deadline of 4 s" in result.broken[0]
    assert time.monotonic() - begun < 15
    assert not psutil.pid_exists(int((place / "run" / "pid").read_text()))


def test_the_kernel_is_this_python_scrubbed_and_out_of_reach_of_user_profiles(place, monkeypatch):
    home = place / "home"
    startup = home / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("intruder = 1")
    spec = home / ".local" / "share" / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"}))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")
    check = """\
import os, sys, json
seen = dict(python=sys.executable, optimize=sys.flags.optimize, mpl=os.environ.get("MPLBACKEND"),
            intruder="intruder" in globals())
Path(run_dir, "seen.json").write_text(json.dumps(seen))"""
    result = chain(place, ARTEFACT, check)
    assert result.broken == ()
    seen = json.loads((place / "run" / "seen.json").read_text())
    assert seen["python"] == sys.executable
    assert (seen["optimize"], seen["intruder"]) == (0, False)
    assert seen["mpl"] != "agg"


def test_braces_and_spaces_in_the_path_are_no_format_string(tmp_path):
    place = tmp_path / "a {run_dir} b"
    (place / "run").mkdir(parents=True)
    (place / "run" / "input.txt").write_text("in")
    assert chain(place, ARTEFACT).broken == ()


CHILD = """\
import sys
from pathlib import Path
from lqw.pipeline.chain import Job, run_chain
from lqw.pipeline.runs import Folder
place = Path(sys.argv[1])
result = run_chain(Job(folder=Folder(place / "run"), run_id="chain-test", marker="chain-kill", deadline_s=60,
                       stages=("20_correctness",), notebooks=place / "notebooks",
                       parameters={"run_dir": str(place / "run")}))
print(result.broken[0])
sys.exit(result.status)
"""


@pytest.fixture
def started(place):
    """A chain in a process of its own, whose kernel started an engine-like child and waits."""
    pids = """\
import os, subprocess, time
child = subprocess.Popen(["sleep", "78"])
open(run_dir + "/pids.tmp", "w").write(f"{os.getpid()} {child.pid}")
os.rename(run_dir + "/pids.tmp", run_dir + "/pids")
time.sleep(60)"""
    write(place / "notebooks", "20_correctness", pids)
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    file = place / "run" / "pids"
    end = time.monotonic() + 20
    while not file.is_file() and time.monotonic() < end and child.poll() is None:
        time.sleep(0.05)
    kernel, engine = map(int, file.read_text().split())
    yield child, kernel, engine
    child.kill()
    child.communicate()


def _gone(pid, within_s=8.0):
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")], ids=["INT", "TERM"]
)
def test_interrupted_the_chain_ends_with_130_and_leaves_nothing(started, number, said):
    child, kernel, engine = started
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, said in out.decode()) == (130, True), (out, err)
    assert _gone(kernel)
    assert _gone(engine)


def test_kill_9_of_the_kernel_is_incomplete_and_its_orphans_are_killed(started):
    child, kernel, engine = started
    psutil.Process(kernel).kill()
    out, _ = child.communicate(timeout=20)
    assert child.returncode == Exit.INTERNAL, out
    assert _gone(engine)


def test_kill_9_of_the_gate_takes_the_kernel_with_it(started):
    child, kernel, engine = started
    child.kill()
    assert _gone(kernel)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(engine).kill()  # a plain child has no guard; engines do (tests/chain/test_gate.py)


def test_a_chain_outside_the_main_thread_is_refused(place):
    seen = []

    def attempt():
        try:
            chain(place, ARTEFACT)
        except RuntimeError as err:
            seen.append(str(err))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "main thread" in seen[0]


def test_the_committed_notebooks_are_found():
    assert Path(find_notebooks(), f"{STAGES[0]}.ipynb").is_file()

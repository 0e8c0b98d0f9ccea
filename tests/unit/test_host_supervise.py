"""Processes: nothing survives its parent, its stop or its run."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from lqw.host import _exec
from lqw.host.supervise import (
    RUN_ID,
    ancestors,
    die_with_parent,
    kill_leftovers,
    leftovers,
    log_tail,
    note,
    start,
    tree,
)

PYTHON = [sys.executable, "-I", "-S", "-c"]
SLEEP = [*PYTHON, "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    *PYTHON,
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]
ENV = {"PATH": os.environ["PATH"]}


def wait_for(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("not within the time")


def gone(pid):
    """A zombie is gone too: it runs nothing and holds nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture
def begin(tmp_path):
    children = []

    def run(command, run_id="test", env=ENV):
        child = start(command, env=env, log_path=tmp_path / f"log{len(children)}", run_id=run_id)
        children.append(child)
        return child

    yield run
    for child in children:
        child.stop(signals=())


def up(child):
    wait_for(lambda: "up" in child.log_path.read_text())
    return child


def test_a_child_leads_a_session_of_its_own_and_carries_the_mark(begin):
    child = up(begin(SLEEP, run_id="marked-1"))
    assert os.getsid(child.pid) == child.pid
    assert f"{RUN_ID}=marked-1" in Path(f"/proc/{child.pid}/environ").read_text().split("\0")
    assert child.returncode() is None
    assert child.describe_end() == "still running"


def test_it_gets_the_given_environment_and_nothing_else(begin, monkeypatch):
    monkeypatch.setenv("STRAY", "1")
    child = begin([*PYTHON, "import os; print(sorted(os.environ), 'up')"], env={"ONE": "1"})
    up(child)
    assert "STRAY" not in child.log_path.read_text()
    assert "ONE" in child.log_path.read_text()


def test_the_mark_of_the_outermost_run_wins(begin, monkeypatch):
    monkeypatch.setenv(RUN_ID, "outer")
    child = up(begin(SLEEP, run_id="inner"))
    assert f"{RUN_ID}=outer" in Path(f"/proc/{child.pid}/environ").read_text().split("\0")


def test_another_thread_may_not_start_one(tmp_path):
    caught = []

    def go():
        try:
            start(SLEEP, env=ENV, log_path=tmp_path / "log", run_id="x")
        except RuntimeError as err:
            caught.append(str(err))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert "main thread" in caught[0]


@pytest.mark.parametrize("last", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_dies_with_its_parent(tmp_path, last):
    script = textwrap.dedent(f"""
        import os, sys, time
        from pathlib import Path
        from lqw.host.supervise import start
        child = start({SLEEP!r}, env=dict(os.environ), log_path=Path({str(tmp_path / "log")!r}), run_id="orphan")
        print(child.pid, flush=True)
        time.sleep(60)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        pid = int(parent.stdout.readline())
        wait_for(lambda: "up" in (tmp_path / "log").read_text())
        assert not gone(pid)
        parent.send_signal(last)
        parent.wait(5)
        wait_for(lambda: gone(pid))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_a_parent_that_died_before_the_signal_was_armed_starts_nothing(tmp_path):
    made = tmp_path / "made"
    wrong_parent = "1"  # what getppid gives to an orphan is never the pid it was told
    command = [sys.executable, "-I", "-S", _exec.__file__, wrong_parent, "touch", str(made)]
    assert subprocess.run(command, check=False).returncode == _exec.EXIT_ORPHAN
    assert not made.exists()


def test_a_program_that_is_not_there_is_named(begin):
    child = begin(["/no/such/program"])
    wait_for(lambda: child.returncode() is not None)
    assert child.returncode() == _exec.EXIT_NO_EXEC
    assert "/no/such/program: No such file" in child.log_path.read_text()


def test_stop_is_polite_first(begin):
    polite = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); time.sleep(60)"
    )
    child = up(begin([*PYTHON, polite]))
    assert child.stop() == []
    assert child.returncode() == 7
    assert child.describe_end() == "exited with status 7"
    assert gone(child.pid)


def test_the_signals_of_an_engine_are_tried_in_order(begin):
    engine = (
        "import signal, sys, time; signal.signal(15, signal.SIG_IGN); signal.signal(2, lambda *_: sys.exit(3));"
        "print('up', flush=True); time.sleep(60)"
    )
    child = up(begin([*PYTHON, engine]))
    assert child.stop(1.0, signals=(signal.SIGTERM, signal.SIGINT)) == []
    assert child.returncode() == 3


def test_one_that_ignores_signals_is_killed_within_the_deadline(begin):
    child = up(begin(STUBBORN))
    began = time.monotonic()
    assert child.stop(0.6) == []
    assert 0.3 < time.monotonic() - began < 2.0
    assert child.describe_end() == "killed by SIGKILL"


def test_the_whole_tree_goes_other_sessions_and_ignored_signals_included(begin):
    script = textwrap.dedent(f"""
        import subprocess, time
        a = subprocess.Popen({STUBBORN!r}, start_new_session=True, stdout=subprocess.DEVNULL)
        b = subprocess.Popen({STUBBORN!r}, stdout=subprocess.DEVNULL)
        print("up", a.pid, b.pid, flush=True)
        time.sleep(60)
    """)
    child = up(begin([*PYTHON, script]))
    pids = [int(word) for word in child.log_path.read_text().split()[1:3]]
    assert set(child.tree()) == {child.pid, *pids}
    assert child.tree()[0] == child.pid
    assert child.stop(2.0) == []
    assert all(gone(pid) for pid in pids)


def test_a_member_of_the_session_goes_after_its_leader_has_ended(begin):
    script = f"import subprocess; p = subprocess.Popen({SLEEP!r}); print(p.pid, 'up', flush=True)"
    child = up(begin([*PYTHON, script]))
    wait_for(lambda: child.returncode() is not None)
    pid = int(child.log_path.read_text().split()[0])
    assert not gone(pid)
    assert child.stop(2.0) == []
    assert gone(pid)


def test_what_escapes_session_and_parent_is_found_by_the_mark_and_named(begin):
    run_id = f"escape-{os.getpid()}"
    script = textwrap.dedent(f"""
        import subprocess
        subprocess.Popen({STUBBORN!r}, start_new_session=True, stdout=subprocess.DEVNULL)
        print("up", flush=True)
    """)
    child = up(begin([*PYTHON, script], run_id=run_id))
    wait_for(lambda: child.returncode() is not None)
    assert child.stop(1.0) == []
    (left,) = leftovers(run_id)
    assert "SIG_IGN" in left.command
    assert str(left).startswith(f"pid {left.pid} python")
    found, still = kill_leftovers(run_id)
    assert [each.pid for each in found] == [left.pid]
    assert still == []
    assert leftovers(run_id) == []
    assert kill_leftovers(run_id) == ([], [])


def test_leftovers_are_those_of_the_run_without_ourselves(monkeypatch):
    assert leftovers("nobody has this mark") == []
    code = "import sys; from lqw.host.supervise import leftovers; print(len(leftovers('own-mark')))"
    env = {**os.environ, RUN_ID: "own-mark"}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "0"


def test_orphans_come_to_a_subreaper():
    middle = f"import subprocess; print(subprocess.Popen({SLEEP!r}, stdout=subprocess.DEVNULL).pid)"
    script = textwrap.dedent(f"""
        import os, subprocess, sys
        from lqw.host.supervise import become_subreaper
        become_subreaper()
        middle = subprocess.run([sys.executable, "-c", {middle!r}], stdout=subprocess.PIPE, check=True)
        orphan = int(middle.stdout)
        print(open(f"/proc/{{orphan}}/stat").read().rpartition(")")[2].split()[1] == str(os.getpid()))
        os.kill(orphan, 9)
        os.waitpid(orphan, 0)
    """)
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert said.stdout.strip() == "True"


@pytest.mark.parametrize("told", ["parent", "other"])
def test_a_process_can_bind_itself_to_its_parent(told):
    code = (
        "import os, sys; from lqw.host.supervise import die_with_parent;"
        "print(die_with_parent(os.getppid() + (sys.argv[1] == 'other')))"
    )
    said = subprocess.run([sys.executable, "-c", code, told], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(told == "parent")


def test_binding_needs_no_parent_of_ours():
    assert callable(die_with_parent)
    assert ancestors(os.getpid())[:2] == [os.getpid(), os.getppid()]
    assert ancestors(2**22 + 1) == []


def test_zombies_are_not_alive(begin):
    child = begin([*PYTHON, "pass"])
    wait_for(lambda: gone(child.pid))
    assert tree(child.pid) == []


def test_a_process_that_is_gone_is_noted_as_gone():
    assert str(note(2**22 + 1)) == "pid 4194305 (gone) ()"


def test_log_tail(tmp_path):
    log = tmp_path / "log"
    assert log_tail(log) == []
    log.write_bytes(b"first\n\n" + b"x" * 1000 + b"\nbad \xff\0 byte\nlast")
    assert log_tail(log, lines=3) == ["x" * 400, "bad � byte", "last"]
    log.write_text("\n".join(f"line {number}" for number in range(20_000)))
    assert log_tail(log, lines=2) == ["line 19998", "line 19999"]

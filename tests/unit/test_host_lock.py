"""The lock: busy is exit 75 and says by whom; no child inherits it; our own ancestors do not block us."""

import fcntl
import os
import subprocess
import sys
import textwrap

import pytest

from lqw.errors import Exit, HostBusy, UsageError
from lqw.host.lock import HostLock, lock_holders
from lqw.host.supervise import start

HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gpu.lock"


@pytest.fixture
def holder(path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def is_free(path):
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_it_is_held_inside_and_free_after(path):
    with HostLock(path) as lock:
        assert not is_free(path)
        assert lock_holders(path) == [os.getpid()]
        assert not lock.inherited
    assert is_free(path)


def test_contended_is_exit_75_and_names_the_holder(path, holder):
    with pytest.raises(HostBusy, match=f"held by pid {holder.pid} python") as caught, HostLock(path):
        pass
    assert caught.value.exit_status is Exit.BUSY
    assert lock_holders(path) == [holder.pid]


def test_it_can_be_had_when_the_holder_was_killed(path, holder):
    holder.kill()
    holder.wait()
    with HostLock(path) as lock:
        assert not lock.inherited


def test_an_engine_does_not_inherit_it(path, tmp_path):
    with HostLock(path):
        child = start(["sleep", "60"], env=dict(os.environ), log_path=tmp_path / "log", run_id="lock")
    try:
        assert child.returncode() is None
        assert is_free(path)
    finally:
        child.stop(signals=())


def test_taken_twice_by_us_is_no_deadlock_and_the_inner_end_keeps_it(path):
    with HostLock(path):
        with HostLock(path) as inner:
            assert inner.inherited
        assert not is_free(path)
    assert is_free(path)


def test_held_by_an_ancestor_is_held_by_us(path):
    code = textwrap.dedent("""
        import sys
        from lqw.host.lock import HostLock
        with HostLock(sys.argv[1]) as lock:
            print(lock.inherited)
    """)
    with HostLock(path):
        said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "True"


def test_no_lock_in_the_params_is_no_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with HostLock(None):
        assert list(tmp_path.iterdir()) == []


def test_a_lock_that_cannot_be_opened_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"), HostLock(tmp_path / "missing" / "gpu.lock"):
        pass


def test_the_file_keeps_what_another_tool_wrote_into_it(path):
    path.write_text("another tool's note")
    with HostLock(path):
        pass
    assert path.read_text() == "another tool's note"

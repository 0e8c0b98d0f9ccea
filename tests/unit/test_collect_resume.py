"""kill -9 at any byte of the journal, then resume: the same plan, no start lost, doubled or half; and what is refused.

One run against the fake engine is recorded; then the journal is cut, as a kill would leave it, and the run goes on with
starts answered from the recording. Real kills of a real run are in test_collect_session and, one a boundary, below.
"""

import os
import signal
import subprocess
import sys

import pytest

from lqw.canonical import sha256_file
from lqw.collect import collect, looks, session
from lqw.collect.calibrate import Calibration, Load
from lqw.collect.header import make_header
from lqw.errors import IntegrityError
from lqw.journal import JournalWriter, parse_journal, read_journal
from lqw.outcomes import Arm, Purpose
from lqw.params import load_params
from lqw.plan import build_plan
from lqw.verdict import Standing
from tests.support.fake_params import ENVIRONMENT, NO_THIRD, write_params

CALIBRATION = Calibration(Load(1, 5.0, 40, 5), 0.1, 0.2, 0.01, 0.02, 0.1)


def _collect(params, run_dir):
    run_dir.mkdir(exist_ok=True)
    plan = build_plan(params, Purpose.GATE)
    rest = {"standing_of": lambda *_: Standing(), "third": NO_THIRD, "progress": lambda _: None}
    return collect(params, plan, run_dir, run_id="test", **rest)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Params and journal of one whole run: a header, one identity, six starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setattr(session, "calibrated", lambda *_: CALIBRATION)
        place = tmp_path_factory.mktemp("recorded")
        params = load_params(write_params(place, releases={"1.0.0": {}}) / "1.0.0.yaml")
        _collect(params, place / "run")
        yield params, (place / "run/samples.jsonl").read_bytes()


@pytest.fixture
def replayed(recorded, monkeypatch):
    """Starts answered from the recording; returns the list of those that were asked for."""
    _, data = recorded
    journal, asked = parse_journal(data, name="recorded"), []
    starts = {(start.model, start.pair, start.arm, start.launch): start for start in journal.starts}

    def timed_start(_site, key, position, telemetry, *, repeats):
        assert not repeats, "nothing is lengthened here"
        asked.append(str(key))
        start = starts[key.model, key.pair, key.arm, key.launch]
        return start.model_copy(update={"position": position, "telemetry": telemetry})

    def identity_start(_site, model, position, *, margins):
        asked.append(model)
        return journal.identities[0].model_copy(update={"position": position})

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(session, "calibrated", lambda *_: CALIBRATION)
    monkeypatch.setattr(looks, "timed_start", timed_start)
    monkeypatch.setattr(looks, "identity_start", identity_start)
    return asked


def _cuts(data):
    """Every boundary: nothing written yet, and each line begun, half there, all but its line end, and whole."""
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    out, begin = [0], 0
    for end in ends:
        out += [begin + 1, (begin + end) // 2, end - 1, end]
        begin = end
    return out


def test_cut_at_every_boundary_the_resumed_run_is_the_whole_one(recorded, replayed, tmp_path):
    params, data = recorded
    whole = parse_journal(data, name="recorded")
    keys = [(s.pair, s.arm, s.launch) for s in whole.starts]
    assert len(keys) == 6
    cuts = _cuts(data)
    assert len(cuts) == 1 + 4 * 8
    for number, cut in enumerate(cuts):
        run_dir = tmp_path / str(number)
        run_dir.mkdir()
        (run_dir / "samples.jsonl").write_bytes(data[:cut])
        kept = data[:cut].count(b"\n")
        replayed.clear()
        _collect(params, run_dir)
        again = read_journal(run_dir / "samples.jsonl")
        assert not again.torn
        assert again.header.plan == whole.header.plan
        assert again.header.plan_sha256 == whole.header.plan_sha256
        assert [(s.pair, s.arm, s.launch) for s in again.starts] == keys, f"cut at byte {cut}"
        assert [s.position for s in again.starts] == list(range(1, 7))
        assert len(again.identities) == 1
        assert again.starts[: max(0, kept - 2)] == whole.starts[: max(0, kept - 2)], "what was whole is untouched"
        assert len(replayed) == 8 - max(kept, 1), "only what is missing is measured"
        resumed = [bool(start.telemetry.get("resumed")) for start in again.starts]
        assert sum(resumed) == (2 <= kept < 8), f"cut at byte {cut}: the first new start says so, and no other"


def _journal(params, run_dir, *records):
    run_dir.mkdir()
    with JournalWriter(run_dir / "samples.jsonl") as writer:
        writer.append(make_header(params, build_plan(params, Purpose.GATE), "test", {}))
        for record in records:
            writer.append(record)


def test_a_journal_of_other_params_is_refused(recorded, replayed, tmp_path):
    params, _ = recorded
    _journal(params, tmp_path / "run")
    other = load_params(write_params(tmp_path, releases={"1.0.0": {"decode_tok_s": 300.0}}) / "1.0.0.yaml")
    with pytest.raises(IntegrityError, match=r"another run.*decode_tok_s"):
        _collect(other, tmp_path / "run")
    assert replayed == []


def test_a_journal_of_another_model_is_refused(recorded, replayed, tmp_path):
    params, _ = recorded
    _journal(params, tmp_path / "run")
    path = write_params(tmp_path, releases={"1.0.0": {}}) / "1.0.0.yaml"
    (path.parent / "model.gguf").write_bytes(b"GGUF" + bytes(61))
    sha256 = params.release.models[0].sha256
    path.write_text(path.read_text().replace(sha256, sha256_file(path.parent / "model.gguf")))
    with pytest.raises(IntegrityError, match=f"another run.*{sha256}"):
        _collect(load_params(path), tmp_path / "run")
    assert replayed == []


@pytest.mark.parametrize("arm", Arm)
def test_an_arm_that_runs_other_bytes_than_before_is_refused(recorded, replayed, tmp_path, arm):
    params, data = recorded
    whole = parse_journal(data, name="recorded")
    first = next(start for start in whole.starts if start.arm is arm)
    other = first.model_copy(update={"engine": first.engine.model_copy(update={"binary_sha256": "0" * 64})})
    _journal(params, tmp_path / "run", *whole.identities[: arm is Arm.COMPARATOR], other)
    with pytest.raises(IntegrityError, match=f"the {arm} ran binary sha256 0{{64}} before"):
        _collect(params, tmp_path / "run")
    kept = [s.engine.binary_sha256 for s in read_journal(tmp_path / "run" / "samples.jsonl").starts if s.arm is arm]
    assert kept == ["0" * 64], "the odd start is not written"


CHILD = """\
import sys
from pathlib import Path
from lqw.collect import ThirdArm, collect
from lqw.outcomes import Purpose
from lqw.params import load_params
from lqw.plan import build_plan
from lqw.verdict import Standing
params = load_params(sys.argv[1])
collect(params, build_plan(params, Purpose.GATE), Path(sys.argv[2]), run_id="test",
        standing_of=lambda *_: Standing(), third=ThirdArm({}, claim=print, voids=dict, find=print), progress=lambda event: print(event["event"], flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", range(14))
def test_really_killed_at_every_event(tmp_path, monkeypatch, after):
    """SIGKILL after the identity, the plan, and each start's begin and end; then resumed with real engines."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    params, run_dir = load_params(write_params(tmp_path, releases={"1.0.0": {}}) / "1.0.0.yaml"), tmp_path / "run"
    run_dir.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, params.path, str(run_dir)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    seen = -1
    for line in child.stdout:
        seen += line.strip() in ("identity", "plan", "start", "end")
        if seen == after:
            child.send_signal(signal.SIGKILL)
            break
    child.stdout.close()
    assert child.wait(20) == -signal.SIGKILL
    before = read_journal(run_dir / "samples.jsonl")
    _collect(params, run_dir)
    journal = read_journal(run_dir / "samples.jsonl")
    assert journal.header == before.header
    assert journal.starts[: len(before.starts)] == before.starts
    assert [s.position for s in journal.starts] == list(range(1, 7))
    assert len({(s.pair, s.arm) for s in journal.starts}) == 6
    assert len(journal.identities) == 1

"""The collect stage against the fake engine: a whole run, faults as values, kill -9 and resume, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lqw.collect import collect, session
from lqw.collect.calibrate import Load, calibrate, null_server
from lqw.collect.preflight import preflight
from lqw.collect.prompts import PromptSet, PromptStore, make_prompts
from lqw.engines.environment import scrubbed
from lqw.errors import HostBusy, IntegrityError, ParamsError
from lqw.journal import JournalWriter, read_journal
from lqw.metrics.values import start_values
from lqw.outcomes import Arm, Purpose, Reason
from lqw.params import load_params
from lqw.plan import build_plan
from lqw.verdict import Standing
from tests.support.fake_params import ENVIRONMENT, NO_THIRD, write_params
from tests.support.one_start import one_start

ROWS = ("ttft@512", "prefill@512", "decode")


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def _params(root, **subject):
    return load_params(write_params(root, releases={"1.0.0": subject}) / "1.0.0.yaml")


def _collect(params, run_dir, events=None):
    run_dir.mkdir(exist_ok=True)
    return collect(
        params,
        build_plan(params, Purpose.GATE),
        run_dir,
        run_id="test",
        standing_of=lambda *_: Standing(),
        third=NO_THIRD,
        progress=(events if events is not None else []).append,
    )


def _values(journal, params):
    plan = build_plan(params, Purpose.GATE)
    return [start_values(start, plan.rows, min_window_s=0.1) for start in journal.starts]


def test_variables_of_the_shell_that_no_engine_gets_are_named_once(tmp_path, monkeypatch):
    """A stray key would have made every route answer 401; what the release says in ``env`` is no stray."""
    for name in scrubbed(os.environ, {}).dropped:  # what the machine of the test has set itself
        monkeypatch.delenv(name)
    for name in ("APR_API_KEY", "LLAMA_ARG_UBATCH", "PYTHONUTF8", "GGML_X"):
        monkeypatch.setenv(name, "secret")
    params = _params(tmp_path)
    subject = params.release.subject.model_copy(update={"env": {"GGML_X": "1"}})
    params = params.model_copy(update={"release": params.release.model_copy(update={"subject": subject})})
    events = []
    site = SimpleNamespace(progress=events.append, spec=lambda arm: getattr(params.release, arm))
    session.tell_kept_away(site)
    (event,) = events
    assert "engines: APR_API_KEY, LLAMA_ARG_UBATCH; what is meant stands in `env`" in event["text"]
    assert "secret" not in event["text"]


def test_a_whole_run(tmp_path):
    params, events = _params(tmp_path), []
    summary = _collect(params, tmp_path / "run", events)
    journal = read_journal(tmp_path / "run" / "samples.jsonl")
    plan = build_plan(params, Purpose.GATE)
    assert [(s.pair, s.arm) for s in journal.starts] == [
        (pair, arm) for pair in (1, 2, 3) for arm in plan.orders["tiny"][pair - 1]
    ]
    assert all(v.failure is None and v.value > 0 for values in _values(journal, params) for v in values.values())
    assert len(journal.identities) == 1
    assert len(journal.identities[0].answers) == 2 * len(params.prompts)
    assert [s.position for s in journal.starts] == list(range(1, 7))
    hashes = [[r.prompt_sha256 for r in s.requests] for s in journal.starts]
    assert all(one == hashes[0] for one in hashes)  # the same prompts in every pair, for both arms
    assert summary.to_json()["collect"]["counts"]["tiny/cold@512/subject"]["timed"] == 9
    assert [e["event"] for e in events if e["event"] in ("plan", "look")] == ["plan", "look"]
    assert events[-1]["needing"] == []
    # a run that has everything measures nothing
    again = _collect(params, tmp_path / "run")
    assert len(again.to_json()["collect"]["starts"]) == 6
    assert read_journal(tmp_path / "run" / "samples.jsonl").starts == journal.starts


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("wrong_prompt_count", Reason.PROMPT_LENGTH),
        ("short_output", Reason.SHORT_OUTPUT),
        ("no_last_event", Reason.STREAM_BROKEN),
        ("error_in_200", Reason.HTTP_ERROR),
        ("http_500", Reason.HTTP_ERROR),
        ("die_in_stream", Reason.ENGINE_DIED),
        ("lying_count", Reason.SHORT_OUTPUT),
        ("wrong_slots", Reason.WRONG_SETTINGS),
    ],
)
def test_a_fault_is_a_value_on_a_named_row(tmp_path, fault, reason):
    params = _params(tmp_path, fault=fault, fault_after=0)
    start = one_start(params, tmp_path / "run")
    values = start_values(start, build_plan(params, Purpose.GATE).rows, min_window_s=0.1)
    assert len(values) == 3
    assert reason in {value.failure.reason for value in values.values() if value.failure is not None}
    good = one_start(params, tmp_path / "run", arm=Arm.COMPARATOR)
    assert good.failure is None
    assert all(request.failure is None for request in good.requests)


def test_an_engine_that_reuses_what_it_may_not_finds_nothing_to_reuse(tmp_path):
    params = _params(tmp_path, fault="cold_reuse", fault_after=0)
    requests = one_start(params, tmp_path / "run").requests
    assert len(requests) == 4
    assert all(r.failure is None and r.timings.cache_n == 0 for r in requests)


def test_an_arm_that_never_starts_is_given_up_after_two_starts(tmp_path):
    params, events = _params(tmp_path, fault="exit_at_once"), []
    summary = _collect(params, tmp_path / "run", events)
    journal = read_journal(tmp_path / "run" / "samples.jsonl")
    failed = [start for start in journal.starts if start.failure is not None]
    assert [start.failure.reason for start in failed] == [Reason.FAILED_START] * 2
    assert len(journal.starts) <= 4
    assert failed[0].failure.log_tail
    assert "given up" in summary.to_json()["collect"]["given_up"]["tiny"]
    assert any("given up" in e.get("text", "") for e in events)


_CHILD = """\
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


@pytest.mark.parametrize(("number", "after"), [(signal.SIGKILL, 3), (signal.SIGTERM, 1)])
def test_killed_and_resumed_no_start_is_lost_doubled_or_half(tmp_path, number, after):
    params, run_dir = _params(tmp_path), tmp_path / "run"
    run_dir.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, params.path, str(run_dir)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    ends = steps = 0
    for line in child.stdout:  # killed in the middle of the start after that many
        ends += line.strip() == "end"
        steps += ends == after and line.strip() == "step"
        if steps:
            child.send_signal(number)
            break
    child.stdout.close()
    assert child.wait(20) != 0
    journal_path = run_dir / "samples.jsonl"
    before = read_journal(journal_path)
    assert len(before.starts) == after
    _no_engine_left(run_dir)
    with journal_path.open("ab") as torn:
        torn.write(b'{"kind":"start","half of a li')
    summary = _collect(params, run_dir)
    journal = read_journal(journal_path)
    assert not journal.torn
    assert len(journal.starts) == 6
    assert journal.starts[:after] == before.starts
    assert len({(s.pair, s.arm) for s in journal.starts}) == 6
    assert [s.position for s in journal.starts] == list(range(1, 7))
    assert [bool(s.telemetry.get("resumed")) for s in journal.starts].index(True) == after
    assert sum(bool(s.telemetry.get("resumed")) for s in journal.starts) == 1
    origins = [s.origin_ns for s in journal.starts]
    assert origins == sorted(origins)
    assert summary.to_json()["collect"]["resumed_at"] == after + 1


def _no_engine_left(run_dir):
    end = time.monotonic() + 5
    while time.monotonic() < end:
        found = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(run_dir.parent).encode() in _read(p)]
        if not found:
            return
        time.sleep(0.05)
    pytest.fail(f"an engine outlived its run: {found}")


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_one_writer_at_a_time(tmp_path):
    with JournalWriter(tmp_path / "j"), pytest.raises(HostBusy, match="another process"):
        JournalWriter(tmp_path / "j")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no whole line"),
        (b'{"kind":"header"', "no whole line"),
        (b'{"kind":"start"}\n', "line 1"),
        (b'{"kind":"other"}\n', "not a record of a journal"),
        (b"not json\n", "line 1"),
    ],
)
def test_a_journal_that_is_none(tmp_path, data, problem):
    (tmp_path / "j").write_bytes(data)
    with pytest.raises(IntegrityError, match=problem):
        read_journal(tmp_path / "j")


def test_preflight_refuses_by_name(tmp_path):
    params = _params(tmp_path, no_such_setting=1)
    with pytest.raises(ParamsError, match="no_such_setting"):
        preflight(params, Purpose.GATE)


def test_prompts_are_exact_distinct_and_the_same_for_every_release(tmp_path):
    root = Path(__file__).parents[2] / "params" / "demo"
    releases = [load_params(path) for path in sorted(root.glob("*.yaml"))]
    corpus = [1000 + (i * i) % 701 for i in range(1900)]
    sets = [make_prompts(params, corpus) for params in releases]
    assert len({one.sha256 for one in sets}) == 1
    ids = sets[0].ids
    steps = {step.step_id: step for step in releases[0].protocol.launches[0].steps}
    for (step_id, role, _, _), prompt in ids.items():
        step = steps[step_id]
        extra = step.suffix_tokens if step.kind == "cached" and role != "prime" else 0
        assert len(prompt) == step.prompt_tokens + extra
    firsts = [p[0] for key, p in ids.items() if not key[0].startswith("cached") or key[1] == "prime"]
    assert len(firsts) == len(set(firsts))
    prefix = ids["cached@512", "prime", 0, 0]
    extensions = [p for key, p in ids.items() if key[0] == "cached@512" and key[1] == "timed"]
    assert all(p[:512] == prefix for p in extensions)
    assert len({p[512] for p in extensions}) == len(extensions)
    store = PromptStore(tmp_path / "prompts.json")
    store.put("m", sets[0])
    assert PromptStore(tmp_path / "prompts.json").get("m") == sets[0]
    text = json.loads((tmp_path / "prompts.json").read_text())
    text["models"]["m"]["prompts"][0][4][0] += 1
    (tmp_path / "prompts.json").write_text(json.dumps(text))
    with pytest.raises(IntegrityError, match="hash"):
        PromptStore(tmp_path / "prompts.json")


def test_a_prompt_of_the_longest_context_is_kept_as_text_too(tmp_path):
    key = ("cold@262144", "timed", 0, 0)
    sent = PromptSet({key: tuple(range(262_144))}, {key: "a word " * 262_144})
    PromptStore(tmp_path / "prompts.json").put("m", sent)
    assert PromptStore(tmp_path / "prompts.json").get("m") == sent


def test_calibration_against_the_null_server(tmp_path):
    with null_server("calibration-test", tmp_path / "log") as target:
        found = calibrate(target, Load(streams=2, gap_ms=5.0, tokens=20, rounds=2, ttft_ms=10.0))
    assert 0 < found.ttft_error_p50_ms < 10
    assert found.itl_error_p50_ms <= found.itl_error_p99_ms
    assert 0 <= found.cpu_share <= 2
    assert (found.unstamped, found.flags) == (0, [])
    assert set(found.to_json()) >= {"ttft_error_p50_ms", "ttft_error_p99_ms", "cpu_share", "flags"}

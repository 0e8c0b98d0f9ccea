"""What ``lqw selftest --live`` demands, and what it says where it cannot be made."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lqw.errors import Exit, UsageError
from lqw.outcomes import Outcome
from lqw.params import EngineSpec, HostSpec
from lqw.pipeline import live, live_parts
from lqw.pipeline.gate import Finished
from lqw.pipeline.live_parts import Asked, Parts, find_parts, host_here
from lqw.pipeline.runs import Folder
from tests.support.command import lqw

APR = '#!/bin/sh\necho "apr {version}"\n'
GPU = {"gpu": "NVIDIA GeForce RTX 4090", "vram_mib": 24_564}


def _no_gpu():
    raise UsageError("the host's params say compute: cuda, but NVML says: NVML Shared Library Not Found")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(live_parts, "gpu_facts", lambda: GPU)
    monkeypatch.setattr(live_parts.platform, "machine", lambda: "x86_64")


def _script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def programs(tmp_path):
    apr = _script(tmp_path / "apr", APR.format(version="0.72.3 (9c34b9a91)"))
    return Asked(apr=apr, llama_server=_script(tmp_path / "llama-server", "#!/bin/sh\n"), model=tmp_path / "m.gguf")


def test_everything_that_is_missing_is_named_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(live_parts, "gpu_facts", _no_gpu)
    with pytest.raises(UsageError) as refused:
        find_parts(Asked(apr=tmp_path / "apr", llama_server=tmp_path / "llama-server"), tmp_path)
    said = str(refused.value)
    assert "no GPU: NVML Shared Library Not Found" in said
    assert f"no apr: {tmp_path}/apr: no such file" in said
    assert f"no llama-server: {tmp_path}/llama-server: no such file" in said
    assert refused.value.exit_status == Exit.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho 'true (GNU coreutils) 9.1'\n", "no apr"),
        ("#!/bin/sh\nexit 3\n", "says ''"),
        (APR.format(version="0.69.1"), "cannot be told to prefill one token at a time"),
    ],
)
def test_a_binary_that_is_no_apr_or_too_old_to_be_slowed_is_refused(text, said, gpu, programs, tmp_path):
    _script(tmp_path / "apr", text)
    with pytest.raises(UsageError, match="nothing was decided") as refused:
        find_parts(programs, tmp_path)
    assert said in str(refused.value)


def test_the_arms_differ_in_one_variable_and_the_host_is_found_by_its_class(gpu, programs, tmp_path):
    parts = find_parts(programs, tmp_path)
    assert parts.host.name == "lambda"
    assert parts.slowed.model_copy(update={"env": {}}) == parts.healthy
    assert parts.slowed.env == {"APR_QWEN35_SESSION_PREFILL": "per-token"}
    assert parts.healthy.settings == {"threads": 16}  # the host's own word
    assert host_here("noah-lambda-vector").name == "lambda"
    for name in ("cpu", "nowhere"):
        with pytest.raises(UsageError, match=name):
            host_here(name)


def test_on_a_gpu_that_no_host_file_names_there_is_a_host_all_the_same(monkeypatch):
    monkeypatch.setattr(live_parts, "gpu_facts", lambda: {"gpu": "NVIDIA A1", "vram_mib": 1})
    assert (host_here(None).name, host_here(None).compute) == ("live", "cuda")


def test_its_options_are_refused_without_live(tmp_path):
    status, said = lqw(tmp_path, "selftest", "--host", "lambda")
    assert (status, "belong to --live" in said) == (Exit.USAGE, True)


@dataclass
class Row:
    row: str
    verdict: str
    text: str = "text"


@dataclass
class Judged:
    rows: list = field(default_factory=list)


def _step(monkeypatch, tmp_path, case):
    """Judge one stage, of which the gate has said and found what *case* holds."""
    stage, outcome, status, rows, log = case
    folder = Folder(tmp_path / "run")
    folder.logs.mkdir(parents=True)
    folder.receipt.touch()
    (folder.logs / "m_p01_subject_l0.log").write_text(log)
    monkeypatch.setattr(live, "prepare", lambda order: order)
    monkeypatch.setattr(live, "run", lambda _, console: Finished(folder, status, outcome, "sentence", "", (), ()))
    judged = Judged([Row(name, verdict) for name, verdict in rows.items()])
    monkeypatch.setattr(live, "verify_receipt", lambda _: type("Checked", (), {"judgement": judged}))
    spec = EngineSpec(engine="apr")
    host = HostSpec.model_validate({"schema": "lqw-host/1", "name": "here", "compute": "cuda"})
    parts = Parts(host, spec, spec, spec, Path("m.gguf"), shows_slow="one token at a time")
    return live.live_step(parts, tmp_path, stage).problems


FINE = {"m/ttft@256": "PASS", "m/prefill@256": "INCONCLUSIVE", "m/decode": "PASS"}
SLOWED = {"m/ttft@256": "RED", "m/prefill@256": "RED", "m/decode": "PASS"}
SAYS = "prompts prefill one token at a time, not batched"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (("floor", Outcome.FLOOR, Exit.PASS, {}, ""), None),
        (("floor", Outcome.UNDECIDED, Exit.UNDECIDED, {}, ""), "no floor"),
        (("unslowed", Outcome.PASS, Exit.PASS, FINE, ""), None),
        (("unslowed", Outcome.UNDECIDED, Exit.UNDECIDED, FINE, ""), None),
        (("unslowed", Outcome.RED, Exit.RED, FINE | {"m/decode": "RED"}, ""), "went RED"),
        (("unslowed", Outcome.UNDECIDED, Exit.UNDECIDED, FINE | {"m/ttft@256": "FAILED"}, ""), "no TTFT"),
        (("slowed", Outcome.RED, Exit.RED, SLOWED, SAYS), None),
        (("slowed", Outcome.RED, Exit.RED, SLOWED, ""), "had no effect"),
        (("slowed", Outcome.RED, Exit.RED, FINE | {"m/decode": "RED"}, SAYS), "no ttft row"),
        (("slowed", Outcome.PASS, Exit.PASS, FINE, SAYS), "did not go RED"),
    ],
)
def test_what_each_of_the_three_must_be(case, said, monkeypatch, tmp_path):
    problems = _step(monkeypatch, tmp_path, case)
    assert (problems == ()) if said is None else any(said in problem for problem in problems)

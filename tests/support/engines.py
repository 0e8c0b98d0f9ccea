"""Starting engines in tests."""

import os
from pathlib import Path

from lqw.engines.base import StartRequest
from lqw.engines.running import RunningEngine
from lqw.engines.starting import start_engine
from lqw.params import EngineSpec
from lqw.testing.fake_adapter import Fake


def fake_gguf(folder: Path) -> Path:
    """A file with GGUF's magic: all the fake engine needs."""
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(28))
    return path


RUN_ID = f"engine-test-{os.getpid()}"  # of this worker: another one starts engines at the same time


def request(folder: Path, *, slots=2, context=300, timeout_s=20.0, run_id=RUN_ID, sha256=None, **settings):
    spec = EngineSpec(engine="fake", settings=settings, sha256=sha256)
    return StartRequest(
        spec=spec,
        model_path=fake_gguf(folder),
        slots=slots,
        context_tokens_per_slot=context,
        compute="cpu",
        run_id=run_id,
        log_path=folder / "logs" / "engine.log",
        timeout_s=timeout_s,
    )


def started(folder: Path, **words) -> RunningEngine:
    outcome = start_engine(Fake(), request(folder, **words))
    assert isinstance(outcome, RunningEngine), outcome
    return outcome

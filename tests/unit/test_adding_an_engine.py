"""The adapter of docs/adding-an-engine.md, taken out of the page and measured with."""

import re
import sys

import pytest
import yaml

from lqw.collect.preflight import preflight
from lqw.engines import registry
from lqw.errors import ParamsError
from lqw.metrics.values import start_values
from lqw.outcomes import Purpose, Reason
from lqw.params import load_params
from lqw.plan import build_plan
from tests.support.fake_params import REPOSITORY, write_params
from tests.support.one_start import one_start

PAGE = (REPOSITORY / "docs" / "adding-an-engine.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release file whose subject is the page's engine, and its program."""
    (tmp_path / "page_engine.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LQW_ENGINE_MODULES", "page_engine:lqw.testing.fake_adapter")
    monkeypatch.setattr(registry, "ENGINES", dict(registry.ENGINES))
    program = tmp_path / "myserve"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -m lqw.testing.fake_engine "$@"\n')
    program.chmod(0o755)
    file = write_params(tmp_path, releases={"1.0.0": {}}) / "1.0.0.yaml"

    def say(**settings):
        said = yaml.safe_load(file.read_text())
        said["subject"] = {"engine": "myserve", "binary": str(program), "settings": settings}
        file.write_text(yaml.safe_dump(said))
        return load_params(file)

    yield say
    sys.modules.pop("page_engine", None)


def test_it_has_at_most_sixty_lines():
    assert 0 < len(CODE.splitlines()) <= 60


def test_it_measures_every_row(release, tmp_path):
    params = release(threads=1)
    preflight(params, Purpose.GATE)
    record = one_start(params, tmp_path / "run")
    assert record.failure is None, record.failure
    rows = build_plan(params, Purpose.GATE).rows
    values = start_values(record, rows, min_window_s=params.protocol.min_window_s)
    assert {str(row): one.failure for row, one in values.items()} == {
        f"tiny/{row}": None for row in params.protocol.rows
    }
    assert (record.engine.engine, record.engine.settings["slots"]) == ("myserve", 1)


def test_settings_it_does_not_know_are_refused_before_a_start(release):
    with pytest.raises(ParamsError, match="no such setting"):
        preflight(release(threads=1, thread=2), Purpose.GATE)


def test_a_program_that_does_not_become_ready_is_a_failed_start(release, tmp_path):
    params = release(threads=1)
    (tmp_path / "myserve").write_text("#!/bin/sh\necho no such model >&2\nexit 6\n")
    failure = one_start(params, tmp_path / "run").failure
    assert (failure.reason, failure.log_tail) == (Reason.FAILED_START, ["no such model"])

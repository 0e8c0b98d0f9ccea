"""environment.yml, pyproject.toml and requirements.lock say the same."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def _pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _conda():
    return yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def test_conda_dependencies_are_the_runtime_and_lab_dependencies():
    project = _pyproject()
    conda = {item for item in _conda() if isinstance(item, str)}
    wanted = set(project["dependencies"]) | set(project["optional-dependencies"]["lab"])
    assert conda - {f"python{project['requires-python']}", "pip"} == wanted
    assert f"python{project['requires-python']}" in conda


def test_pip_section_is_the_demo_extra():
    (pip,) = [item["pip"] for item in _conda() if isinstance(item, dict)]
    assert set(pip) == set(_pyproject()["optional-dependencies"]["demo"]) | {"-e ."}


def test_lock_pins_every_declared_dependency_inside_its_range():
    project = _pyproject()
    lock = dict(
        line.split(";")[0].strip().split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if line
    )
    declared = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    for requirement in declared:
        name, operator, version = re.fullmatch(r"([A-Za-z0-9-]+)(==|>=)([\w.]+)", requirement).groups()
        locked = lock[name.lower()]
        if operator == "==":
            assert locked == version, requirement
        else:
            as_tuple = [tuple(int(part) for part in re.findall(r"\d+", v)) for v in (locked, version)]
            assert as_tuple[0] >= as_tuple[1], f"{requirement}: lock has {locked}"

"""What a gate has loaded before it starts anything, and what its packages give out when they are asked."""

import importlib
import subprocess
import sys

import pytest

from lqw.imports import absent, exports

PACKAGES = ("collect", "ratchet", "receipt", "synth")
HEAVY = ("httpx", "matplotlib", "nbformat", "numpy", "pandas", "scipy")


def test_what_is_checked_before_a_start_needs_nothing_heavy():
    code = (
        "import sys, lqw.pipeline.gate, lqw.pipeline.kernels, lqw.pipeline.resuming, lqw.collect.preflight;"
        f"print(*(name for name in {HEAVY} if name in sys.modules))"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.split() == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_gives_out_all_that_it_names_and_nothing_else(name):
    package = importlib.import_module(f"lqw.{name}")
    assert package.__all__
    for exported in package.__all__:
        assert not hasattr(getattr(package, exported), "__path__")
        assert type(getattr(package, exported)) is not type(sys)
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = package.nonesuch


def test_no_exported_name_is_a_module_of_its_package():
    for name in PACKAGES:
        package = importlib.import_module(f"lqw.{name}")
        for exported in package.__all__:
            assert importlib.util.find_spec(f"lqw.{name}.{exported}") is None


def test_an_export_is_its_modules_own():
    attribute, names = exports("lqw", {"errors": ("Exit", "UsageError")})
    assert names == ["Exit", "UsageError"]
    assert attribute("Exit") is importlib.import_module("lqw.errors").Exit


def test_a_package_is_absent_only_meanwhile(monkeypatch):
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with absent("this"), pytest.raises(ImportError):
        importlib.import_module("this")
    assert "this" not in sys.modules
    with absent("json"):
        assert importlib.import_module("json") is sys.modules["json"]

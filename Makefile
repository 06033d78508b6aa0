# Needs only make and python3 (>= 3.11, with venv); uses uv where it is installed.
# The environment is made in .venv and made anew when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
MAKE_VENV = uv venv --quiet --allow-existing $(VENV)
INSTALL = uv pip install --quiet --python $(BIN)/python
else
MAKE_VENV = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install -qq --disable-pip-version-check
endif

# Each test process has one thread: threads of several that wait for each other take many times as long.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test slow bench docs clean distclean
.DELETE_ON_ERROR:

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

demo: $(VENV)/run.stamp  ## networks grow, tasks arrive unannounced; tables and pictures
	$(BIN)/dirad demo

test: $(VENV)/dev.stamp  ## lint, format, layers, types and tests: all that must pass
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	$(ONE_THREAD) $(BIN)/pytest --numprocesses logical --dist loadfile

slow: $(VENV)/dev.stamp  ## the tests that take minutes
	$(ONE_THREAD) $(BIN)/pytest -m slow

bench: $(VENV)/bench.stamp  ## measure against other methods
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/dev.stamp  ## the site, in build/docs; its code blocks are run by the tests
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "The site is in build/docs/index.html"

clean:  ## remove caches and build products
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find src experiments tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## clean, and remove the environment
	rm -rf $(VENV)

# The environment: venv.stamp (empty) <- run.stamp (dirad, MNIST) <- dev.stamp <- bench.stamp

$(VENV)/venv.stamp:
	@echo "Making $(VENV)"
ifndef UV
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dirad needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
endif
	@$(MAKE_VENV)
	@touch $@

$(VENV)/run.stamp: pyproject.toml | $(VENV)/venv.stamp
	@echo "Installing dirad and the MNIST data into $(VENV) (a minute or two)"
	@$(INSTALL) --editable '.[mnist]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	@echo "Installing the development tools into $(VENV)"
	@$(INSTALL) --editable '.[mnist,dev]'
	@touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	@echo "Installing PyTorch and other peers into $(VENV) (large)"
	@$(INSTALL) --editable '.[mnist,dev,bench]' torch==2.13.0
	@touch $@

# Everything sets itself up from a fresh clone: Python 3.11 or newer, git and make are enough.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := src tests examples benchmarks

.PHONY: help demo test lint types floors unit interop bench format clean

help: ## list what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.demo ## a legacy server under 1280 rollouts, before and after
	$(BIN)/python examples/demo/run.py

test: lint types floors unit interop ## everything: lint, types, floors, all tests, interop
	@echo "make test: all passed"

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(VENV)/.dev ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright --warnings

floors: $(VENV)/.dev ## import-linter: who may know whom
	$(BIN)/lint-imports --no-logo

unit: $(VENV)/.dev ## all tests that need no other Python, with branch coverage
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

interop: ## the real nemo-gym, in a Python 3.13 environment of its own
	tests/interop/run

bench: $(VENV)/.dev ## the benchmarks, with their budgets beside
	$(BIN)/python -m benchmarks.run

format: $(VENV)/.dev ## let ruff format and fix
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean: ## remove what make and the tests left
	rm -rf $(VENV) .venv-interop demo-out .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "truezero needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	touch $@

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	@test -f $(VENV)/.dev || echo "setting up $(VENV) (a minute on the first run)"
	$(PIP) install --editable ".[otlp]" --group demo
	touch $@

$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	@echo "setting up $(VENV) for development (minutes on the first run)"
	$(PIP) install --editable . --group dev
	touch $@ $(VENV)/.demo

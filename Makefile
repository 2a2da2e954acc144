# Two commands for a newcomer: `make demo` and `make test`. Both set everything up in .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test check bench soak clean

help:
	@echo "make demo    run the main job once, from engines' events to a routed prompt (sets up $(VENV) first)"
	@echo "make test    every test"
	@echo "make check   layout, style, types, import contracts, unit tests: under a minute"
	@echo "make bench   measured rows: index, append, replay"
	@echo "make soak    ROUNDS=100 SEED=1: rounds of faults, judged; the table is written to build/soak-1.md"
	@echo "make clean   remove $(VENV) and caches"

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

demo: $(READY)
	$(BIN)/warmlog demo

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	test ! -e cmd/__init__.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.:cmd $(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture tests/unit tests/conformance

bench: $(READY)
	$(BIN)/python -m tests.bench.run

ROUNDS ?= 100
SEED   ?= 1
JOBS   ?= 1
soak: $(READY)
	$(BIN)/python -m tests.faults.soak --rounds $(ROUNDS) --seed $(SEED) --jobs $(JOBS) --out build/soak-$(SEED)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

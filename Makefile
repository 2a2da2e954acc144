# Two commands for a newcomer: `make demo` and `make test`. Both set everything up in .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test check bench bench-peers soak fuzz clean

help:
	@echo "make demo    run the main job once, from a wired Pod to a routed prompt (sets up $(VENV) first)"
	@echo "make test    every test"
	@echo "make check   layout, style, types, import contracts, unit tests: about a minute"
	@echo "make bench   measured rows: index, append, replay, keyframes, admission, controller"
	@echo "make bench-peers    a peer's indexer and ours over the same bytes: ARGS='--replicas 8 --rounds 1' for less"
	@echo "make soak    ROUNDS=100 SEED=1: rounds of faults, judged; the table is written to build/soak-1.md"
	@echo "make fuzz    N=1000000 SEED=1: so many bad inputs for every parser of foreign bytes; see docs/fuzz.md"
	@echo "make clean   remove $(VENV) and caches"

$(READY): pyproject.toml hatch_build.py handlers/prefixindex/_native.c
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

# The peer's wheel is large, and none of it is needed elsewhere: an environment of its own. Where it cannot be installed,
# one line says so and nothing fails.
PEERS := build/bench
$(PEERS)/.ready: pyproject.toml hatch_build.py handlers/prefixindex/_native.c
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' \
	  || { echo "the peer (wheel ai-dynamo-runtime) cannot be installed here; ours alone is measured"; \
	       $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; }
	touch $@

bench-peers: $(PEERS)/.ready
	$(PEERS)/bin/python -m tests.bench.peers.run --out build/peers.jsonl $(ARGS)

ROUNDS ?= 100
SEED   ?= 1
JOBS   ?= 1
soak: $(READY)
	$(BIN)/python -m tests.faults.soak --rounds $(ROUNDS) --seed $(SEED) --jobs $(JOBS) --out build/soak-$(SEED)

N ?= 100000
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz.run --inputs $(N) --seed $(SEED) --jobs $(JOBS) --out build/fuzz-$(SEED)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

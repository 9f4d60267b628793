PYTHON ?= python3
BIN := .venv/bin
# Studies that take minutes or hours, and shared modules, are not part of `make bench`.
STUDIES := $(addprefix benchmarks/,fit_learned_noise.py learned_noise.py recovery_study.py simulated_ranges.py)
BENCHMARKS := $(filter-out $(STUDIES),$(wildcard benchmarks/*.py))
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/pytest --numprocesses auto --dist worksteal

.PHONY: help demo quick test test-long bench docs clean

help:
	@echo "make demo       set up, draw a simulated street, train three encoders on it, and write a report into ./demo"
	@echo "make quick      run the quick tests: no process, server, drawing or training; under a minute on 2 cores"
	@echo "make test       set up (4 minutes on 2 cores), check style, types and imports, and run the tests (4 minutes)"
	@echo "make test-long  run the long tests: documented commands at full length, an installed wheel; half an hour on 2 cores"
	@echo "make bench      run the benchmarks, each next to the usual alternative"
	@echo "make docs       build the documentation into ./site"
	@echo "make clean      remove everything that these commands create"

demo: .venv/installed
	$(BIN)/mappable demo --overwrite

quick: .venv/developing
	$(PYTEST) -m "not medium and not long"

test: .venv/developing
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(PYTEST) -m "not long"

test-long: .venv/developing
	$(PYTEST) -m long

bench: .venv/developing
	@for benchmark in $(BENCHMARKS); do echo "== $$benchmark"; $(BIN)/python $$benchmark || exit 1; done

docs: .venv/documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv demo site

# torch is installed first and alone: once 2.13.0 is in place, no other package can bring another build of it.
.venv/torch: constraints.txt
	scripts/system-packages $(PYTHON)
	$(PYTHON) -m venv .venv
	$(PIP) torch
	@touch $@

.venv/installed: .venv/torch pyproject.toml hatch_build.py scripts/vendor
	$(PIP) --editable ".[serve,video]"
	@touch $@

.venv/developing: .venv/installed
	scripts/system-packages $(PYTHON) browser
	$(PIP) --editable ".[ann,dev,hloc,tensorboard,video]"
	@touch $@

.venv/documenting: .venv/installed
	$(PIP) --editable ".[docs]"
	@touch $@

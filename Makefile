PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test bench docs clean

help:
	@echo "make demo   set up from nothing, then draw a simulated street, train three encoders on it, and report (writes ./demo)"
	@echo "make test   set up from nothing, then check style, types, the import rule, and run all tests"
	@echo "make bench  the benchmarks, each beside what a user would pick instead"
	@echo "make docs   build the documentation into ./site"
	@echo "make clean  remove what the above made"

demo: .venv/installed
	$(BIN)/mappable demo --overwrite

test: .venv/developing
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/pytest --numprocesses auto --dist worksteal

bench: .venv/developing
	@for benchmark in benchmarks/*.py; do echo "== $$benchmark"; $(BIN)/python $$benchmark || exit 1; done

docs: .venv/documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv demo site

# torch goes first and by itself: with 2.13.0 in place, no later package can bring another build of it along.
.venv/torch: constraints.txt
	scripts/system-packages $(PYTHON)
	$(PYTHON) -m venv .venv
	$(PIP) torch
	@touch $@

.venv/installed: .venv/torch pyproject.toml scripts/vendor
	$(PIP) --editable ".[serve,video]"
	$(BIN)/python scripts/vendor
	@touch $@

.venv/developing: .venv/installed
	scripts/system-packages $(PYTHON) browser
	$(PIP) --editable ".[ann,dev,hloc,sdp,tensorboard,video]"
	@touch $@

.venv/documenting: .venv/installed
	$(PIP) --editable ".[docs]"
	@touch $@

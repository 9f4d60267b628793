PYTHON ?= python3
BIN := .venv/bin
BENCHMARKS := $(addprefix benchmarks/,training.py query.py search.py mining.py recovery.py serving.py)
CLUSTER_TESTS := $(addprefix tests/,features/test_on_ray.py learning/test_torchrun.py maps/test_milvus.py service/test_replicas.py)
# Python compiles a module when a process first imports it. Compiling all packages takes longer than installing them.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
LOCKED := $(PIP) --no-deps --require-hashes --requirement
PYTEST := $(BIN)/pytest --numprocesses auto --dist worksteal
# Tests start many processes. Without bytecode on disk, each one compiles all modules that it loads.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test test-long test-trust test-cluster bench docs sbom audit release clean

help:
	@echo "make demo       set up, draw a simulated street, train three encoders on it, and write a report into ./demo"
	@echo "make quick      run the quick tests: no process, server, drawing or training; under a minute on 2 cores"
	@echo "make test       set up (a minute on 2 cores), check style, types and imports, and run the tests (4 minutes)"
	@echo "make test-long  run the long tests: documented commands at full length, an installed wheel; half an hour on 2 cores"
	@echo "make bench      run the benchmarks, each next to the usual alternative"
	@echo "make docs       build the documentation into ./site"
	@echo "make release    build the sdist and the wheel into ./dist, and test them in new environments; publishes nothing"
	@echo "make clean      remove everything that these commands create"

demo: .venv/installed
	$(BIN)/mappable demo --overwrite

quick: .venv/developing
	$(PYTEST) -m "not medium and not long and not cluster"

test: .venv/developing
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/codespell
	@-$(BIN)/python scripts/size.py
	$(BIN)/mypy >.venv/mypy.log 2>&1 & types=$$!; \
	$(PYTEST) -m "not long and not cluster"; tests=$$?; \
	wait $$types; types=$$?; cat .venv/mypy.log; exit $$((tests | types))

test-long: .venv/developing
	$(PYTEST) -m long

# The targets from here to `audit` need a server or a network, or take hours; CONTRIBUTING.md says when to run them.
# test-trust kills, damages, fuzzes, fills disks and soaks. A run that was stopped continues: the counters are in ./trust.
test-trust: .venv/trusting
	$(BIN)/python studies/trust --out trust

test-cluster: .venv/clustered
	$(BIN)/pytest -m cluster $(CLUSTER_TESTS)

bench: .venv/developing
	@for benchmark in $(BENCHMARKS); do echo "== $$benchmark"; $(BIN)/python $$benchmark || exit 1; done

docs: .venv/documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

sbom:
	$(PYTHON) scripts/sbom.py

audit: .audit
	@for lock in locks/*.lock; do echo "$$lock:"; $(PYTHON) scripts/audit.py .audit/bin/pip-audit $$lock || exit; done

release: .venv/developing
	@git diff --quiet HEAD || { echo "commit all changes first: a release is built from a commit"; exit 1; }
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	cd worlds && ../$(BIN)/python -m hatchling build --directory ../dist
	MAPPABLE_DIST=dist $(BIN)/pytest -m long tests/test_wheel.py
	$(BIN)/pip hash dist/*

clean:
	rm -rf .venv .audit demo site trust dist sbom.json

# The locks pin every package by version and hash (scripts/lock.py). torch has only its version: its build depends on the
# machine. Nothing can bring another build of torch, because all else is installed with --no-deps.
.venv/installed: locks/core.lock locks/constraints.txt pyproject.toml worlds/pyproject.toml $(wildcard packaging/*)
	scripts/system-packages $(PYTHON)
	$(PYTHON) -m venv .venv
	$(LOCKED) locks/core.lock
	$(PIP) --constraint locks/constraints.txt torch
	$(PIP) --no-deps --no-build-isolation --editable . --editable worlds
	@touch $@

.venv/developing: .venv/installed locks/dev.lock
	scripts/system-packages $(PYTHON) browser & system=$$!; \
	$(LOCKED) locks/dev.lock && wait $$system
	@touch $@

# atheris has no wheel for every platform: pyproject.toml lists them, and studies/trust skips what is not installed.
.venv/trusting: .venv/developing locks/trust.lock
	$(LOCKED) locks/trust.lock
	@touch $@

.venv/clustered: .venv/developing locks/cluster.lock
	scripts/system-packages $(PYTHON) balancer
	$(LOCKED) locks/cluster.lock
	@touch $@

.venv/documenting: .venv/installed locks/docs.lock
	$(LOCKED) locks/docs.lock
	@touch $@

.audit:
	$(PYTHON) -m venv .audit
	.audit/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1 || { rm -r .audit; exit 1; }

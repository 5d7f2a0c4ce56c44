# `make` lists the commands. Everything runs in .venv, which `setup` creates. The servers' data is in .pipestream.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

BIN := .venv/bin
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
PROFILE ?=
ARGS ?=
# Tests wait for servers more than they compute: on 2 cores the fault tests take 6:53 min in two processes and 5:20 in
# three. All tests of a file run in one process, because the file may start servers of its own.
SIDE_BY_SIDE := --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: help reference pictures setup setup-dev demo test test-stack check format faults bench bench-quick up down status proto requirements wheel clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.txt pyproject.toml scripts/setup
	@scripts/setup requirements.txt
	@touch $@

$(READY_DEV): requirements-dev.txt $(READY)
	@scripts/setup requirements-dev.txt
	@touch $@

setup: $(READY) ## create .venv with everything that is needed to run
	@:

setup-dev: $(READY_DEV) ## setup, and the tools to work on the project
	@:

demo: $(READY) ## run documents through the sample graph on real servers, and show what happened
	@$(BIN)/pipestream demo $(ARGS)

test: check ## check, then run all tests except the slow ones, on the full stack
	@$(BIN)/python -m pytest -m "not slow" $(SIDE_BY_SIDE) $(ARGS)

test-stack: $(READY_DEV) ## keep the servers of the tests up until Ctrl-C, for test runs in other shells
	@$(BIN)/python scripts/test_stack.py

check: $(READY_DEV) ## lint (code and proto/), format, types, import rules
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run make format"; exit 1; }
	@$(BIN)/buf lint proto
	@$(BIN)/buf format --exit-code proto > /dev/null || { echo "run make format"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }
	@echo "check: clean"

format: $(READY_DEV) ## format the code, and fix what can be fixed automatically
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet . ; $(BIN)/buf format --write proto

faults: $(READY_DEV) ## the long fault tests: kill, stop and cut off everything, lose nothing
	@FAULTS=long $(BIN)/python -m pytest tests/faults --timeout 3600 $(SIDE_BY_SIDE) $(ARGS)

bench: $(READY_DEV) ## measure against what people would use instead; results go to bench/ and docs/performance.md
	@$(BIN)/python -m pytest tests/bench -m "slow or not slow" --timeout 3600 $(ARGS); \
		failed=$$?; $(BIN)/python scripts/performance_page.py; exit $$failed

bench-quick: $(READY_DEV) ## the same with less of everything, in a few minutes
	@BENCH=quick $(BIN)/python -m pytest tests/bench -m "slow or not slow" --timeout 3600 $(ARGS); \
		failed=$$?; $(BIN)/python scripts/performance_page.py; exit $$failed

up: $(READY) ## start the local stack (PROFILE=full adds Consul, S3 and Spark)
	@$(BIN)/pipestream up $(addprefix --profile ,$(PROFILE)) $(ARGS)

down: $(READY) ## stop the local stack; data stays in .pipestream
	@$(BIN)/pipestream down $(ARGS)

status: $(READY) ## show the local stack
	@$(BIN)/pipestream status $(ARGS)

proto: $(READY_DEV) ## generate pipestream/gen from proto/
	@$(BIN)/python scripts/generate_protos.py

reference: $(READY_DEV) ## write the tables in docs/ from the code
	@$(BIN)/python scripts/generate_reference.py

pictures: $(READY_DEV) ## take the pictures of docs/ui.md again
	@$(BIN)/python scripts/take_pictures.py $(ARGS)

# Hashes for every platform. The files contain neither the index's address nor a folder of this machine.
COMPILE := UV_FIND_LINKS= $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-header --no-sources

requirements: ## compile the requirements files from pyproject.toml: for running (`all`), for development, for building the wheel
	@[ -x $(BIN)/uv ] || { echo "run make setup first"; exit 1; }
	@$(COMPILE) --extra all pyproject.toml --output-file requirements.txt
	@$(COMPILE) --extra all --group dev --constraint requirements.txt pyproject.toml --output-file requirements-dev.txt
	@$(COMPILE) --group build --constraint requirements-dev.txt --output-file requirements-build.txt
	@$(COMPILE) tests/bench/rivals/requirements.in --output-file tests/bench/rivals/requirements.txt

wheel: $(READY_DEV) ## build the wheel into dist/
	@$(BIN)/python -m hatchling build --target wheel

clean: ## remove .venv and caches of tools (servers' data in .pipestream stays)
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# One entry for everything, the same on a developer's machine and in CI. Each target makes the
# virtual environment it needs; a bare machine needs Python 3.11 or newer and make.
#
#   PYTHON=/path/to/python3.x    the interpreter to build the environments with
#   PERDURE_VENV=dir             environment of demo, test, bench, chaos, soak  (.venv-test)
#   PERDURE_VENV_CHECK=dir       environment of check, generate                 (.venv-check)
#   ARGS='-k timers -x'          further arguments for pytest or the bench
#   TEST_PROCESSES=0             how many test files run at a time  (4; 0: one, in this process)
#   WORKLOADS='W1 W3'            what `make bench` runs

PERDURE_VENV ?= .venv-test
PERDURE_VENV_CHECK ?= .venv-check
WORKLOADS ?= W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W11 W12
TEST_PROCESSES ?= 4
PYTHON ?=
ARGS ?=

RUN := $(PERDURE_VENV)/bin
CHECK := $(PERDURE_VENV_CHECK)/bin
# -P: the folders proto/ and sdk/ of this checkout must not become importable by their names
PYTEST := $(RUN)/python -P -m pytest
# generate.sh takes the compiler from $PYTHON and its plug-ins from the path
GENERATOR := PYTHON="$(abspath $(CHECK))/python" PATH="$(abspath $(CHECK)):$$PATH"
SOURCES := proto sdk engine migrations tests

# The tests start a thousand processes: compiled anew in each, our modules took a quarter of what it costs to start them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check check-generated check-style check-mypy check-pyright bench chaos soak install generate clean

help:
	@echo 'make demo      a workflow survives kill -9 of its worker and of the engine'
	@echo 'make test      the tests'
	@echo 'make check     generated code, format, lint, import rules, types'
	@echo 'make bench     the workloads $(WORKLOADS)'
	@echo 'make chaos     minutes of random kills'
	@echo 'make soak      the tests that take long, and the seeds that make test leaves out'
	@echo 'make generate  the code beside the .proto files'
	@echo 'make clean     remove the environments, caches and builds made here'

demo: $(PERDURE_VENV)/.installed
	$(RUN)/perdure demo

test: $(PERDURE_VENV)/.installed
	$(PYTEST) -n $(TEST_PROCESSES) $(ARGS)

bench: $(PERDURE_VENV)/.installed
	@set -e; for workload in $(WORKLOADS); do $(RUN)/perdure bench $$workload $(ARGS); done

chaos: $(PERDURE_VENV)/.installed
	$(PYTEST) -m chaos --timeout 3600 $(ARGS)

soak: $(PERDURE_VENV)/.installed
	$(PYTEST) -m soak --timeout 3600 $(ARGS)

# In parts, so that `make -j 2 check` runs two of them at a time.
check: check-generated check-style check-mypy check-pyright

# The generator runs on a copy, so that the check needs no git and changes nothing here.
check-generated: $(PERDURE_VENV_CHECK)/.installed
	@set -e; copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; cp -R proto "$$copy/"; \
	find "$$copy/proto" -name '*_pb2*' -delete; \
	$(GENERATOR) bash "$$copy/proto/generate.sh"; \
	diff -r -x __pycache__ proto "$$copy/proto" \
	|| { echo 'The generated code is not that of the .proto files: run make generate.' >&2; exit 1; }

check-style: $(PERDURE_VENV_CHECK)/.installed
	$(CHECK)/ruff format --check $(SOURCES)
	$(CHECK)/ruff check $(SOURCES)
	$(CHECK)/lint-imports --no-logo

check-mypy: $(PERDURE_VENV_CHECK)/.installed
	$(CHECK)/python -P -m mypy

check-pyright: $(PERDURE_VENV_CHECK)/.installed
	$(CHECK)/pyright --project . --pythonpath $(CHECK)/python

# Both environments, for who wants them made at once: `make -j 2 install`.
install: $(PERDURE_VENV)/.installed $(PERDURE_VENV_CHECK)/.installed

generate: $(PERDURE_VENV_CHECK)/.installed
	$(GENERATOR) bash proto/generate.sh

# Only what this file makes by default: an overridden environment belongs to whoever named it.
clean:
	rm -rf .venv-test .venv-check .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find $(SOURCES) -type d -name __pycache__ -prune -exec rm -rf {} +

# -------------------------------------------------------------------------------------------------

$(PERDURE_VENV)/.installed: EXTRA := test
$(PERDURE_VENV_CHECK)/.installed: EXTRA := dev

# A name on the path proves nothing (pyenv's shims, Debian's python3 without venv): each is tried.
$(PERDURE_VENV)/.installed $(PERDURE_VENV_CHECK)/.installed: pyproject.toml
	@set -e; found=; \
	if ! $(@D)/bin/python -m pip --version >/dev/null 2>&1; then \
	  for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3); do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	      && found=$$python && break; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'Perdure needs Python 3.11 or newer with its venv module, and found none.' >&2; \
	    echo 'Install one (on Debian: python3 and python3-venv) or name it: make PYTHON=/path/to/python3.11' >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(@D) with $$found"; \
	  "$$found" -m venv $(@D); \
	fi
	@echo 'Installing perdure[$(EXTRA)] into $(@D) (a minute or two the first time)'
	@$(@D)/bin/python -P -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRA)]'
	@touch $@

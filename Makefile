# Everything a contributor types. Needs make and Python 3.11 or later; uv is found or fetched into .tools/.
#
#   make demo                 real events through the broker, two Spark jobs, tables at the end
#   make test ARGS="-k wire"  the tests that take minutes in all, and what ARGS names (ARGS goes to pytest)
#   make test-all             every test: kills and broken disks, Spark, clients in other languages as well
#   make test-long            those of them that make test leaves out
#   make test-lowest          what uses them, with the lowest versions that pyproject.toml takes
#   make test-wheel           wheel and source archive: built, checked, installed, served (ARGS="python3.12 python3.13")
#   make test-neighbours      installed next to other packages that programs have (ARGS: their names)
#   make lint                 formatting, lint, types, import contracts
#   make check-pages          types and unit tests of the console's pages
#   make compat               all tests that drive a node with other people's clients; tells build/compat.jsonl
#   make compat-cluster       the same on a cluster of three nodes, then with one of them killed
#   make compat-table         the page docs/compatibility.md, from what make compat has told
#   make bench ARGS="--help"  the benchmarks
#   make simulate SEEDS=10000 whole nodes in virtual time with faults, on all processors (FIRST is the first seed;
#                             NODES=3 for clusters)
#   make fuzz SECONDS=600     every decoder on inputs without end (TARGET=name for one; python -m tests.fuzz --list)
#   make pictures             those of the README
#   make release              what is published, for HUTONG_REPOSITORY and HUTONG_REFERENCE
#   make docs                 the documentation as HTML in docs/_build/html

ARGS ?=
SEEDS ?= 1000
FIRST ?= 1
MINUTES ?= 0.5
NODES ?= 1
SECONDS ?= 60
# Processes among which the files of tests are dealt out; 0: this one alone. Many tests wait for processes that they have
# started: with two of them, a third of the time of two cores was unused.
WORKERS ?= 3
# A client library can hang with the interpreter's lock, where no timer of Python's runs: then the worker is ended.
HANG_SECONDS := 660
UV := .tools/uv
# --inexact: another target's packages may stay; --frozen: exactly what uv.lock says.
SYNC := $(UV) sync --quiet --frozen --inexact --all-extras
RUN := $(UV) run --quiet --frozen --no-sync

.DEFAULT_GOAL := help
PYTEST := $(RUN) pytest -n $(WORKERS) --dist loadfile -o faulthandler_timeout=$(HANG_SECONDS) \
	-o faulthandler_exit_on_timeout=true
.PHONY: help demo test test-all test-long test-lowest test-wheel test-neighbours pictures release lint check-pages compat compat-cluster compat-table bench simulate fuzz docs sync

help:
	@sed -n 's/^#   /  /p' Makefile

$(UV):
	@sh .ci/get-uv $(UV)

sync: $(UV)
	@$(SYNC)

demo: sync
	@$(RUN) hutong demo $(ARGS)

test: sync
	@$(PYTEST) --part quick $(ARGS)

test-all: sync
	@$(PYTEST) --part all $(ARGS)

test-long: sync
	@$(PYTEST) --part long $(ARGS)

test-lowest: $(UV)
	@sh .ci/test-lowest $(UV) $(ARGS)

test-wheel: $(UV)
	@sh .ci/test-wheel $(UV) $(ARGS)

test-neighbours: $(UV)
	@sh .ci/test-neighbours $(UV) $(ARGS)

pictures: sync
	@PYTHONPATH=. $(RUN) python docs/figures/session.py docs/figures/session.svg
	@$(RUN) python docs/figures/console.py docs/figures
	@$(RUN) python -m bench picture docs/figures/kafka.json docs/figures/kafka.svg

release: $(UV)
	@test -n "$$HUTONG_REPOSITORY" || { echo "release: set HUTONG_REPOSITORY to the URL of the repository" >&2; exit 64; }
	@test -z "$$(git status --porcelain)" || { echo "release: there are changes that are not committed" >&2; exit 65; }
	@sh .ci/test-wheel $(UV) $(ARGS)
	@ls dist

compat: sync
	@TEST_COMPAT=full TEST_COMPAT_REPORT=build/compat.jsonl $(RUN) pytest tests/compat -m compat $(ARGS)

compat-cluster: sync
	@TEST_COMPAT=full TEST_COMPAT_CLUSTER=3 TEST_COMPAT_REPORT=build/compat-cluster.jsonl $(RUN) pytest tests/compat -m compat $(ARGS)
	@TEST_COMPAT=full TEST_COMPAT_CLUSTER=3 TEST_COMPAT_DOWN=1 TEST_COMPAT_REPORT=build/compat-down.jsonl $(RUN) pytest tests/compat -m compat $(ARGS)

compat-table: sync
	@$(RUN) python -m tests.compat.table $(wildcard build/compat*.jsonl)

lint: sync
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-logo

check-pages:
	@sh .ci/check-pages

bench: sync
	@$(RUN) python -m bench $(ARGS)

simulate: sync
	@$(RUN) hutong simulate --nodes $(NODES) --seeds $(FIRST)..$$(($(FIRST) + $(SEEDS) - 1)) --minutes $(MINUTES) $(ARGS)

fuzz: $(UV)
	@$(SYNC) --group fuzz
	@$(RUN) python -m tests.fuzz --seconds $(SECONDS) $(TARGET) $(ARGS)

docs: $(UV)
	@$(SYNC) --group docs
	@$(RUN) sphinx-build --quiet --fail-on-warning --nitpicky --builder doctest docs docs/_build/doctest
	@$(RUN) sphinx-build --quiet --fail-on-warning --nitpicky docs docs/_build/html
	@echo "docs/_build/html/index.html"

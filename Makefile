# Two commands do everything on a fresh machine: `make run` and `make test`.
# Nothing is resolved here: both install what the hash-pinned locks name.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
RUN    := $(VENV)/.installed-run
TEST   := $(VENV)/.installed-test
# A run that is still going after so many minutes is ended and says what was running.
# What the tests run with make is none of this make's business.
PYTEST  = env -u MAKEFLAGS -u MFLAGS $(BIN)/python -m tests.support.$(RUNNER) $(MINUTES_MAX) $(BIN)/python -m pytest -n $(JOBS)
# `RUNNER=alone` runs the few tests that failed beside others once more, alone, and names them (tests/support/alone.py).
RUNNER ?= within
MINUTES_MAX ?= 60
# A part of a test is waiting, so there are more of them than cores.
JOBS ?= 6
# Some machines say 1. Each of the many processes that the tests start would then compile all of hooklane anew.
export PYTHONDONTWRITEBYTECODE :=

COMPILED := $(CURDIR)/build/compiled
# Run again on what ships compiled: the path of an event through the sender, on every store of its own, and a crash.
AGAIN := tests/units/compiled tests/units/core tests/units/transport tests/faults/sim tests/stores/outbox tests/stores/postgres \
         tests/promises/sending/test_promises.py tests/promises/sending/test_an_engine_that_fails.py \
         tests/promises/sending/test_hostile_patterns.py tests/promises/sending/test_restored_in_place.py \
         tests/promises/sending/test_sends_a_few_at_a_time.py tests/promises/sending/test_sweeping.py \
         tests/promises/sending/api/test_publish_api.py tests/promises/sending/api/test_batch_api.py \
         tests/faults/crash/test_failpoints.py
# Of it, what `make test` runs: the same values and decisions, the simulator, a store, promises of sending, answers, a kill.
AGAIN_SHARE := tests/units/compiled tests/units/core tests/faults/sim tests/stores/outbox/test_sqlite.py \
         tests/promises/sending/test_promises.py tests/units/transport/test_transport_answers.py \
         tests/promises/sending/api/test_batch_api.py \
         tests/faults/crash/test_failpoints.py::test_f17_a_kill_before_the_answer_sends_again
ON_COMPILED = test ! -d $(COMPILED) || HOOKLANE_TEST_TREE=$(COMPILED) PYTHONPATH=$(COMPILED) \
		$(PYTEST) -o pythonpath="$(COMPILED) ."

.PHONY: run vendor setup test test-source test-compiled check compiled docs bench soak soak-record lock dist sbom clean

# For instance `make run ARGS="--port 8790"`.
run: $(RUN) vendor
	@echo "hooklane: starting the demo; Ctrl-C ends it; another port: make run ARGS=\"--port 8790\""
	@$(BIN)/hooklane dev --demo $(ARGS)

# What the dashboard imports, from npm; where there is none, from the wheel of it. What is there costs nothing.
vendor: $(RUN)
	@$(BIN)/python -m tools.vendor

setup: $(TEST)

# What one waits for: eight to fifteen minutes on two quiet cores, as the host is fast or slow (docs/adr/0242 has where they go). What takes longer is marked `soak`, and each kind of it has a share here
# (tests/harness/test_soak.py). The compiled tree is made beside the tests of the plain source, which leave a part of two cores unused.
# With ARGS only what they ask for, on the plain source.
test: $(TEST)
	$(BIN)/python -m tests.prepare
	$(if $(ARGS),$(ON_SOURCE) $(ARGS),$(MAKE) -j 2 HOW=--quick compiled test-source && $(MAKE) test-compiled)
ON_SOURCE = $(PYTEST) -m "not soak"

# In a fresh clone one process reads all tests first and keeps their bytecode, or each of the workers would make all of it.
# What is wrong with a test is told by the run itself.
READ_ONCE = $(if $(wildcard tests/__pycache__/conftest.*),,-$(BIN)/python -m pytest -n 0 --collect-only -m "not soak" > /dev/null 2>&1)

# The simulator runs on one of the two trees: on what ships, where that can be built.
test-source: $(TEST)
	$(READ_ONCE)
	$(ON_SOURCE) --ignore=tests/faults/sim

test-compiled: HOW = --quick
test-compiled: compiled
	$(BIN)/python -m tests.prepare
	$(ON_COMPILED) -m "not soak" $(AGAIN_SHARE)
	test -d $(COMPILED) || $(ON_SOURCE) tests/faults/sim

check: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases examples tests/typing
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# The hot modules as machine code, in build/compiled; where there is no C compiler it says so and does nothing.
compiled: $(TEST)
	$(BIN)/python -m tools.compiled $(HOW)

# The documentation as a site in build/site, without warnings, dead links and requests to other hosts.
docs: $(TEST)
	$(BIN)/python -m tools.docs_site

bench: compiled
	$(BIN)/python -m bench $(ARGS)

# What `make test` leaves out, and every property with 15 times as many examples; then all of the compiled tree, and
# half an hour of the recorded soak of the simulator, processes, hosts and disks, which goes on where the last one
# stopped (tests/faults/record.py).
soak: MINUTES_MAX = 180
soak: compiled
	$(BIN)/python -m tests.prepare
	$(PYTEST) $(PATIENT) -m "soak or hypothesis"
	$(ON_COMPILED) $(PATIENT) $(AGAIN)
	$(MAKE) soak-record

soak-record: compiled
	$(BIN)/python -m tests.prepare pgbouncer
	env $$(test ! -d $(COMPILED) || echo HOOKLANE_TEST_TREE=$(COMPILED) PYTHONPATH=$(COMPILED)) \
		$(BIN)/python -m tests.faults.record --minutes 30
	$(BIN)/python -m tests.faults.record --table
PATIENT := -o timeout=1800 -o faulthandler_timeout=1790 --hypothesis-profile=soak

# The one target that resolves. Universal locks with hashes, without the address of any index.
lock: $(TEST)
	$(PIP) install uv==0.13.7
	$(BIN)/uv pip compile $(COMPILE) pyproject.toml --extra server --group build -o requirements/run.lock
	$(BIN)/uv pip compile $(COMPILE) pyproject.toml --all-extras --group build --group test -c requirements/run.lock -o requirements/test.lock
COMPILE := --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11

# Wheel and sdist in dist/: the same bytes for the same commit, whoever builds them. And what they are made of.
dist: $(RUN)
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m hatchling build --directory dist
sbom: $(RUN)
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m tools.sbom dist/hooklane.cdx.json
EPOCH = $(shell git log -1 --format=%ct)

clean:
	rm -rf $(VENV) build dist .servers .hooklane src/hooklane/server/ui/vendor

$(VENV)/bin/python:
	@echo "hooklane: making a Python environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("hooklane needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(RUN): requirements/run.lock pyproject.toml | $(VENV)/bin/python
	@echo "hooklane: installing what it depends on into $(VENV) (requirements/run.lock; once, about a minute)"
	@$(PIP) install --require-hashes -r requirements/run.lock
	@echo "hooklane: installing itself from this folder"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(TEST): requirements/test.lock $(RUN)
	@echo "hooklane: installing what the tests need into $(VENV) (requirements/test.lock; once, some minutes)"
	@$(PIP) install --require-hashes -r requirements/test.lock
	@touch $@

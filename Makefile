# Two commands do everything on a fresh machine: `make run` and `make test`.
# Nothing is resolved here: both install what the hash-pinned locks name.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
RUN    := $(VENV)/.installed-run
TEST   := $(VENV)/.installed-test

COMPILED := $(CURDIR)/build/compiled
# Run again on what ships compiled: the path of an event through the sender, on every store of its own, and a crash.
AGAIN := tests/compiled tests/core tests/sim tests/outbox tests/postgres tests/transport tests/sending \
         tests/api/test_publish_api.py tests/api/test_batch_api.py tests/crash/test_failpoints.py

.PHONY: run setup test test-compiled check compiled bench soak lock clean

run: $(RUN)
	$(BIN)/hooklane dev --demo $(ARGS)

setup: $(TEST)

# With ARGS only what they ask for, on the plain source.
test: $(TEST) $(if $(ARGS),,test-compiled)
	$(BIN)/python -m tests.prepare
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-compiled: compiled
	$(BIN)/python -m tests.prepare
	test ! -d $(COMPILED) || HOOKLANE_TREE=$(COMPILED) PYTHONPATH=$(COMPILED) \
		$(BIN)/python -m pytest -o pythonpath="$(COMPILED) ." -n 2 --dist loadgroup $(AGAIN)

check: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The hot modules as machine code, in build/compiled; where there is no C compiler it says so and does nothing.
compiled: $(TEST)
	$(BIN)/python -m tools.compiled

bench: compiled
	$(BIN)/python -m bench $(ARGS)

soak: $(TEST)
	$(BIN)/python -m bench.soak $(ARGS)

# The one target that resolves. Universal locks with hashes, without the address of any index.
lock: $(TEST)
	$(PIP) install uv==0.13.7
	$(BIN)/uv pip compile $(COMPILE) pyproject.toml --extra server --group build -o requirements/run.lock
	$(BIN)/uv pip compile $(COMPILE) pyproject.toml --all-extras --group build --group test -c requirements/run.lock -o requirements/test.lock
COMPILE := --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11

clean:
	rm -rf $(VENV) build .servers .hooklane

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("hooklane needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements/run.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --require-hashes -r requirements/run.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(TEST): requirements/test.lock $(RUN)
	$(PIP) install --require-hashes -r requirements/test.lock
	@touch $@

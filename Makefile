# Two commands do everything on a fresh machine: `make run` and `make test`.
# Nothing is resolved here: both install what the hash-pinned locks name.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
RUN    := $(VENV)/.installed-run
TEST   := $(VENV)/.installed-test

.PHONY: run setup test check bench soak lock clean

run: $(RUN)
	$(BIN)/hooklane dev --demo $(ARGS)

setup: $(TEST)

test: $(TEST)
	$(BIN)/python -m tests.prepare
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

check: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(TEST)
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
	rm -rf $(VENV) .servers .hooklane

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

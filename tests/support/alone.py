"""What fails beside others is run once more, alone: `python -m tests.support.alone MINUTES PYTEST …`, for `.ci/run`.

The tests start real servers and measure real time, two or three at once. A test that fails in such a crowd and passes
alone is a test to mend, and no reason to hold a change back: it is named at the end, where a person reads it. One that
fails alone as well is red, and so are more than a handful, whatever they do alone. `make test` itself repeats nothing.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.within import run_within

FEW = 5
FAILED, ONLY = "FAILED_TESTS", "ONLY_TESTS"
"""Not HOOKLANE_…: hooklane warns of settings that it does not know."""
TESTS_FAILED = 1


class Failures:
    """Keeps the names of the tests that failed, or runs only those that failed last time."""

    def __init__(self) -> None:
        self._failed: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if names := os.environ.get(ONLY):
            wanted = Path(names).read_text().splitlines()
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
            items[:] = [item for item in items if item.nodeid in wanted]

    def pytest_sessionfinish(self) -> None:
        if names := os.environ.get(FAILED):
            Path(names).write_text("\n".join(self._failed))


def run(limit_s: float, command: list[str]) -> int:
    """The status of *command*, or that of its failed tests alone, where they are few."""
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "failed"
        os.environ[FAILED] = str(names)
        status = run_within(limit_s, command)
        failed = names.read_text().splitlines() if names.exists() else []
        if status != TESTS_FAILED or not 0 < len(failed) <= FEW:
            return status
        print(f"\n{len(failed)} failed beside others, and each is run once more, alone", flush=True)
        del os.environ[FAILED]
        os.environ[ONLY] = str(names)
        status = run_within(limit_s, [*command, "-n", "0"])
    for name in failed:
        print(f"failed beside others, {'passed' if status == 0 else 'see above'} alone: {name}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]) * 60, sys.argv[2:]))

"""What is running now, and since when: told on SIGQUIT, with the stacks of every process, before the run ends."""

import faulthandler
import os
import signal
import time
from types import FrameType

import pytest

STACKS_WITHIN_S = 2.0
TOO_LONG = 124


class Running:
    """Which tests have begun and not ended, in the process that a person started."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._terminal = os.fdopen(os.dup(2), "w")  # past pytest's capturing, which stands still just now
        signal.signal(signal.SIGQUIT, self._end)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._since[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._since.pop(nodeid, None)

    def pytest_unconfigure(self) -> None:
        self._terminal.close()

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        told = [f"running for {now - since:.0f} s: {nodeid}" for nodeid, since in self._since.items()]
        print("\n", *(told or ["no test is running"]), sep="\n", file=self._terminal, flush=True)
        faulthandler.dump_traceback(self._terminal)
        time.sleep(STACKS_WITHIN_S)  # the workers got the same signal, and write to the same terminal
        pytest.exit("the run took too long", returncode=TOO_LONG)


def tell_stacks_on_quit() -> None:
    """In a worker: SIGQUIT writes the stacks of all threads to the terminal, past pytest's capturing."""
    faulthandler.register(signal.SIGQUIT, file=os.dup(2), all_threads=True, chain=False)

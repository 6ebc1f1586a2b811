"""Runs a command within a time: `python -m tests.support.within MINUTES COMMAND …`, as `make test` runs pytest.

The limit of a single test (`timeout` in pyproject.toml) ends what hangs in a test. This one ends what hangs anywhere
else. At the limit the command's process group gets SIGQUIT, on which pytest says what is running
(tests/support/running.py), and half a minute later all that is left of the group is killed. The status is the
command's own, or 124 at the limit.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType

LAST_WORDS_S = 30.0
AT_THE_LIMIT = 124


def run_within(limit_s: float, command: list[str], *, last_words_s: float = LAST_WORDS_S) -> int:
    process = subprocess.Popen(command, process_group=0)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        _tell(process.pid, signal.Signals(number))

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"\nstill running after {limit_s / 60:g} minutes, so it is ended: {' '.join(command)}", flush=True)
        _tell(process.pid, signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(last_words_s)
        status = AT_THE_LIMIT
    finally:
        _tell(process.pid, signal.SIGKILL)  # workers that went on without it
        process.wait()
    return status if status >= 0 else 128 - status


def _tell(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(run_within(float(sys.argv[1]) * 60, sys.argv[2:]))
